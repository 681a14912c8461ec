"""The aligner against the format and the oracle: every word, every width, every legal exponent."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import Bfp
from refemu.units.harmonia import bfp_aligner
from refemu.units.harmonia.bfp_aligner import BfpAligner
from tests.formats.harmonia.bfp_words import FINITE, under, within
from tests.oracles.harmonia import bfp, units

IMPLEMENTATIONS = [pytest.param(bfp_aligner.run, id="unit"), pytest.param(bfp_aligner.UNIT.run_compiled, id="compiled")]
compiled_run = bfp_aligner.UNIT.run_compiled


@pytest.mark.parametrize("m", range(1, 12))
def test_every_word_under_every_exponent_is_formats_code(m: int) -> None:
    """[harmonia §IV-C, Fig. 14c]: the aligner is the second half of a conversion."""
    for exponent in range(31):
        tensor = Bfp(m, 2).encode(under(exponent), bits=True)
        word = FINITE[within(exponent)].reshape(-1, 8)
        result = compiled_run(word, [exponent] * 8, m)

        assert np.array_equal(result.mantissa.ravel(), tensor.mantissa[:, 0])
        assert np.array_equal(result.sign.ravel(), tensor.sign[:, 0] == 1) and not result.illegal.any()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("m", [4, 8])
def test_every_word_under_its_own_exponent(run: Any, m: int) -> None:
    """[harmonia §IV-C]: all 2^16 words; D-harmonia-5: those with field 31 are flagged, all others are legal."""
    word = np.arange(1 << 16).reshape(-1, 8)
    result = run(word, word >> 10 & 31, m)
    words = word.ravel().tolist()
    expected = [units.align(u, u >> 10 & 31, m) for u in words[::7]]

    assert np.array_equal(result.illegal, (word & 0x7C00) == 0x7C00)
    for (sign, mantissa, illegal), got_sign, got in zip(
        expected, result.sign.ravel()[::7].tolist(), result.mantissa.ravel()[::7].tolist(), strict=True
    ):
        assert (got_sign, got) == ((False, 0) if illegal else (sign == 1, mantissa))
    assert (result.aligned, result.illegals) == (63488, 2048)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("rounding", "mantissa"),
    [
        ("truncate", [128, 129, 128, 128, 128, 129, 255, 255]),
        ("half_even", [128, 130, 129, 128, 128, 130, 255, 255]),
        ("half_away", [129, 130, 129, 128, 129, 130, 255, 255]),
        ("floor", [128, 129, 128, 128, 129, 130, 255, 255]),
    ],
)
def test_ties_and_magnitude_that_would_leave_its_bits(run: Any, rounding: str, mantissa: list[int]) -> None:
    """D-harmonia-2: 128.5, 129.5, 128.625, 128.375, -128.5, -129.5, 255.5, -255.875 at 8 bits."""
    words = [0x3C04, 0x3C0C, 0x3C05, 0x3C03, 0xBC04, 0xBC0C, 0x3FFC, 0xBFFF]

    assert run(words, [15] * 8, 8, rounding=rounding).mantissa.tolist() == mantissa


lane = st.one_of(st.integers(0, 0xFFFF), st.sampled_from([0x7C00, 0xFC00, 0x7E00, 0, 0x8000, 1, 0x83FF, 0x7BFF]))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=60)
@given(
    word=lane,
    emax=st.integers(0, 31),
    m=st.integers(1, 11),
    special=st.sampled_from(["error", "hw", "saturate"]),
    rounding=st.sampled_from(["truncate", "half_even", "half_away", "floor"]),
    subnormals=st.sampled_from(["keep", "flush"]),
    zero_sign=st.sampled_from(["keep", "canonical"]),
)
def test_lanes_equal_the_oracles_group(
    run: Any, word: int, emax: int, m: int, special: str, rounding: str, subnormals: str, zero_sign: str
) -> None:
    """D-harmonia-2, D-harmonia-4, D-harmonia-5, D-harmonia-6: a lane with a word of field emax is that group."""
    options = {"rounding": rounding, "special": special, "subnormals": subnormals, "zero_sign": zero_sign}
    result = run([word] * 8, [emax] * 8, m, **options)
    field, nan = word >> 10 & 31, word & 0x7FFF > 0x7C00
    shown = 30 if special == "saturate" and field == 31 else field
    illegal = shown > emax or (field == 31 and (special == "error" or (special == "saturate" and nan)))
    assert result.illegal.tolist() == [illegal] * 8

    if illegal:
        assert not result.mantissa.any() and not result.sign.any()
    elif emax < 31 or special == "hw":
        group = bfp.encode_group([word, emax << 10], m, rounding, special, subnormals, zero_sign)
        assert result.mantissa.tolist() == [group.mantissa[0]] * 8 and result.sign.tolist() == [group.sign[0] == 1] * 8


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({"m": 0}, Refused, r"bfp_aligner: m 0 is outside \[1, 12\)", id="m 0"),
        pytest.param({"m": 12}, Refused, r"bfp_aligner: m 12 is outside \[1, 12\)", id="m 12"),
        pytest.param({"emax": [32] * 8}, Refused, r"emax 32 at index \(0,\) is outside \[0, 32\)", id="emax"),
        pytest.param({"x": [1] * 7}, RefusedType, r"x: the last axis must hold 8 lanes", id="lanes"),
        pytest.param({"rounding": "up"}, Refused, "rounding must be one of", id="rounding"),
        pytest.param({"special": "nan"}, Refused, "special must be one of", id="special"),
    ],
)
def test_bfp_aligner_rejects_invalid_inputs(
    run: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(**{"x": [0] * 8, "emax": [0] * 8, "m": 8, **arguments})


def test_bfp_aligner_repr_evaluates_back() -> None:
    text = "BfpAligner(rounding='floor', special='hw', subnormals='flush', zero_sign='canonical')"

    assert repr(BfpAligner("floor", "hw", "flush", "canonical")) == text
