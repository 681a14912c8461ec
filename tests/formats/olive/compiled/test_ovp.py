"""The compiled form: every format it may meet, every dtype, packed words."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import OVP_FLINT4, OVP_INT4, OVP_INT4_REPO, OVP_INT8, OVP_INT8_REPO, AbFloat, Flint, IntFormat, Ovp
from refemu.formats.nearest import TIES
from refemu.formats.olive.compiled import ovp
from refemu.formats.olive.kernels import nibbles

BASES = [OVP_INT4, OVP_FLINT4, OVP_INT8, OVP_INT4_REPO, OVP_INT8_REPO]


@st.composite
def ovp_formats(draw: st.DrawFn) -> Ovp:
    """Any format: all widths, outlier shapes, rules, thresholds."""
    width = draw(st.integers(3, 8))
    normal = draw(st.sampled_from([IntFormat(width, symmetric=True), Flint(width)]))
    exp_bits = draw(st.integers(0, min(width - 1, 5)))
    outlier = draw(st.just(AbFloat(exp_bits, width - 1 - exp_bits, draw(st.integers(0, 15)))) | st.none())
    assume(outlier is None or outlier.largest < 1 << 30)
    overlaps = outlier is not None and outlier.smallest <= normal.largest
    thresholds = st.floats(0.0625, 300) | st.sampled_from([0.5, 9.5, 9.1, 12.0])
    threshold = None if outlier is None else draw(thresholds if overlaps else st.none() | thresholds)
    return Ovp(
        normal,
        outlier,
        threshold,
        draw(st.booleans()),
        draw(st.sampled_from(["larger", "left"])),
        draw(st.sampled_from(TIES)),
        "axis",
        draw(st.sampled_from(["low", "high"])),
        draw(st.none() | st.floats(1, 1e5) | st.sampled_from([0.3, 8.0, 1e39])),
    )


def telling(fmt: Ovp) -> np.ndarray:
    """Values, midpoints, bounds and their float32 neighbours, both signs, in an order that mixes the pairs."""
    normal = np.unique(np.abs(fmt.normal.decode(fmt.normal.codes())))
    grid = np.concatenate([normal, fmt.outlier.magnitudes() if fmt.outlier else []])
    bounds = [b for b in (fmt.boundary, fmt.far) if b is not None and b < 1e30]
    points = np.concatenate([grid, (grid[1:] + grid[:-1]) / 2, bounds, [0, 1e30, 1e-45]]).astype(np.float32)
    near = np.concatenate([points, np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(np.inf))])
    both = np.concatenate([near, -near])
    return np.concatenate([both, both[::-1], np.random.default_rng(3).permutation(both)])


@settings(max_examples=60)
@given(fmt=ovp_formats())
def test_any_format_encodes_as_the_readable_one(fmt: Ovp) -> None:
    x = telling(fmt)

    assert ovp.encode(fmt, x).equals(fmt.encode(x))
    assert ovp.encode(fmt, x, 0.7).equals(fmt.encode(x, 0.7))
    assert np.array_equal(ovp.encode_pairs(fmt, x), fmt.encode(x).pairs())


@settings(max_examples=40)
@given(fmt=ovp_formats())
def test_any_format_decodes_as_the_readable_one(fmt: Ovp) -> None:
    codes = fmt.split(np.arange(1 << 2 * fmt.width)).reshape(2, -1)

    assert np.array_equal(ovp.decode(fmt, codes, strict=False), fmt.decode(codes, strict=False))
    assert np.array_equal(ovp.decode_pairs(fmt, fmt.legal_pairs()), fmt.decode(fmt.split(fmt.legal_pairs()).ravel()))


@pytest.mark.parametrize("fmt", BASES, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint16])
def test_every_dtype_is_taken(fmt: Ovp, dtype: Any) -> None:
    x = np.linspace(0, 120, 62).astype(dtype)

    assert ovp.encode(fmt, x).equals(fmt.encode(x))
    assert ovp.encode(fmt, x, np.float32(0.1)).equals(fmt.encode(x, np.float32(0.1)))


def test_what_float32_does_not_hold_is_still_exact() -> None:
    x = np.array([9.5, 1, 9.5 + 2.0**-40, 1, 50 + 2.0**-40, 50, -(2.0**200), 3])

    assert ovp.encode(OVP_INT4, x).decode().tolist() == [7, 1, 12, 0, 48, 0, -96, 0]
    assert ovp.encode(OVP_INT4, np.array([2**24 + 1, 2**24])).decode().tolist() == [96, 0]


@pytest.mark.parametrize("fmt", BASES, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("dtype", [None, np.int32, np.int64, np.float32, np.float64])
def test_pairs_decode_to_any_dtype_that_holds_them(fmt: Ovp, dtype: Any) -> None:
    tensor = fmt.encode(telling(fmt).reshape(3, -1))
    grid = ovp.decode_pairs(fmt, tensor.pairs(), dtype)

    assert np.array_equal(grid.reshape(3, -1), tensor.decode())
    assert fmt.outlier
    assert grid.dtype == (dtype or {96: np.int8, 192: np.int16, 2016: np.int16, 32768: np.int32}[fmt.outlier.largest])


INT4_KINDS = [
    pytest.param(OVP_INT4, True, id="int4"),
    pytest.param(Ovp(IntFormat(4, symmetric=True), AbFloat(3, 0, 0), 9.5), False, id="e3m0, up to 128"),
    pytest.param(Ovp(IntFormat(4, symmetric=True), AbFloat(1, 2, 3), 9.5), True, id="e1m2"),
    pytest.param(Ovp(IntFormat(4, symmetric=True), AbFloat(2, 1, 3)), False, id="16 bits"),
    pytest.param(Ovp(IntFormat(4, symmetric=True), AbFloat(2, 1, 2), left="high"), False, id="left high"),
    pytest.param(OVP_FLINT4, False, id="flint4"),
]


@pytest.mark.parametrize(("fmt", "by_arithmetic"), INT4_KINDS)
@pytest.mark.parametrize("count", [1, 31, 64, 256, 2047, 2048, 2049, 5000])
def test_every_word_decodes_with_and_without_a_table(fmt: Ovp, by_arithmetic: bool, count: int) -> None:
    legal = fmt.legal_pairs()
    words = legal[np.arange(count) * 7 % legal.size]
    grid = fmt.decode(fmt.split(words).reshape(-1))

    assert by_arithmetic == (nibbles.magnitudes(fmt) is not None)
    assert np.array_equal(ovp.decode_pairs(fmt, words), grid)
    assert np.array_equal(ovp.dequantize_pairs(fmt, words, np.float32(0.3)), grid.astype(np.float32) * np.float32(0.3))
    assert np.array_equal(
        ovp.decode_pairs(fmt, np.arange(256), strict=False),
        fmt.decode(fmt.split(np.arange(256)).reshape(-1), strict=False),
    )


@pytest.mark.parametrize(("fmt", "_"), INT4_KINDS)
def test_every_illegal_word_is_rejected_anywhere(fmt: Ovp, _: bool) -> None:
    legal = fmt.legal_pairs()
    for word in np.setdiff1d(np.arange(256), legal):
        for place in (0, 70, 2999):
            words = np.resize(legal, 3000)
            words[place] = word
            with pytest.raises(Refused, match=f"pair {place} is 0x{word:02x}"):
                ovp.decode_pairs(fmt, words)
            with pytest.raises(Refused, match=f"pair {place} is 0x{word:02x}"):
                ovp.dequantize_pairs(fmt, words, np.float32(2))


def test_pairs_are_scaled_per_row() -> None:
    """[olive §4]: one scale or one of every row; a product beyond float32 is infinite."""
    x = np.random.default_rng(4).normal(size=(5, 66)).astype(np.float32)
    for fmt in (OVP_INT4, OVP_INT8):
        for scale in (np.float32(0.11), np.linspace(0.1, 0.3, 5).astype(np.float32)):
            tensor = fmt.encode(x, scale)

            assert ovp.dequantize_pairs(fmt, tensor.pairs(), scale).tobytes() == tensor.dequantize().tobytes()
    assert ovp.dequantize_pairs(OVP_INT4, np.array([7], np.uint8), np.float32(1e38)).tolist() == [np.inf, 0]


def test_fp16_is_divided_a_block_at_a_time() -> None:
    """Around the end of a block, for one scale, several, and none; a quotient beyond float32 saturates."""
    x = np.random.default_rng(5).normal(size=2 * ovp.BLOCK + 6).astype(np.float16)
    for some in (x, x[: ovp.BLOCK], x[: ovp.BLOCK + 2], x[:5], x[::3], x.reshape(2, -1), x[:0]):
        for scale in (None, np.float32(0.2)):
            assert np.array_equal(ovp.encode_pairs(OVP_INT4, some, scale), OVP_INT4.encode(some, scale).pairs())
    for values in ([3e4, 1.0], [np.inf, 1.0], [1.0, np.nan]):
        for scale in (np.float32(2e-38), np.float32(2)):
            one = np.array(values, np.float16)
            if np.isfinite(one).all():
                assert np.array_equal(ovp.encode_pairs(OVP_INT4, one, scale), OVP_INT4.encode(one, scale).pairs())
            else:
                with pytest.raises(Refused, match="must be finite"):
                    ovp.encode_pairs(OVP_INT4, one, scale)


def test_illegal_pairs_are_zero_on_request() -> None:
    for fmt, words in ((OVP_INT4, [0x08, 0x80, 0x88, 0x85]), (OVP_INT8, [0x0080, 0x8000, 0x8080, 0x8540])):
        assert ovp.decode_pairs(fmt, words, strict=False)[:6].tolist() == [0] * 6


@pytest.mark.parametrize(
    ("words", "dtype", "error", "message"),
    [
        pytest.param(
            np.array([[0, 0x85], [8, 0]], np.uint8), None, Refused, r"pair \(1, 0\) is 0x08: an id", id="illegal"
        ),
        pytest.param([0, 256], None, Refused, r"pair 256 at index \(1,\) is outside \[0, 256\)", id="word"),
        pytest.param([0.0], None, RefusedType, "integers are needed, got dtype float64", id="float"),
        pytest.param(np.uint8(3), None, Refused, "pair words need at least one axis, got a scalar", id="scalar"),
        pytest.param([0], np.uint8, Refused, "uint8 does not hold every value, the largest is 96", id="dtype"),
    ],
)
def test_ovp_rejects_invalid_inputs(words: Any, dtype: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        ovp.decode_pairs(OVP_INT4, words, dtype)


def test_a_width_below_four_bits_packs_whole_pairs() -> None:
    fmt = Ovp(IntFormat(3, symmetric=True), AbFloat(1, 1, 1))

    assert fmt.encode([3, -1, 6, 0]).pack() == ovp.encode(fmt, [3, -1, 6, 0]).pack()
    assert ovp.encode_pairs(fmt, [3, -1]).tolist() == [0b111_011]
