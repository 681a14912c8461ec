"""abfloat: the paper's tables, Algorithm 2, and both ends of the range."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import E2M1_BIAS0, E2M1_BIAS2, E2M1_BIAS3, E2M5_BIAS2, E4M3_BIAS4, AbFloat
from refemu.formats.olive.abfloat import bias_above
from tests.oracles.olive import ovp

GRIDS = [
    (E2M1_BIAS0, [3, 4, 6, 8, 12, 16, 24]),
    (E2M1_BIAS2, [12, 16, 24, 32, 48, 64, 96]),
    (E2M1_BIAS3, [24, 32, 48, 64, 96, 128, 192]),
    (AbFloat(0, 3, 0), [*range(9, 16)]),
    (AbFloat(1, 2, 1), [10, 12, 14, 16, 20, 24, 28]),
    (AbFloat(3, 0, 2), [8, 16, 32, 64, 128, 256, 512]),
    (AbFloat(0, 3, 1), [*range(18, 32, 2)]),
    (AbFloat(1, 2, 2), [20, 24, 28, 32, 40, 48, 56]),
    (AbFloat(3, 0, 4), [32, 64, 128, 256, 512, 1024, 2048]),
]


@pytest.mark.parametrize(("fmt", "magnitudes"), GRIDS, ids=lambda value: getattr(value, "name", ""))
def test_magnitudes_of_all_four_shapes(fmt: AbFloat, magnitudes: list[int]) -> None:
    """[olive Tbl. 4] for bias 0; [olive §3.3] {12..96} with int4, {24..192} with flint4."""
    assert fmt.magnitudes().tolist() == magnitudes
    assert fmt.decode(range(1, 8)).tolist() == magnitudes
    assert fmt.decode(range(9, 16)).tolist() == [-m for m in magnitudes]
    assert (fmt.smallest, fmt.largest) == (magnitudes[0], magnitudes[-1])


def test_eight_bit_format_ends_at_two_to_fifteen() -> None:
    """[olive §4.5], D-olive-12: 64 of 127 magnitudes; D-olive-13: bias 4 starts at 144, the first value above 127."""
    assert E4M3_BIAS4.magnitudes()[:9].tolist() == [144, 160, 176, 192, 208, 224, 240, 256, 288]
    assert (E4M3_BIAS4.magnitudes() <= 1 << 15).nonzero()[0].tolist() == [*range(64)]
    assert E4M3_BIAS4.encode([32767, 32768, 32769, 1e9, -1e9]).tolist() == [64, 64, 64, 64, 192]
    assert AbFloat(4, 3, 4).largest == 15 << 19
    assert AbFloat(4, 3, 4).encode(1e9) == 127


def test_decode_knows_no_limit() -> None:
    assert np.array_equal(E4M3_BIAS4.decode(E4M3_BIAS4.codes()), AbFloat(4, 3, 4).decode(AbFloat(4, 3, 4).codes()))
    assert len(E4M3_BIAS4.codes()) == 254


def test_the_published_codes_eight_bit_format() -> None:
    """D-olive-14: 127 magnitudes from 132 to 2016."""
    assert (E2M5_BIAS2.smallest, E2M5_BIAS2.largest, len(E2M5_BIAS2.magnitudes())) == (132, 2016, 127)
    assert E2M5_BIAS2.magnitudes()[:2].tolist() == [132, 136]


def test_both_zeros_are_reserved() -> None:
    """[olive §3.3]: 1000 and 0000 are disabled for outliers; [olive Tbl. 4]: they decode as 0."""
    assert E2M1_BIAS2.decode([0, 8]).tolist() == [0, 0]
    assert {0, 8}.isdisjoint(E2M1_BIAS2.codes().tolist())


def test_below_the_smallest_magnitude_is_the_smallest() -> None:
    """D-olive-10: [olive Alg. 2] gives a negative field or the reserved code there."""
    assert E2M1_BIAS2.encode([7.1, 10, 12, -9.6, 0.0, -0.1]).tolist() == [1, 1, 1, 9, 1, 9]
    assert E2M1_BIAS3.encode([16.5, 20.1]).tolist() == [1, 1]


def test_above_the_largest_magnitude_is_the_largest() -> None:
    """D-olive-11: [olive Alg. 2] overflows its field from 112 at bias 2 and would turn it into a small value."""
    assert E2M1_BIAS2.encode([96, 111.9, 112, 1e30, -112]).tolist() == [7, 7, 7, 7, 15]


def test_minus_zero_is_positive() -> None:
    """D-olive-17: [olive Alg. 2 l.10] takes the sign from e < 0; an abfloat never rounds to 0."""
    assert E2M1_BIAS2.encode([-0.0, np.float32(-1e-45)]).tolist() == [1, 9]


@pytest.mark.parametrize(
    ("rounding", "positive", "negative"),
    [
        ("half_even", [16, 16, 32, 32, 64, 64], [16, 16, 32, 32, 64, 64]),
        ("half_away", [16, 24, 32, 48, 64, 96], [16, 24, 32, 48, 64, 96]),
        ("half_up", [16, 24, 32, 48, 64, 96], [12, 16, 24, 32, 48, 64]),
        ("half_down", [12, 16, 24, 32, 48, 64], [16, 24, 32, 48, 64, 96]),
    ],
)
def test_ties(rounding: str, positive: list[int], negative: list[int]) -> None:
    """D-olive-8: "Round" of [olive Alg. 2 l.3] is IEEE's; 31744 is between the codes 63 and 64."""
    ties = np.array([14, 20, 28, 40, 56, 80])

    assert E2M1_BIAS2.round(ties, rounding).tolist() == positive
    assert E2M1_BIAS2.round(-ties, rounding).tolist() == [-m for m in negative]
    assert E4M3_BIAS4.round(31744, rounding) == (30720 if rounding == "half_down" else 32768)
    assert E4M3_BIAS4.round(-31744, rounding) == (-30720 if rounding == "half_up" else -32768)


def test_ties_without_a_mantissa_use_the_rank() -> None:
    """D-olive-8: a literal [olive Alg. 2] would always round 1.5 to 2."""
    assert AbFloat(3, 0, 2).round([12, 24, 48, 96]).tolist() == [16, 16, 64, 64]


@given(
    value=st.floats(12, 96) | st.floats(-96, -12), fields=st.sampled_from([(2, 1, 2), (4, 3, 0), (2, 5, 0), (1, 2, 1)])
)
def test_encode_is_algorithm_2(value: float, fields: tuple[int, int, int]) -> None:
    """[olive Alg. 2] inside the range, D-olive-15: for every mantissa width, and on the magnitude."""
    fmt = AbFloat(*fields)
    code = ovp.algorithm2(Fraction(value), fmt.man_bits, fmt.bias)
    inside = min(max(code, 1), fmt.identifier - 1) | (fmt.identifier if value < 0 else 0)

    assert int(fmt.encode(value)) == inside


def test_minus_fourteen_is_not_the_identifier() -> None:
    """D-olive-15: rounding the signed quotient never meets 4, so a literal [olive Alg. 2] gives 1000."""
    assert E2M1_BIAS2.round(-14) == -16


def test_codes_are_described_by_fields_integer_and_shift() -> None:
    """[olive §4.2]: 0101 with bias 2 is 48."""
    assert E2M1_BIAS2.describe(0b0101) == "0 10 1 = 3 << 4 = 48"
    assert E2M1_BIAS2.describe(0b1001) == "1 00 1 = -3 << 2 = -12"
    assert E2M1_BIAS2.describe(8) == "1 00 0 = 0, reserved"
    assert AbFloat(0, 3, 0).describe(1) == "0 001 = 9 << 0 = 9"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param((-1, 3, 0), Refused, "exp_bits and man_bits must .* not both 0, got -1, 3", id="exp_bits"),
        pytest.param((3, -1, 0), Refused, "exp_bits and man_bits must .* not both 0, got 3, -1", id="man_bits"),
        pytest.param((0, 0, 0), Refused, "exp_bits and man_bits must .* not both 0, got 0, 0", id="both 0"),
        pytest.param((4, 4, 0), Refused, r"width = 1 \+ exp_bits \+ man_bits must be in \[2, 8\], got 9", id="wide"),
        pytest.param((2, 1, 16), Refused, r"bias must be in \[0, 15\], got 16", id="bias"),
        pytest.param((2, 1, -1), Refused, r"bias must be in \[0, 15\], got -1", id="negative bias"),
        pytest.param((2, 1, 2.0), RefusedType, "bias must be an int, got 2.0", id="float bias"),
        pytest.param(("2", 1, 2), RefusedType, "exp_bits must be an int, got '2'", id="text exp_bits"),
        pytest.param((2, True, 2), RefusedType, "man_bits must be an int, got True", id="bool man_bits"),
        pytest.param((4, 3, 4, 32768.0), RefusedType, "limit must be an int, got 32768.0", id="float limit"),
        pytest.param((7, 0, 0), Refused, r"values must be below 2\*\*53, got exp_bits=7, bias=0", id="large"),
        pytest.param((4, 3, 4, 32767), Refused, "limit must be a magnitude of the format, got 32767", id="limit"),
    ],
)
def test_abfloat_rejects_invalid_inputs(arguments: Any, error: type, message: str) -> None:
    with pytest.raises(error, match="AbFloat: " + message):
        AbFloat(*arguments)


def test_bias_lifts_smallest_magnitude_above_normal_value() -> None:
    """D-olive-45: 3 << 2 above 7 and 8, 3 << 3 above 12; from 3 << 15 on no bias is left."""
    assert [bias_above(1, largest) for largest in (0, 2, 3, 7, 8, 11, 12, (3 << 15) - 1)] == [0, 0, 1, 2, 2, 2, 3, 15]
    assert bias_above(3, 127) == 4
    with pytest.raises(Refused, match=r"no bias in \[0, 15\] lifts man_bits=1 above 98304"):
        bias_above(1, 3 << 15)
    with pytest.raises(Refused, match="must be at least 0, got 1, -1"):
        bias_above(1, -1)
