"""Bit fields and packing against one Python integer; fp16 words against their values."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith import bits, prng
from refemu.arith.checks import Refused, RefusedType
from tests.oracles import bits as oracle
from tests.oracles import fp16


@given(code=st.integers(-(1 << 63), (1 << 63) - 1), low=st.integers(0, 63), width=st.integers(1, 63))
def test_field_cuts_bits_out_of_twos_complement_word(code, low, width):
    assert (code >> low) & ((1 << width) - 1) == int(bits.field(code, low, width))


def test_field_reads_the_top_of_unsigned_words():
    assert bits.field(np.array([(1 << 64) - 2], np.uint64), 63, 1).tolist() == [1]
    assert bits.field(np.array([0xF5], np.uint8), 4, 4).tolist() == [15]
    assert bits.field(np.array([0xF5], np.uint8), 2, 60).dtype == np.int64


@given(widths=st.lists(st.integers(1, 20), min_size=1, max_size=3), data=st.data())
def test_join_and_field_are_inverse(widths, data):
    values = [data.draw(st.integers(0, (1 << width) - 1)) for width in widths]
    word = bits.join(*zip(values, widths, strict=True))
    lows = [sum(widths[:i]) for i in range(len(widths))]

    assert values == [int(bits.field(word, low, width)) for low, width in zip(lows, widths, strict=True)]
    assert sum(value << low for value, low in zip(values, lows, strict=True)) == int(word)


def test_join_broadcasts_with_the_first_field_lowest():
    """D-arith-12."""
    assert bits.join(([1, 2], 4), (8, 4)).tolist() == [0x81, 0x82]


@pytest.mark.parametrize("width", range(1, 13))
def test_sign_extend_inverts_to_twos_for_every_code(width):
    codes = np.arange(1 << width)
    values = bits.sign_extend(codes, width)

    assert [oracle.signed(code, width) for code in codes.tolist()] == values.tolist()
    assert codes.tolist() == bits.to_twos(values, width).tolist()


def test_sign_extend_reaches_63_bits():
    assert bits.sign_extend([(1 << 62) - 1, 1 << 62], 63).tolist() == [(1 << 62) - 1, -(1 << 62)]


@pytest.mark.parametrize("width", range(1, 9))
def test_pack_and_unpack_are_inverse_for_every_code(width):
    """D-arith-12: element 0 in the least significant bits."""
    codes = np.arange(1 << width, dtype=np.uint8)
    data = bits.pack(codes, width)

    assert oracle.pack(codes.tolist(), width) == data
    assert len(data) == (codes.size * width + 7) // 8
    assert np.array_equal(codes, bits.unpack(data, width, codes.size))


@pytest.mark.parametrize("width", range(1, 33))
@pytest.mark.parametrize("count", [0, 1, 7, 8, 13])
def test_pack_writes_one_stream_of_bits(width, count):
    codes = prng.below(prng.words(width, 0, count), 1 << width)
    data = bits.pack(codes, width)
    back = bits.unpack(data, width, count)

    assert oracle.pack(codes.tolist(), width) == data
    assert codes.tolist() == back.tolist()
    assert bits.code_dtype(width) == back.dtype


@pytest.mark.parametrize("width", [3, 4, 17])
def test_long_streams_pack_as_short_ones_do(width):
    count = (1 << 17) + 5  # several blocks and a rest
    codes = prng.below(prng.words(1, 0, count), 1 << width)
    data = bits.pack(codes, width)

    assert b"".join(bits.pack(part, width) for part in np.split(codes, range(8_000, count, 8_000))) == data
    assert np.array_equal(codes, bits.unpack(np.frombuffer(data, np.uint8), width, count))


def test_pack_takes_any_shape_in_c_order():
    assert bits.pack(np.array([[1, 2], [3, 4]]).T, 4) == bytes([0x31, 0x42])
    assert bits.pack(np.array([5], np.int8), 32) == bytes([5, 0, 0, 0])


def test_split_states_the_value_of_every_finite_word():
    words = np.flatnonzero((np.arange(1 << 16) >> 10) & 31 != 31)
    sign, sig, eff = (part.tolist() for part in bits.f16_split(words))

    assert all(
        Fraction(fp16.to_float(word)) == (-1) ** s * m * Fraction(2) ** (e - 25)
        for word, s, m, e in zip(words.tolist(), sign, sig, eff, strict=True)
    )


def test_split_and_join_are_inverse_for_all_words():
    words = np.arange(1 << 16, dtype=np.uint16)
    joined = bits.f16_join(*bits.f16_split(words))

    assert np.array_equal(words, joined)
    assert joined.dtype == np.uint16


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        pytest.param(
            lambda: bits.pack([3, 16], 4),
            Refused,
            r"^pack: code 16 at index \(1,\) is outside \[0, 2\*\*4\)$",
            id="code",
        ),
        pytest.param(
            lambda: bits.pack([[-1]], 4), Refused, r"pack: code -1 at index \(0, 0\) is outside", id="negative"
        ),
        pytest.param(
            lambda: bits.pack([1 << 32], 32), Refused, r"pack: code 4294967296 at .* \[0, 2\*\*32\)", id="32 bits"
        ),
        pytest.param(
            lambda: bits.pack([1.0], 4), RefusedType, "pack: integers are needed, got dtype float64", id="float"
        ),
        pytest.param(lambda: bits.pack([0], 33), Refused, r"pack: width must be in \[1, 32\], got 33", id="width"),
        pytest.param(lambda: bits.pack([0], 0), Refused, r"pack: width must be in \[1, 32\], got 0", id="no width"),
        pytest.param(lambda: bits.unpack(b"", 0, 0), Refused, r"unpack: width must be in \[1, 32\]", id="unpack width"),
        pytest.param(
            lambda: bits.unpack(b"abc", 5, 3), Refused, "^unpack: 3 codes of 5 bits need 2 bytes, got 3$", id="long"
        ),
        pytest.param(
            lambda: bits.unpack(b"", 4, 1), Refused, "unpack: 1 codes of 4 bits need 1 bytes, got 0", id="short"
        ),
        pytest.param(
            lambda: bits.unpack(b"", 4, -1), Refused, "unpack: count must be at least 0, got -1", id="negative count"
        ),
        pytest.param(
            lambda: bits.unpack(b"\x10", 4, 1), Refused, "unpack: spare bits of the last byte .* 0x10", id="spare"
        ),
        pytest.param(
            lambda: bits.unpack(np.zeros(1), 4, 2), RefusedType, "unpack: bytes are needed, got dtype", id="dtype"
        ),
        pytest.param(lambda: bits.field(0, 64, 1), Refused, r"field: low must be in \[0, 63\], got 64", id="low"),
        pytest.param(
            lambda: bits.field(0, 0, 64), Refused, r"field: bits must be in \[1, 63\], got 64", id="field width"
        ),
        pytest.param(lambda: bits.field(0.5, 0, 1), RefusedType, "field: integers are needed", id="field float"),
        pytest.param(
            lambda: bits.join((0, 40), (0, 24)), Refused, r"join: the widths must sum to 63 .* \[40, 24\]", id="join"
        ),
        pytest.param(
            lambda: bits.join((0, 4), (16, 4)), Refused, "join: field 1: 16 does not fit 4 unsigned bits", id="value"
        ),
        pytest.param(
            lambda: bits.to_twos([-9], 4), Refused, r"to_twos: -9 at index \(0,\) does not fit 4 signed", id="to_twos"
        ),
        pytest.param(lambda: bits.to_twos(8, 4), Refused, "to_twos: 8 does not fit 4 signed bits", id="to_twos above"),
        pytest.param(
            lambda: bits.sign_extend(16, 4), Refused, "sign_extend: 16 does not fit 4 unsigned", id="sign_extend"
        ),
        pytest.param(lambda: bits.f16_split(1 << 16), Refused, r"f16_split: word 65536 is outside", id="split"),
        pytest.param(lambda: bits.f16_join(2, 0, 1), Refused, "f16_join: sign 2 is outside", id="sign"),
        pytest.param(
            lambda: bits.f16_join(0, 2048, 1), Refused, "f16_join: significand 2048 is outside", id="significand"
        ),
        pytest.param(
            lambda: bits.f16_join(0, 0, 0), Refused, r"f16_join: exponent 0 is outside \[1, 32\)", id="exponent"
        ),
        pytest.param(
            lambda: bits.f16_join(0, [1024, 5], 2),
            Refused,
            r"f16_join: a significand below 1024 needs exponent 1, got 5 with 2 at index \(1,\)",
            id="not normalised",
        ),
    ],
)
def test_bits_rejects_invalid_inputs(call, error, message):
    with pytest.raises(error, match=message):
        call()
