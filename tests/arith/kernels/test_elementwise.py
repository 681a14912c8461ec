"""Arrays element by element, as the readable forms have them."""

import numpy as np
import pytest

from refemu.arith import fp16, fp32
from refemu.arith.kernels import elementwise
from refemu.arith.tables import table16


def values(count: int = 500) -> np.ndarray:
    """Of all magnitudes around fp16's range, with the specials."""
    draw = np.random.default_rng(4)
    x = np.ldexp(draw.normal(size=count), draw.integers(-30, 20, count)).astype(np.float32)
    x[:5] = 0, -0.0, np.inf, -np.inf, np.nan
    return x


def halves(seed: int, count: int = 500) -> np.ndarray:
    return fp16.values(np.random.default_rng(seed).integers(0, 1 << 16, count).astype(np.uint16))


def test_rounding_narrowing_and_widening() -> None:
    x = values()
    rounded, words, wide = np.empty_like(x), np.empty(x.size, np.uint16), np.empty_like(x)
    elementwise.round16_all(x, rounded)
    elementwise.narrow_all(x, words)
    elementwise.widen_all(words, wide)

    assert np.array_equal(rounded, fp16.round16(x), equal_nan=True)
    assert words.tolist() == fp16.bits(fp16.to_f16(x)).tolist() and words[4] == 0x7E00
    assert np.array_equal(wide, rounded, equal_nan=True)
    assert np.signbit(wide[1]) and not np.signbit(wide[0])


def test_float64_is_rounded_once() -> None:
    x = np.concatenate([values().astype(np.float64), [1 + 2.0**-11 + 2.0**-50]])
    rounded = np.empty(x.size, np.float32)
    elementwise.round16_of_f64_all(x, rounded)

    assert np.array_equal(rounded, fp16.round16_of_f64(x), equal_nan=True)
    assert rounded[-1] == 1 + 2.0**-10


@pytest.mark.parametrize(("change", "expected"), [(0.0, True), (2.0**-30, False), (np.nan, True)])
def test_what_is_an_fp16_value(change: float, expected: bool) -> None:
    """Only NaN is detected, at any position, not its neighbours."""
    x = fp16.to_f32(halves(1)[:64])
    x = np.where(np.isfinite(x), x, np.float32(1)).astype(np.float32)
    assert elementwise.all_fp16(x)
    x[40] = np.float32(1 + change * 1024) if change else x[40]

    assert bool(elementwise.all_fp16(x)) is expected


def test_multiplying_and_adding() -> None:
    a, b, c = (halves(seed) for seed in (5, 6, 7))
    wide = [fp16.to_f32(x) for x in (a, b, c)]
    single, half, of_words = (np.empty(a.size, np.float32) for _ in range(3))
    with np.errstate(all="ignore"):
        elementwise.fma32_all(*wide, single)
        strange = elementwise.fma16_all(*wide, half)
        elementwise.fma16_of_words(*(fp16.bits(x) for x in (a, b, c)), of_words)
        expected = fp16.fma16(*wide)

    assert np.array_equal(single, fp32.fma32(*wide), equal_nan=True)
    assert not strange and np.array_equal(half, expected, equal_nan=True)
    assert np.array_equal(of_words, expected, equal_nan=True)
    assert elementwise.fma16_all(*(np.float32([1.0001]) for _ in range(3)), np.empty(1, np.float32))


def test_exponentials_and_tables() -> None:
    x = values()
    exact, looked_up = np.empty_like(x), np.empty_like(x)
    with np.errstate(all="ignore"):
        elementwise.exp_all(x, exact)
    elementwise.values_by_table(x, table16("silu"), looked_up)

    assert np.array_equal(exact, fp32.exp32(x), equal_nan=True)
    expected = fp16.to_f32(fp16.values(table16("silu")[fp16.bits(fp16.to_f16(x))]))
    assert np.array_equal(looked_up, expected, equal_nan=True)


def test_four_words_at_a_time() -> None:
    """A word of 64 bits holds four of 16; what is left is looked up alone."""
    table = np.random.default_rng(8).integers(0, 1 << 16, 1 << 16).astype(np.uint16)
    table.flags.writeable = False  # as tables are: one compiled form serves all
    words = np.random.default_rng(9).integers(0, 1 << 16, 40).astype(np.uint16)
    out = np.empty(10, np.uint64)
    elementwise.take_fours(table, words.view(np.uint64), out)

    assert out.view(np.uint16).tolist() == table[words].tolist()
