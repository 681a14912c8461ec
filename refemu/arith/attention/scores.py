"""Attention logits between the scale and the softmax: soft cap, ALiBi, sliding window.

In this order, in float32, every step rounded: the logits of Gemma 2 go through cap * tanh(x / cap), those of BLOOM get
slope * distance, and under a window a query sees its newest keys only. Decisions: D-arith-27 (tanh, soft cap),
D-arith-28 (ALiBi), D-arith-29 (window).
"""

from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, require_int
from refemu.arith.fp16 import canonical
from refemu.arith.fp32 import exp64, require_f32

NEVER = 1 << 40  #: a window larger than any text
SERIES = 0.0625  #: below, tanh is a sum of powers
TERMS = (
    21844 / 6081075,
    -1382 / 155925,
    62 / 2835,
    -17 / 315,
    2 / 15,
    -1 / 3,
)  #: of a**13, a**11, ..., a**3

_CONTEXT = Context(prec=60)


def tanh32(x: ArrayLike) -> np.ndarray:
    """Hyperbolic tangent, rounded once to float32 from float64 steps (D-arith-27).

    Below 1/16 the Taylor series up to the 13th power, else (1 - t) / (1 + t) of t = e**(-2 |x|). The float64 value is
    within 2**-49 of the exact one.

    Parameters
    ----------
    x : array_like of float32
        Values.

    Returns
    -------
    ndarray of float32
        Results, with the sign of x.

    Raises
    ------
    RefusedType
        Another dtype.
    """
    value = require_f32(x, "tanh32")
    nan = np.isnan(value)
    wide = np.where(nan, np.float32(0), value).astype(np.float64)
    a = np.abs(wide)
    small, z = np.minimum(a, SERIES), np.zeros_like(a)
    for term in TERMS:
        z = z * (small * small) + term
    t = exp64(np.maximum(-2.0 * a, -110.0))
    y = np.where(a < SERIES, small + small * (small * small * z), (1.0 - t) / (1.0 + t))
    return canonical(np.where(nan, np.float32(np.nan), np.copysign(y, wide).astype(np.float32)))


def softcap(x: np.ndarray, cap: float) -> np.ndarray:
    """cap * tanh32(x / cap) of float32 `x`; quotient and product are rounded to float32 (D-arith-27)."""
    limit = np.float32(cap)
    with np.errstate(all="ignore"):
        return canonical(limit * tanh32(x / limit))


def alibi_slopes(heads: int) -> tuple[float, ...]:
    """The slope of each head, rounded once to float32 (D-arith-28).

    Of the largest power of two n <= `heads`: 2**(-8 h / n) for h = 1 ... n; the heads beyond have the odd ones of 2 n.
    """
    require_int(heads, 1, 1 << 16, "alibi_slopes", "heads")
    even = 1 << heads.bit_length() - 1
    exponents = [Decimal(-8 * h) / even for h in range(1, even + 1)]
    exponents += [Decimal(-8 * h) / (2 * even) for h in range(1, 2 * (heads - even), 2)]
    return tuple(float(np.float32(_CONTEXT.power(Decimal(2), exponent))) for exponent in exponents)


@dataclass(frozen=True)
class ScoreRule:
    """Changes of the logits of one layer; none by default.

    Raises
    ------
    Refused
        A window or cap below 0.
    """

    window: int = 0  #: number of keys that a query sees, its own the last of them; 0: all
    cap: float = 0.0  #: a float32; 0: none
    slopes: tuple[float, ...] = ()  #: a float32 for each query head; (): no ALiBi

    def __post_init__(self) -> None:
        if self.window < 0 or not 0 <= self.cap < np.inf:
            raise Refused(f"ScoreRule: window and cap must not be below 0, got {self.window}, {self.cap}")

    @property
    def plain(self) -> bool:
        """Whether logits go to the softmax unchanged, for all keys."""
        return self == PLAIN

    def first(self, end: int) -> int:
        """The first key that a query sees after `end` - 1 others (D-arith-29)."""
        return max(0, end - self.window) if self.window else 0

    def slope(self, head: int) -> np.float32 | None:
        """The slope of a query head, None without ALiBi."""
        return np.float32(self.slopes[head]) if self.slopes else None

    def apply(self, logits: np.ndarray, slope: Any = None, ends: Any = None) -> np.ndarray:
        """Logits for the softmax.

        logits: float32 (rows, keys). slope: of the rows' heads, one or (rows, 1). ends: (rows, 1), the keys up to a
        row's own; by default all.
        """
        capped = softcap(logits, self.cap) if self.cap else logits
        if slope is None:
            return capped
        last = logits.shape[1] if ends is None else ends
        distance = (np.arange(logits.shape[1]) - (last - 1)).astype(np.float32)
        with np.errstate(all="ignore"):
            return canonical(capped + slope * distance)

    def hides(self, keys: int, ends: np.ndarray) -> np.ndarray:
        """Whether row r does not see a key (rows, keys); ends: (rows,), the keys up to its own."""
        places, last = np.arange(keys), ends[:, None]
        late = places >= last
        return late | (places < last - self.window) if self.window else late

    def fields(self, heads: int) -> tuple[int, np.float32, np.ndarray]:
        """Window, cap and slopes for kernels. Rejects another number of slopes than of `heads`."""
        if self.slopes and len(self.slopes) != heads:
            raise Refused(f"ScoreRule: slopes for {heads} heads are needed, got {len(self.slopes)}")
        return self.window or NEVER, np.float32(self.cap), np.array(self.slopes, np.float32)


PLAIN = ScoreRule()
