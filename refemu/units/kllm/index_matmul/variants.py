"""Variants of the decisions of index_matmul."""

import numpy as np

from refemu.arith import dot, fp16
from refemu.arith.checks import Refused
from refemu.arith.scalar32 import pattern16, pattern32, value16, value32
from refemu.formats.kllm.kllm_arith import LANES
from refemu.units.declaration import DeclaredState
from refemu.units.kllm.fp16_mac import ONE, Fp16Mac
from refemu.units.kllm.index_matmul.accumulators import Macs
from refemu.units.kllm.index_matmul.index_matmul import IndexMatmul
from refemu.units.kllm.index_matmul.problem import Column
from refemu.units.kllm.weighted_sum.variants import option
from refemu.units.variant import Variant, choices, overriding

WIDTH = 3  #: bits of a narrow counter


def _truncated(x: np.ndarray) -> np.ndarray:
    """fp16 values, toward 0."""
    return fp16.round16(x, fp16.Fp16Mode(rounding="truncate"))


def _fused_merge(old: IndexMatmul, self: IndexMatmul, inside: int, outside: int, column: Column) -> int:
    if not isinstance(self.accumulator, Macs):
        raise Refused("index_matmul: this accumulator has no fp16 MACs")
    self.accumulator.merging = Fp16Mac("fp16_fma")
    return old._merged(inside, outside, column)


def _bias_first(old: IndexMatmul, self: IndexMatmul, inside: int, outside: int, column: Column) -> int:
    if not isinstance(self.accumulator, Macs) or column.bias is None:
        raise Refused("index_matmul: no bias, or it is rounded once with the rest")
    _, word = Fp16Mac().multiply_add(self.state.bias, ONE, pattern16(value32(outside)))
    return old._merged(inside, pattern32(value16(word)), column._replace(bias=None))


def _shift_last(old: IndexMatmul, self: IndexMatmul, inside: int, outside: int, column: Column) -> int:
    if not isinstance(self.accumulator, Macs) or column.bias is None or column.shift is None:
        raise Refused("index_matmul: no bias, no shift, or they are rounded once with the rest")
    before = old._merged(inside, outside, column._replace(shift=None))
    return Fp16Mac().multiply_add(self.state.shift ^ 0x8000, self.state.row_sum, before)[1]


def _scale_first(old: IndexMatmul, self: IndexMatmul, count: tuple[int, ...], column: Column) -> int:
    if self.arith.acc == "exact":
        raise Refused("index_matmul: the exact accumulator rounds once, in any order of scales")
    with np.errstate(all="ignore"):  # an infinite scale times an entry of 0
        table = fp16.round16(np.asarray(column.table, np.float32) * np.float32(column.scale))
    return old._dense(count, column._replace(table=table))


def _only_a(old: IndexMatmul, self: IndexMatmul, state: DeclaredState) -> Column:
    if self.integer or self.norm != "none":
        raise Refused("index_matmul: integers, and weights after a norm, have no outliers")
    column = old._column(state)
    return column._replace(left_out=np.array(state.a_mask) > 0)


def _truncated_weights(old: IndexMatmul, self: IndexMatmul, state: DeclaredState) -> Column:
    column = old._column(state)
    if self.integer or self.arith.acc == "exact":
        raise Refused("index_matmul: the sparse path has no scale of B, or its operands must be fp16")
    scale, codebook = (fp16.values(np.array(word)) for word in (state.b_scale, state.b_codebook))
    exact = codebook[column.b].astype(np.float32) * np.float32(scale)
    outlier = np.array(state.b_mask if state.b_mask != () else (0,) * self.k) > 0
    return column._replace(b_value=fp16.round16(np.where(outlier, column.b_value, _truncated(exact))))


_device = overriding(IndexMatmul)
VARIANTS: tuple[Variant, ...] = (
    *choices("D-kllm-1", "preset", "exact"),
    option("D-kllm-2", "32 MACs, their results added as a tree", acc="fp16", order=LANES),
    option("D-kllm-3", "a MAC rounds once", acc="fp16_fma", order=dot.Sequential()),
    option("D-kllm-33", "the product of the scales is not rounded", scale_y="exact"),
    _device("D-kllm-3: the MACs of the merge round once", _merged=_fused_merge),
    _device("D-kllm-40: the bias joins the sparse part", _merged=_bias_first),
    _device("D-kllm-40: the bias is added before the shift", _merged=_shift_last),
    _device(
        "D-kllm-33: the scales are multiplied into the table",
        _dense=_scale_first,
        _merged=lambda old, self, inside, outside, column: old._merged(
            inside, outside, column._replace(scale=np.float64(1))
        ),
    ),
    _device("D-kllm-12: only outliers of A are excluded from the counts", _column=_only_a),
    _device(
        "D-kllm-13: positions of outliers are counted too", _counts=lambda self, column: np.ones_like(column.left_out)
    ),
    _device("D-kllm-32: weights of the sparse path are truncated to fp16", _column=_truncated_weights),
    _device(
        "D-kllm-4: counters of three bits wrap",
        _dense=lambda old, self, count, column: old._dense(
            tuple(number & ((1 << WIDTH) - 1) for number in count), column
        ),
    ),
)
UNOBSERVABLE = {
    "D-kllm-5": "The entries of the product codebook are inputs; this unit does not round them.",
    "D-kllm-10": "Zero points do not cross the ports of this unit; they belong to whole tensors.",
    "D-kllm-14": "Scales of V are folded into the scores before they reach this unit, which has a port for one scale.",
    "D-kllm-37": "The divided scale and centroids are inputs; index_norm shows them.",
    "D-kllm-39": "LayerNorm's shift and R_n are inputs; index_norm shows its variance.",
}
