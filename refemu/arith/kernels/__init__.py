"""Every compiled kernel that rounds to fp16, fuses or sums floats.

The compiled forms `fp16_compiled`, `fp32_compiled`, `sums_compiled` and `dot_compiled`, and those of units, check and
prepare the arguments.

Read the readable forms first. Kernels vectorise over outputs, never over the terms of a sum. Every operation is typed,
so that jitted and interpreted runs agree; unsigned subtractions wrap on purpose. A module a topic; `scalars` is what
all share.
"""

from refemu.arith.kernels import attention, elementwise, groups, layout, matmul, orders, rows, scalars
from refemu.arith.kernels.attention import attention_heads
from refemu.arith.kernels.elementwise import (
    all_fp16,
    exp_all,
    fma16_all,
    fma16_of_words,
    fma32_all,
    narrow_all,
    round16_all,
    round16_of_f64_all,
    take_fours,
    tanh_all,
    values_by_table,
    widen_all,
)
from refemu.arith.kernels.groups import DEPTH, GROUP_ROWS, grouped_row, grouped_tiles, running_sums
from refemu.arith.kernels.layout import transpose_words
from refemu.arith.kernels.matmul import (
    FEW,
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
from refemu.arith.kernels.orders import STRIP, exact_limbs, run_program, run_program_of_terms, total_rows
from refemu.arith.kernels.rows import group_terms, rmsnorm_rows, rotate_pairs, shifted_exp, softmax_rows
from refemu.arith.kernels.scalars import ACCUMULATORS, FP32, FP32_FMA

MODULES = (scalars, elementwise, layout, matmul, orders, rows, attention, groups)
