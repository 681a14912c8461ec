"""Every compiled kernel that rounds to fp16, fuses or sums floats; the twins `fp16_jit`, `fp32_jit`, `sums_jit` and
`dot_jit`, and those of units, check and prepare what they are given.

Read the readable forms first. Kernels vectorise over outputs, never over the terms of a sum. Every operation is typed,
so that jitted and interpreted runs agree; unsigned subtractions wrap on purpose. A module a topic; `scalars` is what
all share. An edit in any of them is a new folder of compiled code (`jit.cache_key`).
"""

from refemu.arith.float_jit import (
    attention,
    bfp,
    counts,
    elementwise,
    groups,
    kmeans,
    kmeans_row,
    matmul,
    orders,
    paged,
    pages,
    rows,
    scalars,
    scores,
)
from refemu.arith.float_jit.attention import attention_heads
from refemu.arith.float_jit.bfp import bfp_heads, bfp_operand
from refemu.arith.float_jit.elementwise import (
    all_fp16,
    exp_all,
    fma16_all,
    fma16_of_words,
    fma32_all,
    narrow_all,
    round16_all,
    round16_of_f64_all,
    take_fours,
    values_by_table,
    widen_all,
)
from refemu.arith.float_jit.groups import GROUP_ROWS, grouped_tiles, running_sums
from refemu.arith.float_jit.kmeans import kmeans_dense, kmeans_merge, kmeans_sparse, kmeans_sparse64
from refemu.arith.float_jit.kmeans_row import kmeans_gated, kmeans_lay_out, kmeans_root, kmeans_scores
from refemu.arith.float_jit.matmul import (
    PAD,
    ROWS,
    TILE,
    matmul_fma16,
    matmul_fma32,
    matmul_fp16,
    matmul_fp32,
    vector_fma32,
    vector_fp16,
    vector_fp32,
)
from refemu.arith.float_jit.orders import STRIP, exact_limbs, run_program, run_program_of_terms, total_rows
from refemu.arith.float_jit.paged import paged_heads
from refemu.arith.float_jit.rows import group_terms, rmsnorm_rows, rotate_pairs, shifted_exp, softmax_rows
from refemu.arith.float_jit.scalars import ACCUMULATORS, FP32, FP32_FMA
from refemu.arith.float_jit.scores import mean_shares, paged_scores

MODULES = (
    scalars,
    elementwise,
    matmul,
    orders,
    rows,
    attention,
    groups,
    counts,
    kmeans,
    kmeans_row,
    pages,
    paged,
    scores,
    bfp,
)
__all__ = [
    "ACCUMULATORS",
    "FP32",
    "FP32_FMA",
    "GROUP_ROWS",
    "MODULES",
    "PAD",
    "ROWS",
    "STRIP",
    "TILE",
    "all_fp16",
    "attention_heads",
    "bfp_heads",
    "bfp_operand",
    "exact_limbs",
    "exp_all",
    "fma16_all",
    "fma16_of_words",
    "fma32_all",
    "group_terms",
    "grouped_tiles",
    "kmeans_dense",
    "kmeans_gated",
    "kmeans_lay_out",
    "kmeans_merge",
    "kmeans_root",
    "kmeans_scores",
    "kmeans_sparse",
    "kmeans_sparse64",
    "matmul_fma16",
    "matmul_fma32",
    "matmul_fp16",
    "matmul_fp32",
    "mean_shares",
    "narrow_all",
    "paged_heads",
    "paged_scores",
    "rmsnorm_rows",
    "rotate_pairs",
    "round16_all",
    "round16_of_f64_all",
    "run_program",
    "run_program_of_terms",
    "running_sums",
    "shifted_exp",
    "softmax_rows",
    "take_fours",
    "total_rows",
    "values_by_table",
    "vector_fma32",
    "vector_fp16",
    "vector_fp32",
    "widen_all",
]
