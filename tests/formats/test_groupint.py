"""Grouped integers: codes and scales of the oracle, exact values, short groups, the zero point, errors."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import INT4_G128, GroupInt, GroupIntTensor
from refemu.formats.compiled import groupint as groupint_compiled
from tests.oracles.harmonia import bfp

Encode = Callable[[GroupInt, Any], GroupIntTensor]


def readable(fmt: GroupInt, w: Any) -> GroupIntTensor:
    return fmt.encode(w)


IMPLEMENTATIONS = [pytest.param(readable, id="format"), pytest.param(groupint_compiled.encode, id="compiled")]
values = st.one_of(
    st.floats(-1000, 1000, width=32),
    st.floats(-(2**-14), 2**-14, width=32),
    st.sampled_from([0.0, -0.0, 3.5, 7.0, 0.5, -0.5, 2**-24, 9.8 * 2**-24, 65000.0]),
).map(np.float32)


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
@settings(deadline=None)
@given(
    row=st.lists(values, min_size=1, max_size=40),
    bits=st.integers(2, 8),
    group=st.one_of(st.none(), st.integers(1, 40)),
)
def test_rows_equal_the_oracle(encode: Encode, row: list[np.float32], bits: int, group: int | None) -> None:
    """[harmonia §V-A] D-harmonia-14: symmetric, absmax / 7 rounded once to fp16, codes to even."""
    tensor = encode(GroupInt(bits, group), np.array([row, row[::-1]], np.float32))
    for line, codes, scales in zip((row, row[::-1]), tensor.code.tolist(), tensor.scale, strict=True):
        expected = bfp.encode_int([float(w) for w in line], bits, group)
        assert codes == [code for one in expected for code in one.code]
        assert scales.view(np.uint16).tolist() == [one.scale for one in expected]


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
def test_row_of_576_has_four_groups_and_half(encode: Encode) -> None:
    """[harmonia Table I, §IV-B] a factor for 128 inputs; 4.125 bits a weight where no group is short."""
    w = np.random.default_rng(1).standard_normal((3, 576)).astype(np.float32)
    tensor = encode(INT4_G128, w)

    assert tensor.scale.shape == (3, 5) and tensor.storage_bits() == 3 * bfp.int_storage_bits(576)
    assert encode(INT4_G128, w[:, :512]).storage_bits() == Fraction(33, 8) * 3 * 512
    assert np.array_equal(tensor.scale[:, 4], encode(INT4_G128, w[:, 512:]).scale[:, 0])


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
def test_ties_go_to_the_even_code(encode: Encode) -> None:
    """[harmonia §V-A] under the scale 1."""
    tensor = encode(GroupInt(4), np.array([[7, 0.5, 1.5, 2.5, 6.5, -0.5, -1.5, -2.5]], np.float32))

    assert tensor.code.tolist() == [[7, 0, 2, 2, 6, 0, -2, -2]]


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
def test_minus_eight_comes_from_subnormal_scales_only(encode: Encode) -> None:
    """[harmonia §V-A] absmax 9.8 * 2^-24 has the scale 2^-24, and -9.8 the code -8; an absmax below half has code 0."""
    tiny = np.float32(2**-24)
    tensor = encode(GroupInt(4), np.array([[-9.8, 9.8, 1], [3.4, -3.4, 1]], np.float32) * tiny)

    assert tensor.code.tolist() == [[-8, 7, 1], [0, 0, 0]] and tensor.scale.view(np.uint16).tolist() == [[1], [0]]
    rng = np.random.default_rng(2)
    for scale in 2.0 ** np.arange(-13, 14):
        assert encode(GroupInt(4, 8), (rng.standard_normal((64, 64)) * scale).astype(np.float32)).code.min() >= -7


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_round_to_nearest_per_row(encode: Encode, dtype: Any) -> None:
    """[kllm §V] the baseline: one group per row, any leading axes, activations and weights alike."""
    x = np.random.default_rng(3).standard_normal((2, 3, 24)).astype(dtype)
    tensor = encode(GroupInt(3), x)
    peak = np.abs(x.astype(np.float64)).max(axis=-1, keepdims=True)

    assert tensor.scale.shape == (2, 3, 1) and np.abs(tensor.code).max(axis=-1).min() == 3
    assert np.abs(tensor.dequantize() - x).max() <= 0.51 * (peak / 3).max()


def test_values_are_exact_and_scales_follow_activations_groups() -> None:
    """[harmonia §IV-B] a BFP group of 32 inputs uses factor g >> 2; one of 128 its own."""
    w = np.random.default_rng(4).standard_normal((2, 576)).astype(np.float32)
    tensor = INT4_G128.encode(w)
    exact = [
        [
            Fraction(int(code)) * Fraction(float(scale))
            for code, scale in zip(codes, np.repeat(scales, 128)[:576], strict=True)
        ]
        for codes, scales in zip(tensor.code, tensor.scale, strict=True)
    ]

    assert [[Fraction(value) for value in row] for row in tensor.dequantize().tolist()] == exact
    assert np.array_equal(tensor.decode(), tensor.grid())
    assert np.array_equal(tensor.scales_of(32), tensor.scale[:, np.arange(18) >> 2])
    assert np.array_equal(tensor.scales_of(128), tensor.scale)
    assert np.array_equal(GroupInt(4).encode(w).scales_of(32), np.repeat(GroupInt(4).encode(w).scale, 18, axis=1))


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
def test_zero_point_covers_the_range_and_zero(encode: Encode) -> None:
    """D-harmonia-14: unsigned codes; 0 is a value, and the ends of the range are half a step away at most."""
    rng = np.random.default_rng(5)
    w = (rng.standard_normal((16, 96)) + rng.integers(-3, 4, (16, 1))).astype(np.float32)
    tensor = encode(GroupInt(4, 32, zero_point=True), w)
    assert tensor.zero is not None
    step = np.repeat(tensor.scale.astype(np.float64), 32, axis=1)

    assert tensor.code.dtype == tensor.zero.dtype == np.uint8 and tensor.code.max() == 15 and tensor.code.min() == 0
    assert (np.abs(tensor.dequantize() - w) <= 1.01 * step).all()
    assert np.array_equal(encode(GroupInt(4, 32, zero_point=True), w * 0).dequantize(), w * 0)
    assert tensor.storage_bits() == 4 * 16 * 96 + 20 * 48 and tensor.storage_bits(metadata=False) == 4 * 16 * 96


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("fmt", "w", "error", "message"),
    [
        pytest.param(
            INT4_G128, np.zeros((2, 4)), RefusedType, "must be float16 or float32, got dtype float64", id="float64"
        ),
        pytest.param(
            INT4_G128, np.array([[1, np.nan]], np.float32), Refused, r"finite, got nan at index \(0, 1\)", id="nan"
        ),
        pytest.param(
            INT4_G128,
            np.array([[1, -np.inf]], np.float16),
            Refused,
            r"finite, got -inf at index \(0, 1\)",
            id="infinity",
        ),
        pytest.param(
            GroupInt(4, 2),
            np.array([[0, 0, 460000, 0]], np.float32),
            Refused,
            r"scale 65714\.28.* of row \(0,\), group 1 is above 65504",
            id="scale",
        ),
        pytest.param(
            INT4_G128, np.zeros((2, 0), np.float32), Refused, "axis -1 must hold at least one element", id="empty"
        ),
        pytest.param(INT4_G128, np.float32(1), Refused, "axis must be in", id="scalar"),
    ],
)
def test_groupint_rejects_weights(encode: Encode, fmt: GroupInt, w: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        encode(fmt, w)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        pytest.param(lambda: GroupInt(1), Refused, r"bits must be in \[2, 8\], got 1", id="bits"),
        pytest.param(lambda: GroupInt(4, 0), Refused, "group must be in", id="group"),
        pytest.param(lambda: GroupInt(4, 128, 1), RefusedType, "zero_point must be a bool, got 1", id="zero"),  # type: ignore
    ],
)
def test_groupint_rejects_parameters(build: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()


def test_names_and_limits() -> None:
    assert (INT4_G128.name, GroupInt(8).name, GroupInt(4, 32, True).name) == ("int4_g128", "int8_row", "int4_g32_zp")
    assert (INT4_G128.limits, GroupInt(4, None, True).limits) == ((-8, 7), (0, 15))


@pytest.mark.parametrize("fmt", [INT4_G128, GroupInt(8), GroupInt(2, 7, True)])
def test_groupint_repr_evaluates_back(fmt: GroupInt) -> None:
    assert eval(repr(fmt), {"GroupInt": GroupInt}) == fmt and hash(fmt) == hash(eval(repr(fmt), {"GroupInt": GroupInt}))


def test_kernels_equal_their_python() -> None:
    words = np.random.default_rng(6).standard_normal((3, 20)).astype(np.float32)
    peaks = [np.zeros((3, 3), np.uint32) for _ in range(2)]
    codes = [np.zeros((3, 20), np.int8) for _ in range(2)]
    largest, nearest = groupint_compiled.largest_of_groups, groupint_compiled.codes_of_groups
    scale = np.array([[0.25, 0.5, 0], [0.1, 1, 2], [0.3, 0.2, 0.1]], np.float32)
    plain = [getattr(kernel, "py_func", kernel) for kernel in (largest, nearest)]
    for at, (first, second) in enumerate(((largest, nearest), plain)):
        first(words.view(np.uint32), 8, peaks[at])
        second(words, 8, scale, -8, 7, codes[at])

    assert np.array_equal(peaks[0], peaks[1]) and np.array_equal(codes[0], codes[1]) and codes[0].any()


def test_float32_quotient_is_near_same_tie() -> None:
    """[harmonia §V-A]: weights at, just below and just above every tie of scales of few and of many bits."""
    factors = np.arange(1, 1 << 15, 37).astype(np.uint16).view(np.float16)
    scale = factors[(factors < 500) & (factors > 0)].astype(np.float32)[:, None]
    tie = (scale * (np.arange(15) - np.float32(7.5))).astype(np.float32)
    peak = np.full_like(scale, 7) * scale
    near = [tie, np.nextafter(tie, np.float32(0)), np.nextafter(tie, np.float32(np.inf))]
    w = np.concatenate([peak, *(np.clip(x, -peak, peak) for x in near)], axis=1)

    assert groupint_compiled.encode(GroupInt(4), w).equals(readable(GroupInt(4), w))
