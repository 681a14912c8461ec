"""Compiled forms of bfp_dot: same names, same arguments, same bits. Read bfp_dot.py first. [harmonia §IV-B]

A right operand that is used again, such as the weights of a layer, is prepared once: `prepare`. `threads` (None: the
number of the process) share out independent outputs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith import dot_compiled
from refemu.arith.checks import RefusedType
from refemu.arith.dot import Sequential
from refemu.arith.group_panels import GroupPanels, group_panels
from refemu.arith.operands import Precision
from refemu.formats import groups
from refemu.formats.groupint import GroupInt, GroupIntTensor
from refemu.formats.harmonia.bfp import BfpTensor
from refemu.formats.harmonia.bfp_dot import (
    Rows,
    ScalePer,
    grouped,
    require_pair,
    rows,
    shaped,
    vectors,
    weight_rows,
    weighted,
)

PARTS = ("nibbles", "narrow", "wide", "powers", "scales")  #: arrays of panels


@dataclass(frozen=True, eq=False)
class Factors:
    """Parts of weights in addition to their codes."""

    format: GroupInt
    shape: tuple[int, ...]  #: of the codes
    scale: np.ndarray  #: float16, (..., groups)
    zero: np.ndarray | None  #: uint8, (..., groups); None without a zero point

    def __repr__(self) -> str:
        return f"GroupIntTensor({self.format.name}, shape={self.shape}, scale={self.scale.shape})"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A right operand in the order that the kernel reads; takes the tensor's place in `bfp_dot_int` and `bfp_dot`.

    The codes of weights are held once, in the panels.
    """

    source: BfpTensor | Factors
    panels: GroupPanels
    rows: Rows  #: sizes only

    @property
    def tensor(self) -> BfpTensor | GroupIntTensor:
        """The operand as given; rebuilt at each call for weights."""
        return self.source if isinstance(self.source, BfpTensor) else self.weights(self.source)

    def weights(self, factors: Factors) -> GroupIntTensor:
        """The tensor with these factors and the codes of the panels."""
        code = self.panels.arrays()["b"].T[:, : factors.shape[-1]].reshape(factors.shape)
        if factors.zero is not None:
            size = factors.format.size(factors.shape[-1])
            code = code + groups.spread(factors.zero.astype(np.int64), size, factors.shape[-1], code.ndim - 1)
        return factors.format.tensor(code, factors.scale, factors.zero)

    def __repr__(self) -> str:
        return f"<Prepared {self.source} {self.panels.nbytes} bytes>"


def prepare(tensor: BfpTensor | GroupIntTensor, group: int = 32) -> Prepared:
    """`tensor` for many products. group: of the activations that weights will meet; mantissas have their own."""
    if isinstance(tensor, GroupIntTensor):
        right = weight_rows(tensor, group)
        packed = group_panels(right.values.T, group=group, b_scale=right.factors().T)
        return Prepared(Factors(tensor.format, tensor.shape, tensor.scale, tensor.zero), packed, right.sizes())
    right = rows(tensor, "prepare")
    packed = group_panels(right.values.T, group=right.group, b_exp=right.power.T)
    return Prepared(tensor, packed, right.sizes())


def arrays(prepared: Prepared) -> dict[str, np.ndarray]:
    """Arrays from which `of_arrays` rebuilds prepared weights, for a file; other operands are not saved."""
    factors, sizes, packed = prepared.source, prepared.rows, prepared.panels
    if not isinstance(factors, Factors):
        raise RefusedType(f"arrays: weights are needed, got {type(factors).__name__}")
    numbers = [sizes.group, sizes.length, sizes.weight_groups, packed.peak, packed.scaled, *packed.shape, packed.group]
    parts = {name: getattr(packed, name) for name in PARTS}
    zero = {} if factors.zero is None else {"zero": factors.zero}
    shape = np.array(factors.shape, np.int64)
    return {**parts, "numbers": np.array(numbers, np.int64), "shape": shape, "factors": factors.scale, **zero}


def of_arrays(kept: Mapping[str, np.ndarray], fmt: GroupInt) -> Prepared:
    """The weights of format `fmt` whose `arrays` these are."""
    group, length, weight_groups, peak, scaled, terms, outputs, packed = kept["numbers"].tolist()
    shape = tuple(kept["shape"].tolist())
    parts = {name: kept[name] for name in PARTS}
    panels = GroupPanels(**parts, scaled=bool(scaled), shape=(terms, outputs), group=packed, peak=peak)
    nothing = np.empty((0, 0), np.int8)
    sizes = Rows(nothing, nothing, None, group, length, weight_groups, shape[:-1])
    return Prepared(Factors(fmt, shape, kept["factors"], kept.get("zero")), panels, sizes)


def bfp_dot_int(
    a: BfpTensor,
    w: GroupIntTensor | Prepared,
    *,
    partial: Precision = "fp16",
    product: Precision = "fp32",
    scale_per: ScalePer = 32,
    threads: int | None = None,
) -> np.ndarray:
    """`bfp_dot.bfp_dot_int`."""
    if isinstance(w, Prepared) and isinstance(w.source, Factors):
        if scale_per == 32:
            return _by_panels(_left(a, "bfp_dot_int"), w, "bfp_dot_int", partial, product, threads)
        w = w.weights(w.source)
    left = _left(a, "bfp_dot_int")
    return weighted(_product, left, weight_rows(w, left.group), partial, product, scale_per)


def bfp_dot(
    a: BfpTensor, b: BfpTensor | Prepared, *, partial: Precision = "fp16", threads: int | None = None
) -> np.ndarray:
    """`bfp_dot.bfp_dot`."""
    left = _left(a, "bfp_dot")
    if isinstance(b, Prepared) and isinstance(b.source, BfpTensor):
        return _by_panels(left, b, "bfp_dot", partial, None, threads)
    right = rows(b, "bfp_dot")
    require_pair(left, right, "bfp_dot")
    return shaped(_product(left, right, partial, None), left, right)


def _left(a: BfpTensor, thing: str) -> Rows:
    """`bfp_dot.rows` in 16 bits: a sign of 1 complements the magnitude and adds 1."""
    if not isinstance(a, BfpTensor):
        raise RefusedType(f"{thing}: a BfpTensor is needed, got {type(a).__name__}")
    minus = -a.sign.view(np.int8).astype(np.int16)
    return vectors(a, (a.mantissa.view(np.int16) ^ minus) - minus, thing)


def _by_panels(
    left: Rows, right: Prepared, thing: str, partial: Precision, product: Precision | None, threads: int | None
) -> np.ndarray:
    require_pair(left, right.rows, thing)
    operands: Any = {"group": left.group, "a_exp": left.power, "threads": threads}
    rounding: Any = {"partial": partial, "product": product, "order": Sequential(), "acc": "fp32"}
    total = dot_compiled.grouped_matmul(left.values, right.panels, **operands, **rounding)
    return shaped(total, left, right.rows)


def _product(left: Rows, right: Rows, partial: Precision, product: Precision | None) -> np.ndarray:
    return grouped(dot_compiled.grouped_matmul, left, right, partial, product)
