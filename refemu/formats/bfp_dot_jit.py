"""Compiled twins of bfp_dot: same names, same arguments, same bits. Read bfp_dot.py first. [harmonia §IV-B]

Weights that are used again are prepared once: `prepare`.
"""

import numpy as np

from refemu.arith import dot_jit
from refemu.arith.dot import Sequential
from refemu.formats.bfp_dot import Rows, require_pair, rows, shaped, weight_rows, weighted
from refemu.formats.bfp_tensor import BfpTensor
from refemu.formats.groupint_tensor import GroupIntTensor


def bfp_dot_int(a: BfpTensor, w: GroupIntTensor, *, partial: str = "fp16", product: str = "fp32",
                scale_per: int = 32) -> np.ndarray:
    """`bfp_dot.bfp_dot_int`."""
    return weighted(_product, rows(a, "bfp_dot_int"), weight_rows(w, a.format.group), partial, product, scale_per)


def bfp_dot(a: BfpTensor, b: BfpTensor, *, partial: str = "fp16") -> np.ndarray:
    """`bfp_dot.bfp_dot`."""
    left, right = rows(a, "bfp_dot"), rows(b, "bfp_dot")
    require_pair(left, right, "bfp_dot")
    return shaped(_product(left, right, partial, None), left, right)


def _product(left: Rows, right: Rows, partial: str, product: str | None) -> np.ndarray:
    return dot_jit.grouped_matmul(left.values, right.values.T, group=left.group, a_exp=left.power,
                                  b_exp=right.power.T, b_scale=None if right.scale is None else right.scale.T,
                                  partial=partial, product=product, order=Sequential(), acc="fp32")
