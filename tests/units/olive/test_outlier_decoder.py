"""The outlier decoder against the paper's example, the oracle at every code and bias, and the formats."""

from typing import Any

import numpy as np
import pytest

from refemu import formats
from refemu.arith.checks import Refused
from refemu.units.olive import outlier_decoder
from refemu.units.olive.outlier_decoder import FORMATS, OutlierDecoder
from tests.oracles.olive import units

IMPLEMENTATIONS = [
    pytest.param(outlier_decoder.run, id="unit"),
    pytest.param(outlier_decoder.UNIT.run_compiled, id="compiled"),
]
BIASES = np.arange(16)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_0101_at_bias_2_is_48(run: Any) -> None:
    """[olive §4.2] "its exponent is 2 + 10 = 4 and base integer is 11 = 3 ... 3 << 4 = 48"."""
    result = run(0b0101, 2)

    assert (int(result.exponent), int(result.base_int), result.decodes) == (4, 3, 1)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("exp_bits", "man_bits"), FORMATS)
@pytest.mark.parametrize("exponent_bits", [4, 5])
def test_every_code_at_every_bias_equals_the_oracle(run: Any, exp_bits: int, man_bits: int, exponent_bits: int) -> None:
    codes = np.arange(2 << (exp_bits + man_bits), dtype=np.uint8)[:, None]
    result = run(codes, BIASES, exp_bits=exp_bits, man_bits=man_bits, exponent_bits=exponent_bits)
    expected = [
        [units.outlier_decoder(code, bias, exp_bits, man_bits, exponent_bits) for bias in range(16)]
        for code in range(codes.size)
    ]

    assert np.stack([result.exponent, result.base_int], axis=-1, dtype=np.int64).tolist() == [
        [list(pair) for pair in row] for row in expected
    ]
    assert (result.exponent.dtype, result.base_int.dtype, result.decodes) == (np.uint8, np.int8, codes.size * 16)


@pytest.mark.parametrize(
    ("name", "config"), [("E2M1_BIAS2", "e2m1"), ("E2M1_BIAS3", "e2m1"), ("E4M3_BIAS4", "e4m3"), ("E2M5_BIAS2", "e2m5")]
)
def test_integer_shifted_by_exponent_is_the_formats_value(name: str, config: str) -> None:
    fmt: Any = formats.find(name)
    codes = fmt.codes()
    result = outlier_decoder.run(codes, fmt.bias, **outlier_decoder.UNIT.configs[config])

    assert (result.base_int.astype(np.int64) << result.exponent).tolist() == fmt.decode(codes).tolist()


def test_magnitude_0_has_exponent_of_equation() -> None:
    """D-olive-19: the reserved code's exponent is bias + 0."""
    result = outlier_decoder.run(np.array([0b0000, 0b1000]), 9)

    assert (result.exponent.tolist(), result.base_int.tolist()) == ([9, 9], [0, 0])


def test_exponent_wraps_in_four_bits_and_fits_five() -> None:
    """D-olive-20: bias 13 to 15 leave a 4-bit port; 15 + 15 = 30 fits the 5 bits of the 8-bit decoder."""
    assert outlier_decoder.run(0b0110, BIASES).exponent.tolist() == [(bias + 3) % 16 for bias in range(16)]
    assert outlier_decoder.run(0b0110, 15, exponent_bits=5).exponent == 18
    assert outlier_decoder.run(0b01111000, 15, exp_bits=4, man_bits=3).exponent == 30


def test_formats_are_those_of_paper_and_published_code() -> None:
    """D-olive-14: E4M3 in the paper, E2M5 in the code."""
    assert FORMATS == ((2, 1), (4, 3), (2, 5))


def test_steps_broadcast_in_c_order() -> None:
    states = list(OutlierDecoder().steps([[1], [2]], [0, 3]))

    assert [(s.event, s.index, s.code, s.bias, s.decodes) for s in states] == [
        ("decode", 0, 1, 0, 1),
        ("decode", 1, 1, 3, 2),
        ("decode", 2, 2, 0, 3),
        ("decode", 3, 2, 3, 4),
    ]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param(
            {"exp_bits": 1, "man_bits": 2}, r"\(exp_bits, man_bits\) must be one of \(2, 1\).*got \(1, 2\)", id="E1M2"
        ),
        pytest.param({"exponent_bits": 0}, r"exponent_bits must be in \[1, 8\], got 0", id="no exponent"),
        pytest.param({"exponent_bits": 9}, r"exponent_bits must be in \[1, 8\], got 9", id="wide exponent"),
    ],
)
def test_impossible_configurations_are_rejected(run: Any, config: dict[str, int], message: str) -> None:
    with pytest.raises(Refused, match="outlier_decoder: " + message):
        run(1, 2, **config)
