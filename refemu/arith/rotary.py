"""Rotary tables: cosines and sines of position * base**(-2i/d), right in float32 and fp16 after one rounding.

Angles are fractions of a turn in fixed point, so nothing is lost as positions grow, and no library sine is used: those
of float32 change with the CPU. Decision: D-arith-8 (`mode`).
"""

import functools
import math
from decimal import Context, Decimal
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import selftest
from refemu.arith.checks import Refused, RefusedType, require_choice, require_range

POSITIONS = 1 << 22  #: upper bound of positions, exclusive
RotaryMode: TypeAlias = Literal["exact", "f32_angle"]  #: of the exact angle, or of one rounded to float32 (D-arith-8)

_CONTEXT = Context(prec=60)
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")
_TURN = float(_CONTEXT.divide(_CONTEXT.multiply(_PI, 2), Decimal(1 << 62)))  # radians of a 2**-62 of a turn
_LOW = (1 << 40) - 1
_SIN = [(-1) ** n / math.factorial(2 * n + 1) for n in range(7, 0, -1)]
_COS = [(-1) ** n / math.factorial(2 * n) for n in range(8, 0, -1)]


def rotary(
    positions: ArrayLike, head_dim: int, base: float, mode: RotaryMode = "exact"
) -> tuple[np.ndarray, np.ndarray]:
    """(cos, sin), float64 (..., head_dim / 2), of `positions`, integers in [0, 2**22) of any shape (...).

    The caller rounds once, to float32 or fp16. mode "exact": of the exact angle p * base**(-2i/head_dim). "f32_angle":
    of f32(f32(p) * f32(1 / f32(base**(2i/head_dim)))), as code in float32 has it; its error grows with the position.
    Raises Refused for a position out of range, an odd `head_dim`, a `base` that is not above 0, an unknown mode.
    """
    require_choice(mode, get_args(RotaryMode), "rotary", "mode")
    p = require_range(positions, 0, POSITIONS, "rotary", "position").astype(np.int64)
    _require_parameters(head_dim, base)
    selftest.require_round_to_nearest()
    fraction = _exact(p, head_dim, base) if mode == "exact" else _f32_angle(p, head_dim, base)
    return _cos_sin(fraction)


def rotary_of(
    positions: ArrayLike, frequencies: tuple[Decimal, ...], gain: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """(gain * cos, gain * sin), float64 (..., n), of the exact angles position * frequency (D-arith-30).

    positions: as for `rotary`. frequencies: n, in radians per position, in [0, 6), as from `rope_scaling`.
    Raises Refused for a position or a frequency out of range.
    """
    p = require_range(positions, 0, POSITIONS, "rotary_of", "position").astype(np.int64)
    for index, frequency in enumerate(frequencies):
        if not 0 <= frequency < 6:
            raise Refused(f"rotary_of: a frequency must be in [0, 6), got {frequency} at index {index}")
    selftest.require_round_to_nearest()
    cos, sin = _cos_sin(_fractions(p, *_fixed(tuple(frequencies))))
    return np.float64(gain) * cos, np.float64(gain) * sin


def inverse_powers(head_dim: int, base: float) -> tuple[Decimal, ...]:
    """base**(-2i/head_dim), 60 digits: the frequencies without scaling."""
    _require_parameters(head_dim, base)
    return tuple(_CONTEXT.divide(1, power) for power in _powers(head_dim, base))


def _require_parameters(head_dim: int, base: float) -> None:
    if isinstance(head_dim, bool) or not isinstance(head_dim, int | np.integer):
        raise RefusedType(f"rotary: head_dim must be an integer, got {head_dim!r}")
    if head_dim < 2 or head_dim % 2:
        raise Refused(f"rotary: head_dim must be even and at least 2, got {head_dim}")
    if not 0 < base < math.inf:
        raise Refused(f"rotary: base must be above 0 and finite, got {base}")


@functools.lru_cache(maxsize=16)
def _powers(head_dim: int, base: float) -> tuple[Decimal, ...]:
    """base**(2i/head_dim), 60 digits."""
    log = _CONTEXT.ln(Decimal(base))
    return tuple(
        _CONTEXT.exp(_CONTEXT.multiply(log, _CONTEXT.divide(Decimal(2 * i), Decimal(head_dim))))
        for i in range(head_dim // 2)
    )


@functools.lru_cache(maxsize=16)
def _turns(head_dim: int, base: float) -> tuple[np.ndarray, np.ndarray]:
    """Turns per position in units of 2**-80, as (high, low) parts of 40 bits."""
    scale = _CONTEXT.divide(Decimal(1 << 80), _CONTEXT.multiply(_PI, 2))
    whole = [int(_CONTEXT.to_integral_value(_CONTEXT.divide(scale, power))) for power in _powers(head_dim, base)]
    return np.array([t >> 40 for t in whole], np.int64), np.array([t & _LOW for t in whole], np.int64)


@functools.lru_cache(maxsize=16)
def _fixed(frequencies: tuple[Decimal, ...]) -> tuple[np.ndarray, np.ndarray]:
    """`_turns` of radians per position."""
    scale = _CONTEXT.divide(Decimal(1 << 80), _CONTEXT.multiply(_PI, 2))
    whole = [int(_CONTEXT.to_integral_value(_CONTEXT.multiply(scale, frequency))) for frequency in frequencies]
    return np.array([t >> 40 for t in whole], np.int64), np.array([t & _LOW for t in whole], np.int64)


def _exact(p: np.ndarray, head_dim: int, base: float) -> np.ndarray:
    """Fraction of a turn at each position, in units of 2**-62."""
    return _fractions(p, *_turns(int(head_dim), base))


def _fractions(p: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Positions times turns in two parts of 40 bits, without whole turns, in units of 2**-62."""
    lower = p[..., None] * low  # below 2**62
    upper = (p[..., None] * high + (lower >> 40)) & _LOW
    return (upper << 22) | ((lower & _LOW) >> 18)


def _f32_angle(p: np.ndarray, head_dim: int, base: float) -> np.ndarray:
    inverse = np.float32(1) / np.array([_nearest32(power) for power in _powers(int(head_dim), base)], np.float32)
    angle = p.astype(np.float32)[..., None] * inverse
    per_radian = int(_CONTEXT.to_integral_value(_CONTEXT.divide(Decimal(1 << 160), _CONTEXT.multiply(_PI, 2))))
    fraction, exponent = np.frexp(angle.astype(np.float64))
    significand = np.ldexp(fraction, 24).astype(np.int64)  # exact: 24 bits
    shift = (98 + 24 - exponent).astype(object)
    return (((significand.astype(object) * per_radian) >> shift) & ((1 << 62) - 1)).astype(np.int64)


def _nearest32(x: Decimal) -> np.float32:
    """The float32 nearest to `x`, by comparing it with the candidates around its float64 value."""
    near = np.float32(float(x))
    candidates = [near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf))]
    return min(candidates, key=lambda c: abs(Fraction(float(c)) - Fraction(x)))


def _cos_sin(fraction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(cos, sin) of a fraction of a turn in units of 2**-62: the nearest quarter, and a polynomial of the rest."""
    quarter = (fraction + (1 << 59)) >> 60
    x = (fraction - (quarter << 60)).astype(np.float64) * _TURN
    z = x * x
    sin = x + x * (z * _horner(_SIN, z))
    cos = 1.0 + z * _horner(_COS, z)
    odd, left, below = (quarter & 1) == 1, ((quarter + 1) & 2) == 2, (quarter & 2) == 2
    c, s = np.where(odd, sin, cos), np.where(odd, cos, sin)
    return np.where(left, -c, c), np.where(below, -s, s)


def _horner(coefficients: list[float], z: np.ndarray) -> np.ndarray:
    total = np.zeros_like(z)
    for c in coefficients:
        total = total * z + c
    return total
