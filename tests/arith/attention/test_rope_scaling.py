"""Frequencies of scaled rotary positions: the published formulas, to the last digit that float64 has."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from refemu.arith import rotary
from refemu.arith.attention import rope_scaling
from refemu.arith.attention.rope_scaling import FactorScaling, LinearScaling, Llama3Scaling, RopeScaling, YarnScaling
from refemu.arith.checks import Refused

DIM, BASE = 16, 500.0
PLAIN = np.array([BASE ** (-2 * i / DIM) for i in range(DIM // 2)])


def llama3(factor: float, low: float, high: float, original: int) -> list[float]:
    """As Llama 3.1's code has it, by wavelength."""
    found = []
    for frequency in PLAIN:
        length = 2 * math.pi / frequency
        smooth = (original / length - low) / (high - low)
        middle = (1 - smooth) * frequency / factor + smooth * frequency
        long = frequency / factor if length > original / low else middle
        found.append(frequency if length < original / high else long)
    return found


def yarn(factor: float, original: int, fast: float, slow: float, truncate: bool) -> list[float]:
    """As YaRN's code has it."""

    def place(turns: float) -> float:
        return DIM * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(BASE))

    low, high = (math.floor(place(fast)), math.ceil(place(slow))) if truncate else (place(fast), place(slow))
    low, high = max(low, 0), min(high, DIM - 1)
    ramp = np.clip((np.arange(DIM // 2) - low) / ((high - low) or 0.001), 0, 1)
    return list(PLAIN / factor * ramp + PLAIN * (1 - ramp))


@pytest.mark.parametrize(
    ("scaling", "wanted"),
    [
        (LinearScaling(4.0), PLAIN / 4),
        (Llama3Scaling(8.0, 1.0, 4.0, 128), llama3(8.0, 1.0, 4.0, 128)),
        (Llama3Scaling(8.0, 1.0, 4.0, 4096), llama3(8.0, 1.0, 4.0, 4096)),
        (YarnScaling(4.0, 256), yarn(4.0, 256, 32.0, 1.0, True)),
        (YarnScaling(4.0, 256, fast=8.0, slow=2.0, truncate=False), yarn(4.0, 256, 8.0, 2.0, False)),
        (YarnScaling(4.0, 6), yarn(4.0, 6, 32.0, 1.0, True)),
        (FactorScaling(tuple(range(1, 9))), PLAIN / np.arange(1, 9)),
    ],
)
def test_frequencies_follow_the_formulas(scaling: RopeScaling, wanted: Any) -> None:
    """D-arith-30."""
    found = [float(f) for f in scaling.frequencies(DIM, BASE)]

    assert np.allclose(found, wanted, rtol=1e-14, atol=0)
    assert all(len(f.as_tuple().digits) > 40 or f == f.to_integral_value() for f in scaling.frequencies(DIM, BASE)[1:])


def test_without_a_factor_tables_are_those_of_rotary() -> None:
    positions = np.arange(300)
    plain = rotary.rotary(positions, DIM, BASE, "exact")
    found = rotary.rotary_of(positions, LinearScaling(1.0).frequencies(DIM, BASE))

    assert all(
        a.astype(np.float32).tobytes() == b.astype(np.float32).tobytes() for a, b in zip(plain, found, strict=True)
    )


def test_far_positions_are_exact() -> None:
    """An angle in float32 would be 0.1 off there."""
    third = Decimal(1) / 3
    cos, sin = rotary.rotary_of(np.array([3 << 20]), (third,), gain=2.0)

    assert abs(cos[0, 0] - 2 * math.cos(1 << 20)) < 1e-9 and abs(sin[0, 0] - 2 * math.sin(1 << 20)) < 1e-9


def test_long_texts_have_the_long_factors() -> None:
    """D-arith-31."""
    scaling = FactorScaling((1.0,) * 8, (2.0,) * 8, original=32, gain=1.5)

    assert np.allclose([float(f) for f in scaling.frequencies(DIM, BASE)], PLAIN)
    assert np.allclose([float(f) for f in scaling.frequencies(DIM, BASE, long=True)], PLAIN / 2)
    assert (rope_scaling.longer(scaling), rope_scaling.longer(LinearScaling(2.0)), rope_scaling.longer(None)) == (
        32,
        0,
        0,
    )
    assert (rope_scaling.gain(scaling), rope_scaling.gain(LinearScaling(2.0)), rope_scaling.gain(None)) == (1.5, 1, 1)


def test_gains_are_the_published_ones() -> None:
    assert rope_scaling.yarn_gain(4.0) == 0.1 * math.log(4) + 1 and rope_scaling.yarn_gain(0.5) == 1
    assert rope_scaling.longrope_gain(32.0, 4096) == math.sqrt(1 + math.log(32) / math.log(4096))
    assert rope_scaling.longrope_gain(1.0, 4096) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearScaling(0.0), "LinearScaling: factor must be above 0 and finite, got 0.0"),
        (lambda: Llama3Scaling(8.0, 4.0, 4.0, 64), "low must be below high"),
        (lambda: YarnScaling(4.0, 0), "original must be above 0"),
        (lambda: FactorScaling((1.0, -1.0)), "factors must be above 0, got -1.0 at index 1"),
        (lambda: FactorScaling((1.0,), (1.0, 2.0), 8), "long factors need as many short ones"),
        (lambda: FactorScaling((1.0,), (2.0,)), "long factors need as many short ones and `original`"),
        (lambda: FactorScaling((1.0,)).frequencies(4, 10.0), "4 channels need 2 factors, got 1"),
        (lambda: rotary.rotary_of([1], (Decimal(7),)), r"a frequency must be in \[0, 6\), got 7 at index 0"),
    ],
)
def test_rope_scaling_rejects_invalid_inputs(make: Any, message: str) -> None:
    with pytest.raises(Refused, match=message):
        make()
