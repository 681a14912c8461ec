"""Dot products of block floating point tensors with INT4 weights and with each other; vectors and matrices.

Paper: [harmonia §III-D, Fig. 11e], [harmonia §IV-B]. Per group of the reduction an exact integer sum, one conversion to
floating point, for weights one product with their factor, one FP32 addition. Decisions: D-harmonia-7 (`partial`),
D-harmonia-8 (`product`), D-harmonia-9 (`scale_per`), D-harmonia-10 (groups ascending from +0).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from refemu.arith import dot, fp16
from refemu.arith.checks import Refused, RefusedType, require_choice
from refemu.arith.dot import Sequential
from refemu.arith.operands import PRECISIONS, Precision
from refemu.formats import groups
from refemu.formats.groupint import GroupIntTensor
from refemu.formats.harmonia.bfp import BfpTensor

ScalePer: TypeAlias = Literal[32, 128]  #: inputs under one product with the weight factor (D-harmonia-9)
Preset: TypeAlias = Literal["paper", "exact"]  #: rounded partial sums, or exact ones
PRESETS: dict[Preset, Precision] = {"paper": "fp16", "exact": "fp32"}  #: `partial` of each preset (D-harmonia-7)


@dataclass(frozen=True, eq=False)
class Rows:
    """One side of a product: rows of integers along the reduction, a power of two per group, filled up with zeros."""

    values: np.ndarray  #: integers, (rows, groups * group)
    power: np.ndarray  #: int64, (rows, groups): a value is the integer times 2**power
    scale: np.ndarray | None  #: float16, (rows, groups), weight factors; None without
    group: int
    length: int  #: of the reduction, without what fills up the last group
    weight_groups: int  #: groups under one weight factor
    shape: tuple[int, ...]  #: of the outputs that the rows make: () for a vector

    def part(self, first: int, count: int) -> "Rows":
        """`count` groups from `first` on, without the weight factors."""
        some = slice(first, first + count)
        values = self.values[:, first * self.group : (first + count) * self.group]
        return replace(self, values=values, power=self.power[:, some], scale=None, length=values.shape[1])

    def sizes(self) -> "Rows":
        """What remains to be known when the values, powers and factors are packed elsewhere; keeps no array alive."""
        return replace(self, values=np.empty((0, 0), np.int8), power=np.empty((0, 0), np.int8), scale=None)

    def factors(self) -> np.ndarray:
        """The weight factors of a side that has them."""
        assert self.scale is not None
        return self.scale


def bfp_dot_int(
    a: BfpTensor,
    w: GroupIntTensor,
    *,
    partial: Precision = "fp16",
    product: Precision = "fp32",
    scale_per: ScalePer = 32,
) -> np.ndarray:
    """Multiply activations by INT4 weights, mode M8W4 (and any other width).

    Per group: the exact sum of s M w; times 2**power, rounded to `partial`; times the weight factor, rounded to
    `product`; added in FP32.

    Parameters
    ----------
    a : BfpTensor (in,) or (tokens, in)
        Grouped along `in`.
    w : GroupIntTensor (in,) or (out, in)
        Weights.
    partial : {"fp16", "fp32"}
        Rounding of a group's sum; "fp32" is exact below 2**24.
    product : {"fp32", "fp16"}
        Rounding of the product with the weight factor.
    scale_per : {32, 128}
        32: the factor at every group; 128: partials of a weight group are added in FP32 from +0 and scaled once.

    Returns
    -------
    ndarray of float32
        (), (out,), (tokens,) or (tokens, out).

    Raises
    ------
    Refused
        Lengths differ, or groups of `a` cross weight groups.

    References
    ----------
    [harmonia §IV-B]
    """
    left = rows(a, "bfp_dot_int")
    return weighted(_product, left, weight_rows(w, left.group), partial, product, scale_per)


def bfp_dot(a: BfpTensor, b: BfpTensor, *, partial: Precision = "fp16") -> np.ndarray:
    """Multiply activations by activations, modes M8M8 and M8M4 (and any other widths).

    The reduction may be either axis: scores take queries (tokens, d) and keys (tokens, d) along -1; the context takes
    scores (tokens, keys) along -1 and values (keys, d) along 0. Per group: the exact sum of s s M M times 2**power,
    rounded to `partial`, added in FP32.

    Parameters
    ----------
    a, b : BfpTensor
        Vectors or matrices in groups of one size along the reduction.
    partial : {"fp16", "fp32"}
        Rounding of a group's sum; "fp32" is exact below 2**24.

    Returns
    -------
    ndarray of float32
        (), (b's rows,), (a's rows,) or both.

    Raises
    ------
    Refused
        Lengths or groups differ.

    References
    ----------
    [harmonia §III-D, §IV-B]
    """
    left, right = rows(a, "bfp_dot"), rows(b, "bfp_dot")
    require_pair(left, right, "bfp_dot")
    return shaped(_product(left, right, partial, None), left, right)


def weighted(
    multiply: "Multiply", left: Rows, right: Rows, partial: Precision, product: Precision, scale_per: ScalePer
) -> np.ndarray:
    """`bfp_dot_int` of rows, by `multiply`."""
    require_choice(scale_per, get_args(ScalePer), "bfp_dot_int", "scale_per")
    require_pair(left, right, "bfp_dot_int")
    if scale_per == 32:
        return shaped(multiply(left, right, partial, product), left, right)
    return shaped(scaled_late(multiply, left, right, partial, product), left, right)


def _product(left: Rows, right: Rows, partial: Precision, product: Precision | None) -> np.ndarray:
    return grouped(dot.grouped_matmul, left, right, partial, product)


def grouped(
    matmul: Callable[..., np.ndarray], left: Rows, right: Rows, partial: Precision, product: Precision | None
) -> np.ndarray:
    """Sums over groups in ascending order from +0, by `dot.grouped_matmul` or its compiled form."""
    exponents = {"a_exp": left.power, "b_exp": right.power.T}
    scale = None if right.scale is None else right.scale.T
    rounding = {"partial": partial, "product": product, "order": Sequential(), "acc": "fp32"}
    return matmul(left.values, right.values.T, group=left.group, b_scale=scale, **exponents, **rounding)


Multiply = Callable[[Rows, Rows, Precision, Precision | None], np.ndarray]


def scaled_late(multiply: Multiply, left: Rows, right: Rows, partial: Precision, product: Precision) -> np.ndarray:
    """`scale_per` 128: every weight group summed without its factor by `multiply`, then scaled, then added."""
    require_choice(product, PRECISIONS, "bfp_dot_int", "product")
    total = np.zeros((len(left.values), len(right.values)), np.float32)
    for first in range(0, left.power.shape[1], right.weight_groups):
        sums = multiply(left.part(first, right.weight_groups), right.part(first, right.weight_groups), partial, None)
        with np.errstate(all="ignore"):
            scaled = sums.astype(np.float64) * right.factors()[:, first].astype(np.float64)  # 24 and 11 bits: exact
            total = total + (fp16.round16_of_f64(scaled) if product == "fp16" else scaled.astype(np.float32))
    return fp16.canonical(total)


def rows(t: object, thing: str) -> Rows:
    """A vector, or a matrix whose groups run along either axis, as rows of integers. thing: start of error messages."""
    if not isinstance(t, BfpTensor):
        raise RefusedType(f"{thing}: a BfpTensor is needed, got {type(t).__name__}")
    return vectors(t, t.signed(), thing)


def vectors(t: BfpTensor, signed: np.ndarray, thing: str) -> Rows:
    """`rows` of a tensor whose signed mantissas are known."""
    if t.mantissa.ndim not in (1, 2):
        raise RefusedType(f"{thing}: a vector or a matrix is needed, got shape {t.shape}")
    along = [array.T if t.axis == 0 else array for array in (signed, t.powers())]
    values, power = (array.reshape(-1, array.shape[-1]) for array in along)
    return Rows(filled(values, t.format.group), power, None, t.format.group, t.length, 1, along[0].shape[:-1])


def weight_rows(w: object, group: int) -> Rows:
    """Weights, one row per output, in the groups of `group` inputs that the activations have."""
    if not isinstance(w, GroupIntTensor) or w.code.ndim not in (1, 2):
        shape = w.shape if isinstance(w, GroupIntTensor) else type(w).__name__
        raise RefusedType(f"bfp_dot_int: w must be a GroupIntTensor of one or two axes, got {shape}")
    code, scale = (array.reshape(-1, array.shape[-1]) for array in (w.grid(), w.scales_of(group)))
    power, weight_groups = np.zeros(scale.shape, np.int64), groups.count(w.size, group)
    return Rows(filled(code, group), power, scale, group, w.shape[-1], weight_groups, w.shape[:-1])


def filled(values: np.ndarray, group: int) -> np.ndarray:
    """Rows of whole groups: zeros after the last element."""
    if values.shape[1] % group == 0:
        return values
    blocks = groups.split(values, group, -1)
    return blocks.reshape(len(values), blocks.shape[1] * group)


def require_pair(left: Rows, right: Rows, thing: str) -> None:
    """Reject reductions of different length or grouping."""
    if (left.length, left.group) != (right.length, right.group):
        raise Refused(
            f"{thing}: reductions of one length in groups of one size are needed, got {left.length} in "
            f"{left.group} and {right.length} in {right.group}"
        )


def shaped(total: np.ndarray, left: Rows, right: Rows) -> np.ndarray:
    """The (rows, rows) of the sums without the axes of vectors."""
    return total.reshape(left.shape + right.shape)
