"""Compiled twins of bfp_dot: same names, same arguments, same bits. Read bfp_dot.py first. [harmonia §IV-B]

A right operand that is used again, such as the weights of a layer, is prepared once: `prepare`. `threads` (None: the
number of the process) share out independent outputs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith import dot_jit
from refemu.arith.checks import RefusedType
from refemu.arith.dot import Sequential
from refemu.arith.group_panels import GroupPanels, group_panels
from refemu.arith.operands import Precision
from refemu.formats.groupint import GroupIntTensor
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


@dataclass(frozen=True, eq=False)
class Prepared:
    """A right operand in the order that the kernel reads; takes the tensor's place in `bfp_dot_int` and `bfp_dot`."""

    tensor: BfpTensor | GroupIntTensor
    panels: GroupPanels
    rows: Rows  #: without values

    def __repr__(self) -> str:
        return f"<Prepared {self.tensor} {self.panels.nbytes} bytes>"


def prepare(tensor: BfpTensor | GroupIntTensor, group: int = 32) -> Prepared:
    """`tensor` for many products. group: of the activations that weights will meet; mantissas have their own."""
    if isinstance(tensor, GroupIntTensor):
        right = weight_rows(tensor, group)
        packed = group_panels(right.values.T, group=group, b_scale=right.factors().T)
    else:
        right = rows(tensor, "prepare")
        packed = group_panels(right.values.T, group=right.group, b_exp=right.power.T)
    return Prepared(tensor, packed, right.without_values())


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
    if isinstance(w, Prepared) and isinstance(w.tensor, GroupIntTensor):
        if scale_per == 32:
            return _by_panels(_left(a, "bfp_dot_int"), w, "bfp_dot_int", partial, product, threads)
        w = w.tensor
    left = _left(a, "bfp_dot_int")
    return weighted(_product, left, weight_rows(w, left.group), partial, product, scale_per)


def bfp_dot(
    a: BfpTensor, b: BfpTensor | Prepared, *, partial: Precision = "fp16", threads: int | None = None
) -> np.ndarray:
    """`bfp_dot.bfp_dot`."""
    left = _left(a, "bfp_dot")
    if isinstance(b, Prepared) and isinstance(b.tensor, BfpTensor):
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
    total = dot_jit.grouped_matmul(left.values, right.panels, **operands, **rounding)
    return shaped(total, left, right.rows)


def _product(left: Rows, right: Rows, partial: Precision, product: Precision | None) -> np.ndarray:
    return grouped(dot_jit.grouped_matmul, left, right, partial, product)
