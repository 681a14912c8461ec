"""Rotary tables against decimals: both roundings right at every position that is tried."""

import math
from decimal import Context, Decimal
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest

from refemu.arith import rotary
from refemu.arith.checks import Refused, RefusedType
from tests.oracles import fp16

CONTEXT = Context(prec=70)
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")
POSITIONS = [0, 1, 2, 3, 5, 7, 100, 511, 512, 4095, 131_071, 2**22 - 1]


def cos_sin(angle):
    """Cosine and sine of a Decimal by their series, after the nearest whole turns are taken away."""
    x = CONTEXT.subtract(angle, CONTEXT.multiply(2 * PI, CONTEXT.to_integral_value(CONTEXT.divide(angle, 2 * PI))))
    sums, term = [Decimal(0), Decimal(0)], Decimal(1)
    for n in range(1, 60):
        sums[(n - 1) % 2] += term * (-1 if (n - 1) // 2 % 2 else 1)
        term = CONTEXT.divide(CONTEXT.multiply(term, x), n)
    return sums


def exact_angle(position, i, dim, base):
    power = CONTEXT.exp(CONTEXT.multiply(CONTEXT.ln(Decimal(base)), CONTEXT.divide(Decimal(2 * i), dim)))
    return CONTEXT.divide(position, power)


def f32_angle(position, i, dim, base):
    power = CONTEXT.exp(CONTEXT.multiply(CONTEXT.ln(Decimal(base)), CONTEXT.divide(Decimal(2 * i), dim)))
    inverse = fp16.f32_from_fraction(1 / Fraction(fp16.f32_from_fraction(Fraction(power))))
    return Decimal(fp16.f32(fp16.f32(position) * inverse))


@pytest.mark.parametrize(("mode", "angle"), [("exact", exact_angle), ("f32_angle", f32_angle)])
@pytest.mark.parametrize(("dim", "base"), [(64, 10_000), (128, 500_000), (6, 100_000), (2, 10_000)])
def test_tables_round_right(mode, angle, dim, base):
    """D-arith-8: to float32 and to fp16, each once."""
    tables = rotary.rotary(POSITIONS, dim, base, mode)
    for p, position in enumerate(POSITIONS):
        for i in range(dim // 2):
            for table, value in zip(tables, cos_sin(angle(position, i, dim, base)), strict=True):
                exact = Fraction(value)
                assert np.float32(table[p, i]) == fp16.f32_from_fraction(exact), (position, i)
                assert fp16.from_float(float(table[p, i])) & 0x7FFF == fp16.from_fraction(exact) & 0x7FFF


def test_modes_differ_and_more_so_far_away():
    near, far = (
        [rotary.rotary(positions, 128, 10_000, mode)[0].astype(np.float32) for mode in get_args(rotary.RotaryMode)]
        for positions in (np.arange(64), np.arange(130_000, 130_064))
    )

    assert 0 < (near[0] != near[1]).mean() < (far[0] != far[1]).mean()
    assert np.abs(near[0] - near[1]).max() < 1e-5 < np.abs(far[0] - far[1]).max()


def test_shapes_and_the_first_position():
    cos, sin = rotary.rotary(np.arange(6).reshape(2, 3), 8, 10_000)

    assert cos.shape == sin.shape == (2, 3, 4) and cos.dtype == sin.dtype == np.float64
    assert cos[0, 0].tolist() == [1] * 4 and sin[0, 0].tolist() == [0] * 4
    assert rotary.rotary(5, 8, 10_000)[0].shape == (4,)


def test_part_of_positions_equals_the_slice():
    whole = rotary.rotary(np.arange(100), 64, 10_000)
    part = rotary.rotary(np.arange(60, 70), 64, 10_000)

    assert all(np.array_equal(w[60:70], p) for w, p in zip(whole, part, strict=True))


def test_the_second_position_by_hand():
    cos, sin = rotary.rotary(1, 2, 10_000)

    assert float(cos[0]) == pytest.approx(math.cos(1), abs=2**-52)  # float64 itself is not promised to the last bit
    assert float(sin[0]) == pytest.approx(math.sin(1), abs=2**-52)


REFUSED = [
    pytest.param((4194304, 64, 10_000), {}, Refused, r"rotary: position 4194304 is outside \[0, 4194304\)", id="far"),
    pytest.param(([0, -1], 64, 10_000), {}, Refused, r"rotary: position -1 at index \(1,\)", id="negative"),
    pytest.param((0.5, 64, 10_000), {}, RefusedType, "rotary: integers are needed", id="float"),
    pytest.param((0, 7, 10_000), {}, Refused, "rotary: head_dim must be even and at least 2, got 7", id="odd"),
    pytest.param((0, 8.0, 10_000), {}, RefusedType, r"rotary: head_dim must be an integer, got 8\.0", id="float dim"),
    pytest.param((0, 8, 0), {}, Refused, "rotary: base must be above 0 and finite, got 0", id="base"),
    pytest.param((0, 8, math.nan), {}, Refused, "rotary: base must be above 0 and finite, got nan", id="nan"),
    pytest.param(
        (0, 8, 10_000),
        {"mode": "libm"},
        Refused,
        "rotary: mode must be one of 'exact', 'f32_angle', got 'libm'",
        id="mode",
    ),
]


@pytest.mark.parametrize(("arguments", "options", "error", "message"), REFUSED)
def test_rotary_rejects_invalid_inputs(arguments, options, error, message):
    with pytest.raises(error, match=message):
        rotary.rotary(*arguments, **options)
