"""The nearest member of an ascending list of magnitudes: the one rounding of all element formats.

Paper: [olive Alg. 2 l.3] says "Round" and nothing about ties. Decisions: D-olive-7 (ties of normal values), D-olive-8
(ties of outliers). A value is compared with the midpoints, which are exact; no difference is ever rounded.
"""

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, as_array, first_index

#: of `Rounding`, the rules for a value midway between two magnitudes
Ties: TypeAlias = Literal[
    "half_even",  # to the even rank
    "half_away",  # away from 0
    "half_up",  # toward +infinity
    "half_down",  # toward -infinity
]
TIES: tuple[Ties, ...] = get_args(Ties)


def exact(values: ArrayLike, thing: str) -> np.ndarray:
    """`values` without loss: floats as float64, integers as int64 or uint64, same shape.

    Raises like `require_real` and `require_finite`.
    """
    array = require_real(values, thing)
    if array.dtype.kind == "f":
        return require_finite(array, thing).astype(np.float64)
    return array.astype(np.int64 if array.dtype.kind == "i" else np.uint64)


def require_real(values: ArrayLike, thing: str) -> np.ndarray:
    """`values` as an array of integers, float16, float32 or float64; rejects every other dtype."""
    array = as_array(values)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise RefusedType(f"{thing}: values must be integers, float16, float32 or float64, got dtype {array.dtype}")
    return array


def require_finite(values: np.ndarray, thing: str) -> np.ndarray:
    """Floats without NaN and infinity; rejects the first one with its index (D-olive-47)."""
    bad = ~np.isfinite(values)
    if bad.any():
        index = first_index(bad)
        raise Refused(f"{thing}: values[{', '.join(map(str, index))}] is {values[index]}; values must be finite")
    return values


def magnitude(values: np.ndarray) -> np.ndarray:
    """|values| without loss: float64 of float64, uint64 of integers (int64 cannot hold 2**63)."""
    if values.dtype.kind == "i":
        return (values ^ (values >> 63)).astype(np.uint64) + (values < 0)
    return np.abs(values)


def nearest(values: np.ndarray, magnitudes: np.ndarray, rounding: Ties, first_rank: int = 0) -> np.ndarray:
    """Rank of the magnitude nearest to |values|; beyond both ends the end itself.

    values: what `exact` returns, or float64 with infinities. magnitudes: ascending int64, below 2^53.
    rounding: one of TIES. first_rank: rank of magnitudes[0]; the ranks that follow are consecutive.
    Returns int64, same shape.
    """
    size, middle = magnitude(values), (magnitudes[:-1] + magnitudes[1:]) / 2
    below = np.searchsorted(middle, size, side="left")
    above = np.searchsorted(middle, size, side="right")  # differs from `below` on a midpoint only
    return np.where(_outward(values, below + first_rank, rounding), above, below) + first_rank


def _outward(values: np.ndarray, rank: np.ndarray, rounding: Ties) -> np.ndarray:
    """Whether a value midway between `rank` and `rank` + 1 goes to the larger magnitude."""
    rules = {"half_even": rank % 2 == 1, "half_away": rank >= 0, "half_up": values > 0, "half_down": values < 0}
    return rules[rounding]
