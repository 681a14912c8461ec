"""Scalings of rotary positions: frequencies for longer texts than those of the original training (D-arith-30).

Each scaling changes the frequencies base**(-2i/d) by the formula that its authors published, in decimal arithmetic of
60 digits; only the tables are rounded to a binary format. Parameters are the exact values of
the floats in a configuration. `gain` multiplies cosines and sines.

- `LinearScaling`: position interpolation, https://arxiv.org/abs/2306.15595.
- `Llama3Scaling`: of Llama 3.1 and later.
- `YarnScaling`: https://arxiv.org/abs/2309.00071.
- `FactorScaling`: a factor for each frequency, as the file has them; two lists for LongRoPE,
  https://arxiv.org/abs/2402.13753, whose longer one is for texts beyond `original` tokens (D-arith-31).
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TypeAlias

from refemu.arith.checks import Refused
from refemu.arith.records import parameters, plain_fields
from refemu.arith.rotary import inverse_powers

_CONTEXT = Context(prec=60)
_TWO_PI = Decimal("6.28318530717958647692528676655900576839433879875021164194988918461563281257241799725606")

Frequencies: TypeAlias = tuple[Decimal, ...]  #: radians per position, one for each pair of channels


@parameters
class LinearScaling:
    """Every frequency divided by a factor."""

    factor: float

    def __post_init__(self) -> None:
        plain_fields(self)
        _require_positive("LinearScaling", factor=self.factor)

    def frequencies(self, dim: int, base: float, long: bool = False) -> Frequencies:
        """Frequencies of `dim` channels."""
        return tuple(_CONTEXT.divide(f, Decimal(self.factor)) for f in inverse_powers(dim, base))


@parameters
class Llama3Scaling:
    """Frequencies of long waves divided by a factor, those of short waves unchanged, a weighted mean in between."""

    factor: float
    low: float  #: waves longer than original / low are divided
    high: float  #: waves shorter than original / high are unchanged
    original: int  #: context before the scaling

    def __post_init__(self) -> None:
        plain_fields(self)
        _require_positive("Llama3Scaling", factor=self.factor, low=self.low, original=self.original)
        if not self.low < self.high:
            raise Refused(f"Llama3Scaling: low must be below high, got {self.low}, {self.high}")

    def frequencies(self, dim: int, base: float, long: bool = False) -> Frequencies:
        """Frequencies of `dim` channels."""
        return tuple(self._scaled(f) for f in inverse_powers(dim, base))

    def _scaled(self, frequency: Decimal) -> Decimal:
        c, low, high = _CONTEXT, Decimal(self.low), Decimal(self.high)
        waves = c.divide(c.multiply(Decimal(self.original), frequency), _TWO_PI)  # waves in the original context
        if waves > high:
            return frequency
        divided = c.divide(frequency, Decimal(self.factor))
        if waves < low:
            return divided
        return _mean(divided, frequency, c.divide(c.subtract(waves, low), c.subtract(high, low)))


@parameters
class YarnScaling:
    """Frequencies of slow pairs divided by a factor, those of fast pairs unchanged, a ramp by pair in between."""

    factor: float
    original: int  #: context before the scaling
    fast: float = 32.0  #: pairs with more turns in the original context are unchanged
    slow: float = 1.0  #: pairs with fewer are divided
    truncate: bool = True  #: the ends of the ramp are whole pairs
    gain: float = 1.0  #: `yarn_gain` has the published one

    def __post_init__(self) -> None:
        plain_fields(self)
        numbers = {name: getattr(self, name) for name in ("factor", "original", "fast", "slow", "gain")}
        _require_positive("YarnScaling", **numbers)

    def frequencies(self, dim: int, base: float, long: bool = False) -> Frequencies:
        """Frequencies of `dim` channels."""
        first, last = self._pair(self.fast, dim, base), self._pair(self.slow, dim, base)
        if self.truncate:
            first, last = first.to_integral_value(ROUND_FLOOR), last.to_integral_value(ROUND_CEILING)
        first, last = max(first, Decimal(0)), min(last, Decimal(dim - 1))
        width = _CONTEXT.subtract(last, first) if first != last else Decimal("0.001")
        pairs = enumerate(inverse_powers(dim, base))
        return tuple(self._scaled(f, _CONTEXT.divide(_CONTEXT.subtract(Decimal(i), first), width)) for i, f in pairs)

    def _pair(self, turns: float, dim: int, base: float) -> Decimal:
        """The pair, as a fraction, with this number of turns in the original context."""
        c = _CONTEXT
        positions = c.divide(Decimal(self.original), c.multiply(Decimal(turns), _TWO_PI))
        return c.divide(c.multiply(Decimal(dim), c.ln(positions)), c.multiply(Decimal(2), c.ln(Decimal(base))))

    def _scaled(self, frequency: Decimal, ramp: Decimal) -> Decimal:
        divided = _CONTEXT.divide(frequency, Decimal(self.factor))
        return _mean(frequency, divided, min(max(ramp, Decimal(0)), Decimal(1)))


@parameters
class FactorScaling:
    """Every frequency divided by its own factor; optionally other factors for long texts."""

    short: tuple[float, ...]  #: a factor for each pair
    long: tuple[float, ...] = ()  #: factors of texts beyond `original` tokens; (): the same
    original: int = 0  #: most tokens for which `short` applies; 0 without `long`
    gain: float = 1.0

    def __post_init__(self) -> None:
        plain_fields(self)
        _require_positive("FactorScaling", gain=self.gain)
        for index, factor in enumerate((*self.short, *self.long)):
            if not factor > 0:
                raise Refused(f"FactorScaling: factors must be above 0, got {factor} at index {index}")
        if bool(self.long) != (self.original > 0) or (self.long and len(self.long) != len(self.short)):
            raise Refused(
                f"FactorScaling: long factors need as many short ones and `original`, got {len(self.long)}, "
                f"{len(self.short)}, {self.original}"
            )

    def frequencies(self, dim: int, base: float, long: bool = False) -> Frequencies:
        """Frequencies of `dim` channels. long: for a text beyond `original` tokens. Rejects another number of pairs."""
        factors = self.long if long and self.long else self.short
        if len(factors) != dim // 2:
            raise Refused(f"FactorScaling: {dim} channels need {dim // 2} factors, got {len(factors)}")
        powers = inverse_powers(dim, base)
        return tuple(_CONTEXT.divide(f, Decimal(factor)) for f, factor in zip(powers, factors, strict=True))


RopeScaling: TypeAlias = LinearScaling | Llama3Scaling | YarnScaling | FactorScaling


def yarn_gain(factor: float, weight: float = 1.0) -> float:
    """0.1 * weight * ln(factor) + 1, the nearest float64; 1 for a factor up to 1."""
    if factor <= 1:
        return 1.0
    c = _CONTEXT
    return float(c.add(c.multiply(c.multiply(Decimal("0.1"), Decimal(weight)), c.ln(Decimal(factor))), Decimal(1)))


def longrope_gain(factor: float, original: int) -> float:
    """sqrt(1 + ln(factor) / ln(original)), the nearest float64; 1 for a factor up to 1."""
    if factor <= 1:
        return 1.0
    c = _CONTEXT
    return float(c.sqrt(c.add(Decimal(1), c.divide(c.ln(Decimal(factor)), c.ln(Decimal(original))))))


def gain(scaling: RopeScaling | None) -> float:
    """Factor of cosines and sines."""
    return float(getattr(scaling, "gain", 1.0))


def longer(scaling: RopeScaling | None) -> int:
    """Tokens above which a text has other frequencies; 0: none."""
    return scaling.original if isinstance(scaling, FactorScaling) else 0


def _mean(first: Decimal, second: Decimal, share: Decimal) -> Decimal:
    """first * (1 - share) + second * share."""
    c = _CONTEXT
    return c.add(c.multiply(first, c.subtract(Decimal(1), share)), c.multiply(second, share))


def _require_positive(thing: str, **numbers: float) -> None:
    for name, number in numbers.items():
        if not 0 < number < float("inf"):
            raise Refused(f"{thing}: {name} must be above 0 and finite, got {number}")
