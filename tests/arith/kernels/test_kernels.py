"""The kernel files: few signatures, and accumulators under the names that compiled forms use.

Tests of the readable forms check what the kernels compute.
"""

import inspect

import numpy as np
import pytest

from refemu.arith import dot_compiled, fp16_compiled, fp32, fp32_compiled, kernels, operands, sums_compiled
from refemu.arith.orders import Sequential, Tree
from tests.arith.interpreted import needs_compiled

KERNELS = {
    name: value for module in kernels.MODULES for name, value in vars(module).items() if hasattr(value, "py_func")
}


def use_everything():
    """Every kernel, with arrays as different users bring them: frozen, transposed, sliced, of either weight type."""
    x = np.random.default_rng(1).normal(size=(18, 40)).astype(np.float16).astype(np.float32)
    frozen = x.copy()
    frozen.flags.writeable = False
    for a in (x, frozen, x[::2], x.T[:18, :18], x[:1], x[:0]):
        for acc in ("fp32", "fp32_fma", "fp16", "fp16_fma"):
            for weights in (a, a.astype(np.float16)):
                dot_compiled.matmul(a, dot_compiled.panels(weights), order=Sequential(), acc=acc)
        dot_compiled.matmul(a, a.T, order=Tree(4), acc="fp32")
        dot_compiled.dot(a, a, order=dot_compiled.readable.Exact(), acc="exact", out="fp16")
        for order in (Sequential(), Tree(2)):
            dot_compiled.total32(a, order=order)
            dot_compiled.total64(a.astype(np.float64), order=order)
            fp32_compiled.softmax32(a, order)
        fp32_compiled.rmsnorm(a, a.sum(0), 1e-5, Sequential())
        (
            fp16_compiled.round16(a),
            fp16_compiled.round16_of_f64(a.astype(np.float64)),
            fp16_compiled.to_f32(a.astype(np.float16)),
        )
        fp16_compiled.fma16(a, a, a), fp32_compiled.fma32(a, a, a), fp32_compiled.exp32(a)
        q = a[:, None, :8]
        fp32_compiled.rotate(q, a[:, :4], a[:, :4], True)
        dot_compiled.attention(q, q, q, scale=np.float32(1), start=0)
    groups = {"group": 2, "a_exp": np.zeros((3, 2), int), "order": Tree(2), "acc": "fp32", "product": "fp16"}
    b = np.arange(8).reshape(4, 2)
    dot_compiled.grouped_matmul(np.ones((3, 4), int), b, b_scale=b[:2].astype(np.float16), partial="fp16", **groups)
    dot_compiled.grouped_matmul(np.ones((3, 4), int), b.T.reshape(2, 4).T, partial="fp32", **groups)
    for rows, top in ((1, 7), (5, 7), (5, 300)):
        wide = np.full((16, 3), top)
        right = dot_compiled.group_panels(
            wide, group=8, b_exp=np.ones((2, 3), int), b_scale=wide[:2].astype(np.float16)
        )
        dot_compiled.grouped_matmul(
            np.ones((rows, 16), int),
            right,
            partial="fp16",
            **{**groups, "group": 8, "a_exp": np.zeros((rows, 2), int), "order": Sequential()},
        )
    for a in (x, frozen):
        sums_compiled.running32(a, a)


@pytest.mark.long
@needs_compiled
def test_kernel_is_compiled_for_one_set_of_types():
    """Twice where float32 and float64, or weights or counters of two widths, are both wanted; a copy thrice."""
    use_everything()
    several = dict.fromkeys(
        [
            "total_rows",
            "run_program_of_terms",
            "plus",
            "copy_all",
            "clear_all",
            "row_fp32",
            "_row_fp16",
            "spread",
            "_clear_rows",
            "_keep_counts",
            "_reduce_by_four",
            "_reduce_counts",
            "_total_counts",
        ],
        2,
    ) | {"_copy_rows": 3}
    counts = {name: len(kernel.signatures) for name, kernel in KERNELS.items()}
    scalars = {name for name, kernel in KERNELS.items() if not inspect.getsource(kernel.py_func).count("for ")}

    assert {name: count for name, count in counts.items() if count > several.get(name, 1) and name not in scalars} == {}


def test_accumulators_have_their_names():
    assert list(kernels.ACCUMULATORS) == [acc for acc in operands.ACCUMULATORS if acc not in ("exact", "int")]
    assert list(kernels.ACCUMULATORS.values()) == [0, 1, 2, 3]


def test_constants_are_those_of_the_readable_exponential():
    scalars = kernels.scalars

    assert scalars.EXP_TABLE is fp32.exp_table()
    assert [scalars.EXP_INV, scalars.EXP_HI, scalars.EXP_LO] == [fp32.INV, fp32.HI, fp32.LO]
    assert [scalars.C3, scalars.C4, scalars.C5] == [fp32.C3, fp32.C4, fp32.C5]


def test_results_are_same_for_kernels_own_types_only():
    """`plain` is what keeps signatures few: contiguous and writable."""
    x = np.ones((4, 4), np.float32)
    x.flags.writeable = False

    assert fp16_compiled.plain(x).flags.writeable and fp16_compiled.plain(x.T).flags.c_contiguous
    y = np.ones(3, np.float32)
    assert fp16_compiled.plain(y) is y
