"""Demotion and growth equal reconversion; storage is the paper's; grid and values agree."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import BFP4, BFP8, Bfp, BfpTensor
from refemu.formats.harmonia.compiled import bfp as bfp_compiled
from tests.formats.harmonia.bfp_words import FINITE, under, within, words
from tests.oracles.harmonia import bfp


@pytest.mark.parametrize("zero_sign", ["keep", "canonical"])
@pytest.mark.parametrize(("high", "low"), [(8, 4), (11, 1), (8, 8), (7, 3)])
def test_demotion_equals_conversion_at_fewer_bits(high: int, low: int, zero_sign: str) -> None:
    """[harmonia §III-B] D-harmonia-2: for every fp16 value under every exponent, under truncation."""
    fmt = Bfp(high, 2, zero_sign=zero_sign)
    for exponent in range(31):
        rows = under(exponent)
        demoted = fmt.encode(rows, bits=True).demote(low)

        assert demoted.equals(Bfp(low, 2, zero_sign=zero_sign).encode(rows, bits=True))


@pytest.mark.parametrize("bits", [1, 4, 8, 11])
def test_growth_equals_conversion_with_new_maximum(bits: int) -> None:
    """[harmonia §III-A, Fig. 6b] D-harmonia-20: for every fp16 value under every exponent that is larger."""
    fmt = Bfp(bits, 1)
    alone = fmt.encode(FINITE[:, None], bits=True)
    for exponent in range(31):
        low = within(exponent)
        grown = fmt.tensor(alone.sign[low], alone.mantissa[low], alone.exponent[low]).realign(exponent)
        pair = Bfp(bits, 2).encode(under(exponent), bits=True)

        assert np.array_equal(grown.mantissa[:, 0], pair.mantissa[:, 0])
        assert np.array_equal(grown.sign[:, 0], pair.sign[:, 0]) and (grown.exponent == exponent).all()


@pytest.mark.parametrize("rounding", ["half_even", "half_away", "floor"])
def test_other_roundings_are_not_demoted_by_a_shift(rounding: str) -> None:
    """D-harmonia-2: dropping a nibble of rounded magnitudes is not a conversion, so it is an error."""
    x = np.random.default_rng(1).standard_normal((64, 32)).astype(np.float16)
    tensor = Bfp(8, rounding=rounding).encode(x)
    again = Bfp(4, rounding=rounding).encode(x)
    assert ((tensor.mantissa >> 4) != again.mantissa).any(axis=1).mean() > 0.9

    for name, call in (("demote", tensor.demote), ("realign", tensor.realign)):
        with pytest.raises(Refused, match=f"BfpTensor.{name}: rounding must be 'truncate', got '{rounding}'"):
            call(4)


@pytest.mark.parametrize(
    ("bits", "group_bits", "without", "with_exponent"),
    [(8, 293, Fraction(7, 16), "42.773"), (4, 165, Fraction(11, 16), "67.773")],
)
def test_storage_is_the_papers(bits: int, group_bits: int, without: Fraction, with_exponent: str) -> None:
    """[harmonia Table I, §III-B] 43.75 % and 68.75 % less than FP16 (31.25 % left) without exponents; D-harmonia-1."""
    tensor = Bfp(bits).encode(np.ones((128, 64), np.float16))
    fp16 = 16 * tensor.mantissa.size
    reduced = [1 - Fraction(tensor.storage_bits(exponent), fp16) for exponent in (False, True)]

    assert reduced[0] == without and f"{float(100 * reduced[1]):.3f}" == with_exponent
    assert tensor.storage_bits() == group_bits * tensor.exponent.size


@given(length=st.integers(1, 200), bits=st.integers(1, 11), group=st.integers(1, 128), exponent=st.booleans())
def test_storage_counts_real_elements_and_whole_exponents(length: int, bits: int, group: int, exponent: bool) -> None:
    """[harmonia §III-B] of short groups."""
    tensor = Bfp(bits, group).encode(np.ones((2, length), np.float16))

    assert tensor.storage_bits(exponent) == 2 * bfp.storage_bits(length, bits, group, exponent)


@settings(deadline=None)
@given(row=st.lists(words, min_size=1, max_size=40), bits=st.integers(1, 11), group=st.integers(1, 9))
def test_grid_values_and_powers_are_one_number(row: list[int], bits: int, group: int) -> None:
    """[harmonia §II-B] the oracle's integers and fractions; a zero keeps its sign (D-harmonia-6)."""
    tensor = Bfp(bits, group).encode(np.array(row, np.uint16), bits=True)
    groups = bfp.encode(row, bits, group)
    whole = [value for one in groups for value in bfp.grid(one)][: len(row)]
    exact = [value for one in groups for value in bfp.values(one)][: len(row)]

    assert tensor.grid().tolist() == whole and tensor.grid().dtype == np.int64
    assert [Fraction(value) for value in tensor.dequantize().tolist()] == exact
    assert np.array_equal(np.ldexp(tensor.signed(), np.repeat(tensor.powers(), group)[: len(row)]), tensor.dequantize())
    assert np.array_equal(np.signbit(tensor.dequantize()), tensor.sign == 1)
    assert tensor.dequantize().tobytes() == bfp_compiled.dequantize(tensor).tobytes()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_decoding_looks_along_the_axis(axis: int) -> None:
    x = np.random.default_rng(2).standard_normal((5, 6, 7)).astype(np.float16) * np.float16(100)
    tensor = Bfp(11, 4).encode(x, axis)
    lines = np.moveaxis(tensor.dequantize(), axis, -1)
    for place in np.ndindex(lines.shape[:-1]):
        assert lines[place].tolist() == Bfp(11, 4).encode(np.moveaxis(x, axis, -1)[place]).dequantize().tolist()

    assert tensor.dequantize().tobytes() == bfp_compiled.dequantize(tensor).tobytes()
    assert np.array_equal(tensor.grid() / 2.0**24, tensor.dequantize())


def test_fields_are_unsigned_patterns_and_arrays_are_frozen() -> None:
    tensor = BFP8.encode(np.array([-1, 2, 3], np.float16))
    fields = tensor.fields()

    assert {name: (field.bits, np.asarray(field).dtype.kind) for name, field in fields.items()} == {
        "sign": (1, "u"),
        "mantissa": (8, "u"),
        "exponent": (5, "u"),
    }
    with pytest.raises(ValueError, match="read-only"):
        tensor.mantissa[0] = 0


def test_equality_looks_at_format_axis_and_codes() -> None:
    x = np.eye(4, dtype=np.float16)
    tensor = BFP8.encode(x)

    assert tensor.equals(BFP8.encode(x)) and not tensor.equals(BFP8.encode(x, 0)) and not tensor.equals(x)
    assert not tensor.equals(BFP8.encode(-x)) and not tensor.equals(BFP4.encode(x))
    assert not tensor.equals(BFP8.encode(x * np.float16(2))) and not tensor.equals(BFP8.encode(x * np.float16(1.5)))


def codes(**changed: Any) -> BfpTensor:
    """A tensor of four elements with one field changed."""
    given: dict[str, Any] = {"sign": [0, 1, 0, 1], "mantissa": [1, 2, 3, 255], "exponent": [30]}
    sign, mantissa, exponent = (np.array(changed.get(name, values)) for name, values in given.items())
    return BFP8.tensor(sign, mantissa, exponent)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        pytest.param(
            lambda: codes(mantissa=[0, 0, 256, 0]),
            Refused,
            r"BfpTensor: mantissa 256 at index \(2,\) is outside \[0, 256\)",
            id="mantissa",
        ),
        pytest.param(
            lambda: codes(sign=[0, 2, 0, 0]), Refused, r"sign 2 at index \(1,\) is outside \[0, 2\)", id="sign"
        ),
        pytest.param(
            lambda: codes(exponent=[31]), Refused, r"exponent 31 at index \(0,\) is outside \[0, 31\)", id="31"
        ),
        pytest.param(lambda: codes(exponent=[-1]), Refused, "exponent -1 at index", id="negative"),
        pytest.param(
            lambda: codes(exponent=[1, 1]),
            Refused,
            r"needs sign \(4,\) and exponent \(1,\), got .* \(2,\)",
            id="groups",
        ),
        pytest.param(
            lambda: codes(sign=[0]), Refused, r"needs sign \(4,\) and exponent \(1,\), got \(1,\)", id="shape"
        ),
        pytest.param(
            lambda: codes(mantissa=[0.5] * 4), RefusedType, "BfpTensor.mantissa: integers are needed", id="float"
        ),
        pytest.param(
            lambda: codes().demote(9), Refused, r"demote: mantissa_bits must be in \[1, 8\], got 9", id="more"
        ),
        pytest.param(
            lambda: codes().realign(29), Refused, r"exponent 29 at index \(0,\) is below the stored 30", id="below"
        ),
        pytest.param(lambda: codes().realign(31), Refused, r"exponent 31 is outside \[0, 31\)", id="realign 31"),
        pytest.param(
            lambda: codes().realign([30, 30]), Refused, r"must fit shape \(1,\), got \(2,\)", id="realign shape"
        ),
        pytest.param(lambda: codes().realign(1.5), RefusedType, "integers are needed", id="realign float"),
    ],
)
def test_bfp_tensor_rejects_invalid_inputs(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_31_is_an_exponent_of_hw_only() -> None:
    """D-harmonia-5."""
    tensor = Bfp(8, 1, special="hw").tensor([0], [255], [31])

    assert tensor.dequantize().tolist() == [130560] and tensor.grid().tolist() == [255 << 30]


def test_repr_names_format_shape_and_axis() -> None:
    assert repr(BFP8.encode(np.ones((2, 3), np.float16), 0)) == "BfpTensor(bfp8_g32, shape=(2, 3), axis=0)"
