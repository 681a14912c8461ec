"""Fields in 32-bit words agree with one long integer per row, for every width and place."""

import numpy as np
import pytest

from refemu.arith import prng
from refemu.units.kernels import packing

COUNT = 12  #: fields of a row


def drawn(label: str, rows: int, words: int) -> np.ndarray:
    stream = prng.words(prng.stream(label, 0), 0, rows * words)
    return (stream >> np.uint64(32)).astype(np.uint32).reshape(rows, words)


def layout(bits: int, gap: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Places and widths of fields with gaps between them, and the words that hold them."""
    lsb = gap + np.arange(COUNT) * (bits + gap)
    return lsb, np.full(COUNT, bits), -(-int(lsb[-1] + bits) // 32)


def long(row: np.ndarray) -> int:
    return int.from_bytes(row.astype("<u4").tobytes(), "little")


@pytest.mark.parametrize("bits", [1, 4, 5, 31, 32, 33, 63, 64])
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("gap", [0, 3])
def test_fields_are_those_of_a_long_integer(bits: int, signed: int, gap: int) -> None:
    lsb, widths, words = layout(bits, gap)
    rows = drawn(f"fields {bits}", 5, words)
    values = np.zeros((len(rows), COUNT), np.int64)
    packing.unpack(rows, lsb, widths, np.full(COUNT, signed), values)

    for row, got in zip(rows, values.tolist(), strict=True):
        codes = [long(row) >> int(at) & (1 << bits) - 1 for at in lsb]
        negative = bool(signed) or bits == 64  # a pattern of 64 bits in an int64
        assert got == [code - (negative and code >> bits - 1) * (1 << bits) for code in codes]


@pytest.mark.parametrize("bits", [1, 4, 5, 31, 32, 33, 63, 64])
@pytest.mark.parametrize("gap", [0, 3])
def test_packed_fields_come_back_and_touch_nothing_else(bits: int, gap: int) -> None:
    lsb, widths, words = layout(bits, gap)
    rows = drawn(f"packed {bits}", 5, words)
    values = np.zeros((len(rows), COUNT), np.int64)
    packing.unpack(rows, lsb, widths, np.zeros(COUNT, np.int64), values)
    inside = sum(((1 << bits) - 1) << int(at) for at in lsb)
    whole = (1 << 32 * words) - 1

    around = np.frombuffer((whole & ~inside).to_bytes(4 * words, "little"), "<u4").astype(np.uint32)
    again = np.tile(around, (len(rows), 1))
    packing.pack(values | ~np.int64(0) << min(bits, 63) if bits < 63 else values, lsb, widths, again)

    assert [long(row) & inside for row in again] == [long(row) & inside for row in rows]
    assert {long(row) & ~inside & whole for row in again} == {whole & ~inside}
