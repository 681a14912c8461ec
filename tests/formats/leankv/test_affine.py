"""Affine codes: Eq. (2) of the paper, by the format and its compiled form."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import Affine
from refemu.formats.leankv.affine import CONSTANT, PRESETS, SCALE_OVERFLOW, SCALE_UNDERFLOW, WIDTHS, ZERO_OVERFLOW
from refemu.formats.leankv.compiled import affine as affine_compiled
from tests.oracles.leankv import formats as oracle

NARROW = [1, 2, 4, 8]
finite_words = st.integers(0, (1 << 16) - 1).map(lambda word: word if word & 0x7C00 != 0x7C00 else word ^ 0x4000)
halves = st.floats(width=16, allow_nan=False, allow_infinity=False)
singles = st.floats(width=32, allow_nan=False, allow_infinity=False)
fp16_vectors = hnp.arrays(np.uint16, 32, elements=finite_words).map(lambda words: words.view(np.float16))
formats = st.builds(
    Affine,
    st.sampled_from(NARROW),
    st.sampled_from([1, 2]),
    st.sampled_from(["neg_min", "min"]),
    st.sampled_from(["div", "recip_mul"]),
    st.sampled_from(["unrounded", "stored"]),
    st.sampled_from(["fp16", "bf16", "fp32"]),
)


def exact(word: Any) -> Fraction:
    """Value of an fp16 pattern."""
    return Fraction(float(np.uint16(word).view(np.float16)))


@pytest.mark.parametrize(("preset", "zero"), [("paper", 0x3E00), ("diffkv", 0xBE00)])
def test_the_worked_group(preset: str, zero: int) -> None:
    """[leankv Eq. (2)] D-leankv-1: -1.5, 0, 0.5, 1 at 2 bits; the presets differ in the sign bit of the zero point."""
    tensor = Affine.preset(preset, 2).encode(np.array([-1.5, 0, 0.5, 1] * 2, np.float32))

    assert tensor.code.tolist() == [0, 2, 2, 3] * 2 and tensor.pack() == bytes([0xE8, 0xE8])
    assert (int(tensor.scale[0]), int(tensor.zero[0])) == (0x3AAB, zero)
    assert tensor.dequantize()[:4].tolist() == [-1.5, 0.1669921875, 0.1669921875, 1.00048828125]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("bits", NARROW)
@settings(deadline=None, max_examples=60)
@given(x=fp16_vectors)
@example(x=np.where(np.arange(32) == 7, 2.0**-24, 0).astype(np.float16))
@example(x=np.where(np.arange(32) == 7, -65504, 65504).astype(np.float16))
def test_ends_have_the_first_and_the_last_code(preset: str, bits: int, x: np.ndarray) -> None:
    """[leankv Eq. (2)]: the minimum is code 0, the maximum R, codes follow the values; a constant group has zeros."""
    code = Affine.preset(preset, bits).encode(x).code
    order = np.argsort(x, kind="stable")

    assert code[order[0]] == 0 and code[order[-1]] == (0 if x.min() == x.max() else (1 << bits) - 1)
    assert (np.diff(code[order].astype(int)) >= 0).all()


@pytest.mark.parametrize("bits", NARROW)
@settings(deadline=None, max_examples=60)
@given(x=hnp.arrays(np.float16, 16, elements=st.floats(-1000, 1000, width=16)))
def test_round_trip_error_is_half_step_and_metadata(bits: int, x: np.ndarray) -> None:
    """[leankv Eq. (2)]: |decoded - x| <= s/2 + R |s16 - s| + |z16 - z|, and what float32 rounds, exactly compared."""
    tensor = Affine(bits).encode(x)
    assert tensor.s32 is not None
    s, top = Fraction(float(tensor.s32.view(np.float32)[0])), (1 << bits) - 1
    meta = top * abs(exact(tensor.scale[0]) - s) + abs(-exact(tensor.zero[0]) - Fraction(float(x.min())))
    slack = Fraction(4 * top, 1 << 24) * s + Fraction(2000, 1 << 23)  # quotient near a tie; decoded value rounded

    assert all(
        abs(Fraction(float(y)) - Fraction(float(v))) <= s / 2 + meta + slack
        for y, v in zip(tensor.dequantize(), x, strict=True)
    )


@settings(deadline=None, max_examples=150)
@given(fmt=formats, x=hnp.arrays(np.float32, (2, 32), elements=singles | halves))
@example(fmt=Affine(4, 1, "min"), x=np.array([[-0.0, 0.0] * 16, [0.0, -0.0] * 16], np.float32))
@example(fmt=Affine(4, 1, "min"), x=np.array([[1.0, -0.0] + [0.0, 2.0] * 15, [-1.0, -0.0] * 16], np.float32))
@example(fmt=Affine(8, 2), x=np.array([[3e38, -3e38] * 16, [1e-45, 0.0] * 16], np.float32))
@example(fmt=Affine(8, 2, quant_div="recip_mul"), x=np.array([[3e38, -3e38] * 16, [1e-45, 0.0] * 16], np.float32))
def test_compiled_form_equals_format_in_every_field(fmt: Affine, x: np.ndarray) -> None:
    readable, compiled = fmt.encode(x), affine_compiled.encode(fmt, x)

    assert readable.equals(compiled) and list(readable.fields()) == list(compiled.fields())
    assert all(
        np.array_equal(a.array, b.array) and a.array.dtype == b.array.dtype and a.array.shape == b.array.shape
        for a, b in zip(readable.fields().values(), compiled.fields().values(), strict=True)
    )
    assert (
        readable.dequantize().tobytes()
        == affine_compiled.decode(fmt, readable.code, readable.scale, readable.zero).tobytes()
    )


@settings(deadline=None, max_examples=150)
@given(
    x=fp16_vectors,
    bits=st.sampled_from(NARROW),
    groups=st.sampled_from([1, 2]),
    zero=st.sampled_from(["neg_min", "min"]),
    quant_div=st.sampled_from(["div", "recip_mul"]),
    stored=st.sampled_from(["unrounded", "stored"]),
)
@example(
    x=np.where(np.arange(32) % 2, -0.0, 0.0).astype(np.float16),
    bits=4,
    groups=1,
    zero="min",
    quant_div="div",
    stored="unrounded",
)
def test_fields_and_values_are_the_oracles(
    x: np.ndarray, bits: int, groups: int, zero: str, quant_div: str, stored: str
) -> None:
    """[leankv Eq. (2)] D-leankv-1, D-leankv-2, D-leankv-3, D-leankv-5, D-leankv-6, D-leankv-7, D-leankv-8."""
    tensor = Affine(bits, groups, zero, quant_div, stored).encode(x)
    wanted = oracle.encode(x.tolist(), bits, groups, zero=zero, quant_div=quant_div, quantize_with=stored)

    assert tensor.code.tolist() == [code for group in wanted for code in group.code]
    assert [tensor.scale.tolist(), tensor.zero.tolist(), tensor.status.tolist()] == [
        [getattr(group, name) for group in wanted] for name in ("scale", "zero", "status")
    ]
    assert tensor.s32.view(np.float32).tolist() == [group.s32 for group in wanted]
    assert np.array_equal(tensor.dequantize(), oracle.decode(wanted, zero), equal_nan=True)


@pytest.mark.parametrize("bits", WIDTHS)
@settings(deadline=None, max_examples=25)
@given(words=hnp.arrays(np.uint16, (3, 2, 32), elements=finite_words))
def test_compiled_form_packs_what_the_format_packs(bits: int, words: np.ndarray) -> None:
    """D-leankv-11: feature 0 in the lowest bits of the first word."""
    x = words.view(np.float16)
    tensor = Affine(bits).encode(x)
    words, metadata = affine_compiled.encode_words(Affine(bits), x)

    assert np.array_equal(tensor.words(), words) and np.array_equal(tensor.metadata(), metadata)
    assert tensor.words()[0, 0, 0] & ((1 << bits) - 1) == tensor.code[0, 0, 0]


@pytest.mark.parametrize("bits", NARROW)
def test_ties_go_to_the_even_code(bits: int) -> None:
    """D-leankv-5: step 1, features k + 1/2."""
    top = (1 << bits) - 1
    x = np.array([0, top, *(k % top + 0.5 for k in range(254 + 16 - 2))], np.float32)[: 16 * (1 + (top + 1) // 16)]

    assert Affine(bits).encode(x).code[2:].tolist() == [round(float(v)) for v in x[2:]]


def test_a_reciprocal_moves_codes() -> None:
    """D-leankv-2: of eighths, whose quotients are often ties; both presets decode alike where codes are alike."""
    rng = np.random.default_rng(0)
    x = rng.integers(-64, 64, (500, 64)).astype(np.float32) / 8
    paper, diffkv = (Affine.preset(name, 8).encode(x) for name in ("paper", "diffkv"))
    moved = paper.code != diffkv.code

    assert 0 < np.count_nonzero(moved) < moved.size // 100
    assert np.array_equal(paper.dequantize()[~moved], diffkv.dequantize()[~moved])


def test_rounded_metadata_moves_codes() -> None:
    """D-leankv-3: 2 % of 8-bit codes of normal data, fewer at fewer bits."""
    x = np.random.default_rng(0).standard_normal((500, 128)).astype(np.float16)
    shares = [
        np.mean(Affine(bits, quantize_with="stored").encode(x).code != Affine(bits).encode(x).code)
        for bits in (8, 4, 2, 1)
    ]

    assert 0.015 < shares[0] < 0.03 and shares[0] > shares[1] > shares[2] >= shares[3]


@pytest.mark.parametrize("value", [0.0, -0.0, 3.0, -7.25, 2.0**-24, 65504.0])
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("bits", NARROW)
def test_constants_come_back(value: float, preset: str, bits: int) -> None:
    """D-leankv-6: code 0, step 0, the minimum is the value; D-leankv-8: -0 comes back as +0."""
    tensor = Affine.preset(preset, bits).encode(np.full(16, value, np.float16))

    assert not tensor.code.any() and not tensor.scale.any() and tensor.status.tolist() == [CONSTANT]
    assert tensor.dequantize().tobytes() == np.full(16, value + 0.0, np.float32).tobytes()


@pytest.mark.parametrize(("preset", "words"), [("paper", (0, 0, 0)), ("diffkv", (0, 0x8000, 0x8000))])
def test_zero_point_of_a_minimum_of_zero(preset: str, words: tuple[int, ...]) -> None:
    """D-leankv-8: +0 whatever the order, or the sign of the last zero."""
    groups = np.array([[-0.0, 0.0] * 8, [0.0, -0.0] * 8, [0.0, -0.0] + [5.0] * 14], np.float16)

    assert tuple(int(z) for z in Affine.preset(preset, 4).encode(groups).zero[:, 0]) == words


def test_status_of_scales_beyond_fp16() -> None:
    """D-leankv-7: 65,520 at 1 bit is infinite, 2**-25 rounds to 0; a bf16 or fp32 minimum may overflow."""
    wide = Affine(1).encode(np.array([65504.0, -16.0] * 8, np.float16))
    assert wide.status.tolist() == [SCALE_OVERFLOW] and wide.scale.tolist() == [0x7C00]
    assert np.isnan(wide.dequantize()[1]) and wide.dequantize()[0] == np.inf

    narrow = Affine(1).encode(np.array([2.0**-25, 0.0] * 8, np.float32))
    assert narrow.status.tolist() == [SCALE_UNDERFLOW]
    assert narrow.code.tolist() == [1, 0] * 8 and not narrow.dequantize().any()

    assert Affine(4).encode(np.full(16, -65520.0, np.float32)).status.tolist() == [ZERO_OVERFLOW | CONSTANT]
    assert Affine(1).encode(np.array([65503.0, -16.0] * 8, np.float32)).status.tolist() == [0]


def test_groups_share_nothing() -> None:
    """D-leankv-10: a change of one group leaves codes and metadata of the other."""
    x = np.arange(64, dtype=np.float16)
    before, after = Affine(4, 2).encode(x), Affine(4, 2).encode(np.where(np.arange(64) < 32, x, x * 3))

    assert np.array_equal(before.code[:32], after.code[:32]) and before.scale[0] == after.scale[0]
    assert before.scale[1] != after.scale[1]


@pytest.mark.parametrize("preset", PRESETS)
def test_sixteen_bits_are_the_words_themselves(preset: str) -> None:
    words = np.arange(1 << 16, dtype=np.uint16)
    x = words[words & 0x7C00 != 0x7C00].view(np.float16).reshape(-1, 64)
    tensor = Affine.preset(preset, 16).encode(x)

    assert np.array_equal(tensor.code, x.view(np.uint16)) and tensor.scale.shape == (len(x), 0)
    assert np.array_equal(tensor.dequantize(), x.astype(np.float32))


def test_requantized_tokens_come_from_decoded_codes() -> None:
    """D-leankv-30: decode with the stored metadata, then fresh ends."""
    x = np.random.default_rng(1).standard_normal((4, 128)).astype(np.float16)
    high = Affine(8).encode(x)
    low = Affine(4).encode(high.dequantize())

    assert low.equals(Affine(4).encode(Affine(8).decode(high.code, high.scale, high.zero)))
    assert not low.equals(Affine(4).encode(x))


BAD_FORMATS = [
    pytest.param({"bits": 3}, Refused, "bits must be 1, 2, 4, 8 or 16, got 3", id="bits"),
    pytest.param({"bits": 4.0}, RefusedType, "bits must be an int", id="float bits"),
    pytest.param({"bits": 4, "groups": 0}, Refused, "groups must be in", id="no groups"),
    pytest.param({"bits": 4, "zero": "max"}, Refused, "zero must be one of 'neg_min', 'min'", id="zero"),
    pytest.param({"bits": 4, "quant_div": "fast"}, Refused, "quant_div must be one of", id="division"),
    pytest.param({"bits": 4, "quantize_with": "x"}, Refused, "quantize_with must be one of", id="with"),
    pytest.param({"bits": 4, "meta": "fp8"}, Refused, "meta must be one of 'fp16', 'bf16', 'fp32'", id="metadata"),
]


@pytest.mark.parametrize(("parameters", "error", "message"), BAD_FORMATS)
def test_affine_rejects_formats(parameters: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Affine(**parameters)


BAD_VALUES = [
    pytest.param(np.zeros(16, np.int32), RefusedType, "fp16, bf16 or fp32 is needed, got dtype int32", id="integers"),
    pytest.param(np.zeros(16), RefusedType, "fp16, bf16 or fp32", id="float64"),
    pytest.param(np.float32(1), RefusedType, "at least one axis", id="scalar"),
    pytest.param(np.array([0] * 5 + [np.nan] + [0] * 10, np.float16), Refused, "NaN at index 5", id="nan"),
    pytest.param(np.array([[0] * 16, [np.inf] * 16], np.float32), Refused, r"infinity at index \(1, 0\)", id="inf"),
    pytest.param(np.zeros(14, np.float16), Refused, "14 features in 1 groups do not make groups", id="cut"),
]


@pytest.mark.parametrize(
    "encode",
    [
        lambda x: Affine(4).encode(x),
        lambda x: affine_compiled.encode(Affine(4), x),
        lambda x: affine_compiled.encode_words(Affine(4), x),
    ],
    ids=["format", "compiled", "words"],
)
@pytest.mark.parametrize(("x", "error", "message"), BAD_VALUES)
def test_affine_rejects_values(encode: Any, x: Any, error: type[Exception], message: str) -> None:
    """D-leankv-9: NaN and infinity are rejected, with the first index."""
    with pytest.raises(error, match=message):
        encode(x)


def test_affine_rejects_groups_that_cut_word() -> None:
    with pytest.raises(
        Refused, match="16 features in 2 groups do not make groups of a multiple of 16, the 1-bit codes"
    ):
        Affine(1, 2).encode(np.zeros(16, np.float16))


BAD_CODES = [
    pytest.param(
        4,
        np.array([0] * 5 + [16] + [0] * 10, np.uint8),
        Refused,
        "code 16 at index 5 does not fit 4 bits",
        id="too large",
    ),
    pytest.param(4, np.array([[0] * 15 + [-1]]), Refused, r"code -1 at index \(0, 15\) does not fit", id="negative"),
    pytest.param(16, np.zeros(16, np.uint8), RefusedType, "integers of at least 16 bits", id="narrow"),
    pytest.param(4, np.zeros(16, np.float32), RefusedType, "integers of at least 4 bits", id="floats"),
]


@pytest.mark.parametrize(("bits", "code", "error", "message"), BAD_CODES)
def test_affine_rejects_codes(bits: int, code: np.ndarray, error: type[Exception], message: str) -> None:
    metadata = np.zeros((*code.shape[:-1], 1), np.uint16)
    for decode in (Affine(bits).decode, lambda *given: affine_compiled.decode(Affine(bits), *given)):
        with pytest.raises(error, match=message):
            decode(code, metadata, metadata)


@pytest.mark.parametrize("fmt", [Affine(4), Affine(8, 2, "min", "recip_mul", "stored", "bf16"), Affine(16)])
def test_affine_repr_evaluates_back(fmt: Affine) -> None:
    assert eval(repr(fmt)) == fmt and hash(eval(repr(fmt))) == hash(fmt)
