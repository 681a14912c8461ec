"""Values one by one: every fp16 word, and float32 around every rounding border, as the readable forms have them."""

import numpy as np
import pytest

from refemu.arith import fp16, fp32
from refemu.arith.kernels import scalars

WORDS = np.arange(1 << 16, dtype=np.uint16)


def borders() -> np.ndarray:
    """Every seventh finite fp16 value, the midpoint above it, and the float32 on either side of both."""
    values = fp16.to_f32(fp16.values(WORDS[::7]))
    values = values[np.isfinite(values)]
    middles = (values + np.nextafter(values.astype(np.float16), np.float16(np.inf)).astype(np.float32)) / 2
    points = np.concatenate([values, middles[np.isfinite(middles)]]).astype(np.float32)
    beside = [np.nextafter(points, np.float32(end)) for end in (-np.inf, np.inf)]
    return np.concatenate([points, *beside, np.float32([0, -0.0, np.inf, -np.inf, 65519.996, 65520, 1e30, -1e-30])])


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal bits, any NaN for any NaN."""
    return bool(np.all((left.view(np.uint32) == right.view(np.uint32)) | (np.isnan(left) & np.isnan(right))))


@pytest.mark.parametrize("name", ["round16", "_round16_portable"])
def test_rounding_to_fp16(name: str) -> None:
    """By the instruction of the CPU and by arithmetic."""
    x, function = borders(), getattr(scalars, name)

    assert same(np.array([function(value) for value in x], np.float32), fp16.round16(x))


@pytest.mark.parametrize("name", ["widen", "_widen_portable"])
def test_widening(name: str) -> None:
    """All words."""
    function = getattr(scalars, name)

    assert same(np.array([function(word) for word in WORDS], np.float32), fp16.to_f32(fp16.values(WORDS)))


@pytest.mark.parametrize("name", ["narrow", "_narrow_portable"])
def test_narrowing(name: str) -> None:
    x, function = borders(), getattr(scalars, name)

    assert np.array([function(value) for value in x], np.uint16).tolist() == fp16.bits(fp16.narrow(x)).tolist()


def test_float64_is_rounded_once() -> None:
    """Values nearer to a midpoint than float32 resolves."""
    middle = 1 + 2.0**-11
    x = [middle, np.nextafter(middle, 2), np.nextafter(middle, 0), 2.0**-25, np.nextafter(2.0**-25, 1), 65520.0, -1e300]
    expected = [1, 1 + 2.0**-10, 1, 0, 2.0**-24, np.inf, -np.inf]

    assert [float(scalars.round16_of_f64(np.float64(value))) for value in x] == expected


def test_multiplying_and_adding_rounds_once() -> None:
    """An addend decides a tie that it would be too small for after a rounding."""
    draw = np.random.default_rng(2)
    a, b, c = (draw.normal(size=300).astype(np.float16).astype(np.float32) for _ in range(3))
    half = np.array([scalars.fma16(*row) for row in zip(a, b, c, strict=True)], np.float32)
    single = np.array([scalars.fma32(*row) for row in zip(a, b, c, strict=True)], np.float32)

    assert same(half, fp16.fma16(a, b, c))
    assert same(single, fp32.fma32(a, b, c))
    tie, below = 2.0**-11, 2.0**-11 - 2.0**-22
    results = [scalars.fma16(*np.float32([1, 1 + 2.0**-10, addend])) for addend in (tie, below)]
    assert [float(result) for result in results] == [1 + 2.0**-9, 1 + 2.0**-10]


def test_there_is_one_nan() -> None:
    odd = np.array([0xFFC12345, 0x7F800001], np.uint32).view(np.float32)

    assert [int(np.float32(scalars.canonical(value)).view(np.uint32)) for value in odd] == [0x7FC00000] * 2
    assert float(scalars.canonical(np.float32(-1.5))) == -1.5


def test_exponential() -> None:
    x = np.concatenate([np.linspace(-110, 90, 1001), [0, -0.0, np.inf, -np.inf, 1e-30]]).astype(np.float32)

    assert same(np.array([scalars.exp(value) for value in x], np.float32), fp32.exp32(x))


@pytest.mark.parametrize("exponent", [-14, -3, 0, 9, 14])
def test_splitting_rounds_all_significands(exponent: int) -> None:
    """Every float32 of one exponent: the operations scale with powers of two."""
    x = ((np.arange(1 << 23, dtype=np.uint32)) | np.uint32(exponent + 127 << 23)).view(np.float32)
    c = x * scalars.SPLIT

    assert np.array_equal(c - (c - x), fp16.round16(x))


def test_splitting_keeps_subnormals_and_signs() -> None:
    """Multiples of 2**-24 below 2**-14, and both zeros."""
    x = np.concatenate([np.arange(-1024, 1025, dtype=np.float32) * np.float32(2**-24), np.float32([-0.0, -65504])])

    assert same(np.array([scalars.round16_sum(value) for value in x], np.float32), x)


def test_fused_splitting_rounds_products() -> None:
    """Integers up to 2,048 times fp16 values, also subnormal and negative: as `round16_sum` of the product."""
    n = np.arange(2049, dtype=np.float32)
    for p in np.float32([2**-24, -(2**-14), 1023 * 2**-24, 1.0009765625, -15.9921875, 0.0, -0.0]):
        x = n * p

        assert same(np.array([scalars.round16_times(value, p) for value in n], np.float32), fp16.round16(x))
