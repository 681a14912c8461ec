"""Rows of codes in bytes: the inverse, sizes, the place of every bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.formats.harmonia.bfp_fields import fields_of, pack_rows, row_bytes, unpack_rows


def drawn(shape: tuple[int, ...], bits: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << bits, shape).astype(np.uint16)


@settings(deadline=None, max_examples=60)
@given(length=st.integers(1, 70), bits=st.integers(0, 15), seed=st.integers(0, 9))
def test_unpacking_is_the_inverse(length: int, bits: int, seed: int) -> None:
    codes = drawn((2, 3, length), bits, seed)
    packed = pack_rows(codes | np.uint16(1 << bits), bits)

    assert packed.shape == (2, 3, row_bytes(length, bits))
    assert np.array_equal(unpack_rows(packed, bits, length), codes)


@pytest.mark.parametrize("bits", range(1, 16))
def test_rows_of_eight_waste_no_bit(bits: int) -> None:
    assert [row_bytes(length, bits) for length in (8, 16, 64, 80, 128)] == [
        bits,
        2 * bits,
        8 * bits,
        10 * bits,
        16 * bits,
    ]


@pytest.mark.parametrize("bits", [1, 4, 5, 8, 11])
@pytest.mark.parametrize("length", [5, 16, 64])
def test_every_bit_has_place_that_description_says(length: int, bits: int) -> None:
    """Upper bits first; single bits in order, wider fields a byte's parts apart."""
    for code in range(length):
        for bit in range(bits):
            codes = np.zeros(length, np.uint16)
            codes[code] = 1 << bit
            [field] = [one for one in fields_of(length, bits) if one.weight <= bit < one.weight + one.width]
            count = -(-length * field.width // 8)
            byte, above = divmod(code, 8) if field.width == 1 else (code % count, code // count * field.width)
            packed = pack_rows(codes, bits)
            assert np.flatnonzero(packed).tolist() == [field.first + byte]
            assert packed[field.first + byte] == 1 << above + bit - field.weight
    assert [field.width for field in fields_of(length, bits)] == sorted(
        {8, 4, 2, 1} & {w for w in (8, 4, 2, 1) if bits & w}
    )[::-1]
