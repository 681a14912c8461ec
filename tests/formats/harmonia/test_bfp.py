"""Block floating point against exact values: every fp16 value under every exponent, the options, examples."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import BFP4, BFP8, Bfp, BfpTensor
from refemu.formats.harmonia.compiled import bfp as bfp_compiled
from tests.formats.harmonia.bfp_words import FINITE, under, words
from tests.oracles.harmonia import bfp

Encode = Callable[..., BfpTensor]
OPTIONS = [
    {"rounding": rounding, "subnormals": subnormals, "zero_sign": zero_sign}
    for rounding in ("truncate", "half_even", "half_away", "floor")
    for subnormals in ("keep", "flush")
    for zero_sign in ("keep", "canonical")
]


def readable(fmt: Bfp, x: Any, axis: int = -1, *, bits: bool = False) -> BfpTensor:
    return fmt.encode(x, axis, bits=bits)


IMPLEMENTATIONS = [pytest.param(readable, id="format"), pytest.param(bfp_compiled.encode, id="compiled")]


def codes(tensor: BfpTensor) -> list[tuple[list[int], list[int], int]]:
    """Signs, magnitudes and exponent of a tensor with one axis, group by group."""
    size = tensor.format.group
    return [
        (tensor.sign[start : start + size].tolist(), tensor.mantissa[start : start + size].tolist(), exponent)
        for start, exponent in zip(range(0, tensor.length, size), tensor.exponent.tolist(), strict=True)
    ]


def expected(row: list[int], fmt: Bfp) -> list[tuple[list[int], list[int], int]]:
    """What the oracle says, without the fill of a short group."""
    found = bfp.encode(
        row,
        fmt.mantissa_bits,
        fmt.group,
        rounding=fmt.rounding,
        special=fmt.special,
        subnormals=fmt.subnormals,
        zero_sign=fmt.zero_sign,
    )
    ends = [min(fmt.group, len(row) - start) for start in range(0, len(row), fmt.group)]
    return [(group.sign[:end], group.mantissa[:end], group.exponent) for group, end in zip(found, ends, strict=True)]


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("bits", "mantissa", "values"), [(8, [201, 50, 6], [6.28125, -1.5625, 0.1875]), (4, [12, 3, 0], [6, -1.5, 0])]
)
def test_group_of_three_shifts_to_largest_exponent(
    encode: Encode, bits: int, mantissa: list[int], values: list[float]
) -> None:
    """[harmonia Fig. 3] 6.28125, -1.5703125 and 0.2001953125; D-harmonia-1: the mantissa has no sign."""
    tensor = encode(Bfp(bits, 3), np.array([6.28125, -1.5703125, 0.2001953125], np.float16))

    assert tensor.mantissa.tolist() == mantissa and tensor.sign.tolist() == [0, 1, 0]
    assert tensor.exponent.tolist() == [17] and tensor.dequantize().tolist() == values


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("row", "exponent", "mantissa"),
    [
        ([0x0000, 0x8000], 0, [0, 0]),
        ([0x0001, 0x8003, 0x03FF], 0, [0, 0, 127]),
        ([0x0400, 0x83FF, 0x0001], 1, [128, 127, 0]),
        ([0x7BFF, 0x3C00, 0x8000], 30, [255, 0, 0]),
    ],
    ids=["zeros", "subnormals", "field 1", "largest"],
)
def test_exponent_is_the_largest_raw_field(encode: Encode, row: list[int], exponent: int, mantissa: list[int]) -> None:
    """D-harmonia-3, D-harmonia-4: zeros and subnormals have field 0, which weighs as 1; D-harmonia-6: signs stay."""
    tensor = encode(Bfp(8, 3), np.array(row, np.uint16), bits=True)

    assert tensor.exponent.tolist() == [exponent] and tensor.mantissa.tolist() == mantissa
    assert tensor.sign.tolist() == [word >> 15 for word in row]


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
@pytest.mark.parametrize("bits", range(1, 12))
def test_every_value_is_truncated_under_every_exponent(encode: Encode, bits: int) -> None:
    """[harmonia §II-B] D-harmonia-2: |x| divided by the unit of the group, the fraction dropped."""
    for exponent in range(31):
        rows = under(exponent)
        tensor = encode(Bfp(bits, 2), rows, bits=True)
        exact = np.abs(rows.view(np.float16).astype(np.float64)) * 2.0 ** (14 + bits - max(exponent, 1))

        assert np.array_equal(tensor.mantissa, np.floor(exact))
        assert np.array_equal(tensor.sign, rows >> 15) and (tensor.exponent == exponent).all()


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options.values()))
def test_options_equal_the_oracle_under_many_exponents(options: dict[str, str]) -> None:
    """D-harmonia-2, D-harmonia-4, D-harmonia-6: roundings saturate, subnormals may be flushed, zeros lose signs."""
    for exponent in (0, 1, 2, 9, 15, 30):
        rows = under(exponent)[::97]
        for fmt in (Bfp(8, 2, **options), Bfp(3, 2, **options)):
            tensor = fmt.encode(rows, bits=True)

            assert tensor.equals(bfp_compiled.encode(fmt, rows, bits=True))
            for row, sign, mantissa in zip(rows.tolist(), tensor.sign.tolist(), tensor.mantissa.tolist(), strict=True):
                assert [(sign, mantissa, exponent)] == expected(row, fmt)


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=60)
@given(
    row=st.lists(words, min_size=1, max_size=70),
    bits=st.integers(1, 11),
    group=st.integers(1, 40),
    options=st.sampled_from(OPTIONS),
)
def test_rows_equal_the_oracle(encode: Encode, row: list[int], bits: int, group: int, options: dict[str, str]) -> None:
    """[harmonia §II-B] rows of any length; a short last group has its own exponent and keeps its length."""
    fmt = Bfp(bits, group, **options)
    tensor = encode(fmt, np.array(row, np.uint16), bits=True)

    assert codes(tensor) == expected(row, fmt)
    assert [tensor.sign.dtype, tensor.mantissa.dtype, tensor.exponent.dtype] == [np.uint8, np.uint16, np.uint8]


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("group", [1, 3, 32, 64])
def test_groups_run_along_axis_and_cover_rows(encode: Encode, axis: int, group: int) -> None:
    """[harmonia §III-A, Fig. 6a]: every line along the axis is encoded independently."""
    x = np.random.default_rng(3).standard_normal((3, 37, 4)).astype(np.float16)
    fmt = Bfp(8, group)
    tensor = encode(fmt, x, axis)
    lines = np.moveaxis(x, axis, -1)

    assert tensor.axis == axis % 3 and tensor.length == x.shape[axis]
    for place in np.ndindex(lines.shape[:-1]):
        alone = fmt.encode(lines[place])
        parts = (np.moveaxis(part, axis, -1)[place] for part in (tensor.sign, tensor.mantissa, tensor.exponent))
        assert [part.tolist() for part in parts] == [
            part.tolist() for part in (alone.sign, alone.mantissa, alone.exponent)
        ]


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
def test_views_and_empty_arrays_are_taken(encode: Encode) -> None:
    x = np.random.default_rng(4).standard_normal((8, 64)).astype(np.float16)
    frozen = x[:, ::2]
    frozen.flags.writeable = False

    assert encode(BFP8, frozen).equals(BFP8.encode(np.ascontiguousarray(frozen)))
    assert encode(BFP8, x[:0]).mantissa.shape == (0, 64) and encode(BFP8, x[:0]).exponent.shape == (0, 2)


@settings(deadline=None, max_examples=60)
@given(
    row=st.lists(words, min_size=1, max_size=40),
    bits=st.integers(1, 11),
    group=st.integers(1, 40),
    options=st.sampled_from(OPTIONS),
)
@example(row=[0x8001], bits=1, group=1, options={"rounding": "floor"})
def test_encoding_what_was_decoded_changes_no_code(
    row: list[int], bits: int, group: int, options: dict[str, str]
) -> None:
    """[harmonia §II-B]: every decoded value is an fp16 number, and is its own code; D-harmonia-3 makes it so.

    But for exponent 0, whose unit is that of 1: a subnormal that is rounded up to 2^-14 has field 1 afterwards.
    """
    tensor = Bfp(bits, group, **options).encode(np.array(row, np.uint16), bits=True)
    decoded = tensor.dequantize()
    halves = decoded.astype(np.float16)

    assert np.array_equal(halves.astype(np.float64), decoded)
    again = tensor.format.encode(halves)
    raised = (tensor.exponent == 0) & (again.exponent == 1)
    assert dataclasses.replace(again, exponent=np.where(raised, 0, again.exponent).astype(np.uint8)).equals(tensor)


@settings(deadline=None, max_examples=60)
@given(row=st.lists(words, min_size=1, max_size=40), bits=st.integers(1, 11))
def test_truncation_loses_less_than_a_unit(row: list[int], bits: int) -> None:
    """[harmonia §II-B]: |v| <= |x| < |v| + unit; where the exponent came from, the top bit is set."""
    x = np.array(row, np.uint16)
    tensor = Bfp(bits, len(row)).encode(x, bits=True)
    value, size = np.abs(tensor.dequantize()), np.abs(x.view(np.float16).astype(np.float64))
    top = (x >> 10 & 31) == tensor.exponent[0]

    assert (value <= size).all() and (size - value < 2.0 ** (max(int(tensor.exponent[0]), 1) - 14 - bits)).all()
    assert tensor.exponent[0] == 0 or (tensor.mantissa[top] >= 1 << (bits - 1)).all()


@settings(deadline=None, max_examples=40)
@given(
    row=st.lists(st.integers(5 << 10, (12 << 10) - 1), min_size=1, max_size=12),
    up=st.integers(-4, 18),
    data=st.data(),
)
def test_scaling_negating_permuting_change_expected_fields(row: list[int], up: int, data: st.DataObject) -> None:
    """[harmonia §II-B]: by a power of two inside the normal range."""
    fmt, x = Bfp(8, len(row)), np.array(row, np.uint16)
    tensor, scaled, negated = (
        fmt.encode(words, bits=True) for words in (x, (x.astype(np.int64) + (up << 10)).astype(np.uint16), x | 0x8000)
    )
    places = data.draw(st.permutations(range(len(row))))

    assert np.array_equal(scaled.mantissa, tensor.mantissa) and int(scaled.exponent[0]) == int(tensor.exponent[0]) + up
    assert np.array_equal(negated.mantissa, tensor.mantissa) and negated.sign.all()
    assert np.array_equal(fmt.encode(x[places], bits=True).mantissa, tensor.mantissa[places])


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
def test_infinity_and_nan_by_policy(encode: Encode) -> None:
    """D-harmonia-5: an error, taken as field 31, or infinity as 65504."""
    row = np.array([0x7C00, 0xFC00, 0x3C00], np.uint16)
    hw = encode(Bfp(8, 3, special="hw"), row, bits=True)
    saturated = encode(Bfp(8, 3, special="saturate"), row, bits=True)

    assert hw.exponent.tolist() == [31] and hw.dequantize().tolist() == [65536, -65536, 0]
    assert encode(Bfp(11, 1, special="hw"), np.array([0x7FFF], np.uint16), bits=True).dequantize().tolist() == [131008]
    assert saturated.equals(Bfp(8, 3, special="saturate").encode(np.array([65504, -65504, 1], np.float16)))
    assert saturated.exponent.tolist() == [30] and saturated.dequantize().tolist() == [65280, -65280, 0]


def test_eleven_bits_are_exact_and_floor_rounds_down() -> None:
    """D-harmonia-35: at 11 bits a group of one is exact; D-harmonia-2: `floor` raises negative magnitudes."""
    x = FINITE.view(np.float16)
    assert np.array_equal(Bfp(11, 1).encode(x).dequantize(), x.astype(np.float64))

    decoded = Bfp(4, 1, rounding="floor").encode(np.array([1.99, -1.01, -1.99], np.float16)).dequantize()
    assert decoded.tolist() == [1.875, -1.125, -1.875]  # the last one saturates


def test_names_widths_and_descriptions() -> None:
    assert (BFP8.name, BFP4.group_bits, BFP8.group_bits) == ("bfp8_g32", 165, 293)
    assert Bfp(4, 16, "floor", "hw", "flush", "canonical").name == "bfp4_g16_floor_hw_flush_canonical"
    assert BFP8.describe(1, 201, 17) == "1 11001001 E 17 = -6.28125"


@pytest.mark.parametrize("fmt", [BFP8, BFP4, Bfp(3, 16, "floor", "hw", "flush", "canonical")])
def test_bfp_repr_evaluates_back(fmt: Bfp) -> None:
    assert eval(repr(fmt), {"Bfp": Bfp}) == fmt and hash(fmt) == hash(eval(repr(fmt), {"Bfp": Bfp}))


ONE = np.zeros(4, np.float16)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        pytest.param(lambda: Bfp(0), Refused, r"Bfp: mantissa_bits must be in \[1, 11\], got 0", id="no bits"),
        pytest.param(
            lambda: Bfp(12), Refused, r"mantissa_bits must be in \[1, 11\], got 12", id="12 bits D-harmonia-35"
        ),
        pytest.param(lambda: Bfp(8, 0), Refused, "group must be in .*, got 0", id="group"),
        pytest.param(lambda: Bfp(8.0), RefusedType, "mantissa_bits must be an int, got 8.0", id="fraction"),  # type: ignore
        pytest.param(
            lambda: Bfp(8, 32, "nearest"),
            Refused,
            "rounding must be one of 'truncate', .* got 'nearest'",
            id="rounding",
        ),
        pytest.param(lambda: Bfp(special="nan"), Refused, "special must be one of 'error', 'hw'", id="special"),
        pytest.param(lambda: Bfp(subnormals="drop"), Refused, "subnormals must be one of", id="subnormals"),
        pytest.param(lambda: Bfp(zero_sign="plus"), Refused, "zero_sign must be one of", id="zero_sign"),
    ],
)
def test_bfp_rejects_parameters(build: Callable[[], Bfp], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize("encode", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("fmt", "x", "axis", "error", "message"),
    [
        pytest.param(
            BFP8, np.zeros(4, np.float32), -1, RefusedType, "x must be float16 .*, got dtype float32", id="dtype"
        ),
        pytest.param(BFP8, np.zeros(4, np.uint16), -1, RefusedType, "with bits=True.*, got dtype uint16", id="words"),
        pytest.param(
            BFP8,
            np.array([[1, np.inf]], np.float16),
            -1,
            Refused,
            r"no infinity and NaN; special='saturate' or 'hw' admits some, got 0x7c00 at index \(0, 1\)",
            id="infinity",
        ),
        pytest.param(BFP8, np.array([1, np.nan], np.float16), 0, Refused, r"got 0x7e00 at index \(1,\)", id="nan"),
        pytest.param(
            Bfp(special="saturate"),
            np.array([1, np.nan], np.float16),
            0,
            Refused,
            "no NaN, got 0x7e00",
            id="nan saturate",
        ),
        pytest.param(BFP8, ONE, 1, Refused, r"axis must be in \[-1, 1\), got 1", id="axis"),
        pytest.param(BFP8, ONE[:0], 0, Refused, r"axis 0 must hold at least one element, got shape \(0,\)", id="empty"),
        pytest.param(BFP8, ONE, 0.0, RefusedType, "axis must be an int, got 0.0", id="axis type"),
        pytest.param(BFP8, np.float16(1), -1, Refused, r"axis must be in \[0, 0\)", id="scalar"),
    ],
)
def test_bfp_rejects_values(
    encode: Encode, fmt: Bfp, x: np.ndarray, axis: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        encode(fmt, x, axis)


@pytest.mark.parametrize("length", [1, 31, 32, 33, 64, 255, 256, 257, 512, 2049])
def test_long_rows_and_strips_of_columns(length: int) -> None:
    """[harmonia §II-B]: at and next to whole groups and strips; groups of 32 and of another size, along both axes."""
    words = FINITE[np.random.default_rng(length).integers(0, FINITE.size, (35, length))]
    for fmt in (BFP8, Bfp(8, 48), Bfp(3, 5)):
        for axis in (0, 1):
            assert bfp_compiled.encode(fmt, words, axis, bits=True).equals(fmt.encode(words, axis, bits=True))


def test_kernels_equal_their_python() -> None:
    """Compiled and interpreted, on words of every field and short groups."""
    words = FINITE[::13].copy()[:4752].reshape(72, 66)
    for kernel, arguments, shapes in (
        (bfp_compiled.truncate_rows, (30, 3), ((72, 66), (72, 66), (72, 3))),
        (bfp_compiled.truncate_rows_by_32, (32, 3), ((72, 66), (72, 66), (72, 3))),
        (bfp_compiled.truncate_columns, (10, 3), ((3, 24, 66), (3, 24, 66), (3, 3, 66))),
        (bfp_compiled.encode_any, (40, 5, 1, 1, 1), ((3, 24, 66), (3, 24, 66), (3, 1, 66))),
    ):
        dtypes = np.uint8, np.uint16, np.uint8
        outputs = [[np.zeros(*given) for given in zip(shapes, dtypes, strict=True)] for _ in range(2)]
        given = words.reshape(shapes[0])
        largest = [
            int(function(given, *arguments, *out))
            for function, out in zip((kernel, getattr(kernel, "py_func", kernel)), outputs, strict=True)
        ]

        assert largest[0] == largest[1] == int((words & 0x7FFF).max())
        assert all(np.array_equal(a, b) for a, b in zip(*outputs, strict=True)) and outputs[0][1].any()
