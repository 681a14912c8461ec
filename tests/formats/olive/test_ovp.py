"""Outlier-victim pairs: the readable format and its compiled form against the paper's examples and the oracle."""

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu import formats
from refemu.arith.checks import Refused, RefusedType
from refemu.formats import INT4, OVP_FLINT4, OVP_INT4, OVP_INT4_REPO, OVP_INT8, OVP_INT8_REPO, AbFloat, IntFormat, Ovp
from refemu.formats.olive.compiled import ovp as compiled_run
from tests.formats.names import PUBLIC
from tests.oracles.olive import ovp as oracle

CONSTANTS = {name: fmt for name, fmt in formats.constants().items() if isinstance(fmt, Ovp)}
ENCODERS = [pytest.param(Ovp.encode, id="format"), pytest.param(compiled_run.encode, id="compiled")]
DECODERS = [pytest.param(Ovp.decode, id="format"), pytest.param(compiled_run.decode, id="compiled")]
FP16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FP16 = FP16[np.isfinite(FP16)]
E2M1 = AbFloat(2, 1, 2)


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize(
    ("name", "values", "word", "grid"),
    [
        ("OVP_INT4", (5, -3), "d5", [5, -3]),
        ("OVP_INT4", (17.6, 1), "82", [16, 0]),
        ("OVP_INT4", (2, -98), "f8", [0, -96]),
        ("OVP_INT4", (30.7, 3), "84", [32, 0]),
        ("OVP_INT4", (48, 0), "85", [48, 0]),
        ("OVP_INT4", (0, 48), "58", [0, 48]),
        ("OVP_INT4", (9.5, 1), "17", [7, 1]),
        ("OVP_INT4_REPO", (9.5, 1), "81", [12, 0]),
        ("OVP_INT4", (-12, 12), "18", [0, 12]),
        ("OVP_INT4_REPO", (-12, 12), "89", [-12, 0]),
        ("OVP_FLINT4", (-0.3, 16), "40", [0, 16]),
        ("OVP_FLINT4", (24, 3), "81", [24, 0]),
        ("OVP_INT8", (-127, 128), "817f", [-127, 127]),
        ("OVP_INT8", (1, 40000), "8040", [0, 32768]),
    ],
)
def test_worked_examples(encode: Any, name: str, values: tuple[float, float], word: str, grid: list[int]) -> None:
    """[olive Fig. 1b] 17.6, -98 and 30.7; [olive Fig. 4]; the left element is in the low half (D-olive-1)."""
    tensor = encode(CONSTANTS[name], np.array(values))

    assert tensor.pack().hex() == word
    assert tensor.decode().tolist() == grid


def partners(fmt: Ovp) -> list[float]:
    """One of every class: normal, between N and T, T, an outlier above T, one above all, at and beyond far."""
    far = [float(fmt.far), fmt.far + 32.0] if fmt.far else []
    return [-1.0, (fmt.normal.largest + fmt.boundary) / 2, -fmt.boundary, fmt.boundary + 0.5, 70000.0, *far]


#: every third value, of the published code's variants every 29th; all of them in slow runs
EVERY = [(name, 29 if name.endswith("_REPO") else 3) for name in CONSTANTS]
EVERY += [pytest.param(name, 1, marks=pytest.mark.slow) for name in CONSTANTS]


@pytest.mark.long
@pytest.mark.parametrize(("name", "step"), EVERY)
def test_every_fp16_value_with_partner_equals_oracle(name: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """[olive Alg. 1, Alg. 2]; the other half of the classes are partners of equal magnitude, either sign."""
    monkeypatch.setattr(oracle, "element_encode", functools.cache(oracle.element_encode))
    pair = oracle.PAIRS[name]  # as floats the thresholds are exact too, and compare faster
    monkeypatch.setitem(oracle.PAIRS, name, pair._replace(threshold=float(pair.threshold)))
    fmt, values = CONSTANTS[name], FP16[::step].astype(np.float64)
    beside = np.concatenate(
        [
            np.broadcast_to(np.array(partners(fmt)), (values.size, len(partners(fmt)))),
            np.stack([values, -values], axis=1),
        ],
        axis=1,
    )
    left = np.broadcast_to(values[:, None], beside.shape)
    for pairs in (np.stack([left, beside], axis=-1), np.stack([beside, left], axis=-1)[:, :-2]):
        expected = [oracle.encode_pair(name, a, b) for a, b in pairs.reshape(-1, 2).tolist()]
        for encode in (Ovp.encode, compiled_run.encode):
            assert np.array_equal(encode(fmt, pairs).code.reshape(-1, 2), expected)


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("name", CONSTANTS)
def test_all_pair_words_decode_as_the_oracle_says(decode: Any, name: str) -> None:
    """[olive §3.1, §4.2]: of 256 bytes 253 are legal, of 65,536 words 65,533; D-olive-18: the others are (0, 0)."""
    fmt = CONSTANTS[name]
    pairs = fmt.split(np.arange(1 << 2 * fmt.width))
    answers = [oracle.decode_pair(name, int(a), int(b)) for a, b in pairs]
    illegal = [word for word, answer in enumerate(answers) if answer is None]

    assert illegal == ([0x08, 0x80, 0x88] if fmt.width == 4 else [0x0080, 0x8000, 0x8080])
    assert np.array_equal(decode(fmt, pairs, strict=False), [answer or (0, 0) for answer in answers])
    legal = np.delete(np.arange(len(answers)), illegal)
    assert np.array_equal(fmt.legal_pairs(), legal)
    assert np.array_equal(decode(fmt, pairs[legal]), decode(fmt, pairs, strict=False)[legal])
    for word in illegal:
        with pytest.raises(Refused, match=r"pair 0 is 0x[08]*: an identifier next to the reserved code"):
            decode(fmt, pairs[word])


@pytest.mark.parametrize("name", CONSTANTS)
def test_decoded_legal_pairs_encode_to_themselves(name: str) -> None:
    fmt = CONSTANTS[name]
    words = fmt.legal_pairs()
    pairs = fmt.split(words)
    values = fmt.decode(pairs)
    assert fmt.outlier
    kept = (np.abs(values) <= fmt.outlier.largest).all(axis=-1)

    assert np.array_equal(fmt.encode(values[kept]).code, pairs[kept])
    assert np.count_nonzero(kept) == (65_025 + 2 * 128 if name == "OVP_INT8" else len(words))  # D-olive-12


@pytest.mark.parametrize("encode", ENCODERS)
def test_negative_outlier_is_an_outlier(encode: Any) -> None:
    """D-olive-2: [olive Alg. 1] compares without absolute values; the outlier code carries a sign."""
    assert encode(OVP_INT4, [-20.0, 3.0, 3.0, -20.0]).decode().tolist() == [-16, 0, 0, -16]


@pytest.mark.parametrize("encode", ENCODERS)
def test_threshold_is_midway(encode: Any) -> None:
    """D-olive-3: (7 + 12) / 2; as a parameter anything above 0."""
    assert [CONSTANTS[name].boundary for name in ("OVP_INT4", "OVP_FLINT4", "OVP_INT8", "OVP_INT8_REPO")] == [
        9.5,
        20,
        135.5,
        129.5,
    ]
    assert encode(OVP_INT4, [9.5, 1, np.nextafter(9.5, 10), 1]).decode().tolist() == [7, 1, 12, 0]
    assert encode(Ovp(INT4, E2M1, threshold=7), [7.1, 1, 7, 1]).decode().tolist() == [12, 0, 7, 1]
    assert encode(Ovp(INT4, E2M1, threshold=0.1), [np.float32(0.1), 1]).decode().tolist() == [0, 12]


@pytest.mark.parametrize("encode", ENCODERS)
def test_exactly_threshold_is_outlier_only_when_closed(encode: Any) -> None:
    """D-olive-4: [olive Alg. 1] has >, the published code >=."""
    closed = Ovp(INT4, E2M1, closed=True)
    values = [9.5, 1, -9.5, 1, np.nextafter(9.5, 0), 1]

    assert encode(OVP_INT4, values).decode().tolist() == [7, 1, -7, 1, 7, 1]
    assert encode(closed, values).decode().tolist() == [12, 0, -12, 0, 7, 1]


@pytest.mark.parametrize("encode", ENCODERS)
def test_larger_of_two_outliers_stays_ties_right(encode: Any) -> None:
    """D-olive-5: [olive §3.1] and [olive Alg. 1 l.5]; the published code keeps the left one."""
    values = [50, -20, 20, -50, 20, 20, -20, 20]

    assert encode(OVP_INT4, values).decode().tolist() == [48, 0, 0, -48, 0, 16, 0, 16]
    assert encode(OVP_INT4_REPO, values).decode().tolist() == [48, 0, 24, 0, 24, 0, -16, 0]


@pytest.mark.parametrize("encode", ENCODERS)
def test_two_outliers_are_compared_before_rounding(encode: Any) -> None:
    """D-olive-6: 46 and 47 both round to 48."""
    assert encode(OVP_INT4, [47, 46, 46, 47]).decode().tolist() == [48, 0, 0, 48]


@pytest.mark.parametrize("encode", ENCODERS)
def test_between_largest_normal_value_and_threshold_values_saturate(encode: Any) -> None:
    """D-olive-9: no normal code is larger."""
    assert encode(OVP_INT4, [7.6, -9.4, 9, 8]).decode().tolist() == [7, -7, 7, 7]
    assert encode(OVP_FLINT4, [19.9, -17]).decode().tolist() == [16, -16]


@pytest.mark.parametrize("encode", ENCODERS)
def test_far_values_become_zero_with_a_bound(encode: Any) -> None:
    """D-olive-46: an artefact of the published code's scan."""
    values = [25_696, 1, 25_697, 1, -1e9, 20, 1e9, -1e9]

    assert encode(OVP_INT4_REPO, values).decode().tolist() == [96, 0, 0, 1, 0, 24, 0, 0]
    assert encode(OVP_INT4, values).decode().tolist() == [96, 0, 96, 0, -96, 0, 0, -96]
    assert encode(Ovp(INT4, None, far=10), [9, 11]).decode().tolist() == [7, 0]


@pytest.mark.parametrize("encode", ENCODERS)
def test_no_negative_zero_is_produced(encode: Any) -> None:
    """D-olive-17: flint4's 1000 is the identifier."""
    assert encode(OVP_FLINT4, [-0.0, -0.3, -0.49, -0.5]).pack().hex() == "0000"
    assert encode(OVP_INT4, np.array([-0.0, -1e-45], np.float32)).pack().hex() == "00"


@pytest.mark.parametrize("encode", ENCODERS)
def test_value_is_divided_by_its_scale_in_float32(encode: Any) -> None:
    """D-olive-25: not multiplied by a reciprocal; a quotient beyond float32 saturates, or is far."""
    x, scale = np.float32(45.5), np.float32(7)
    assert x * (np.float32(1) / scale) > x / scale == 6.5

    assert encode(OVP_INT4, [x, 0], scale).decode().tolist() == [6, 0]
    assert encode(OVP_INT4, [1e38, -3e38], np.float32(1e-37)).decode().tolist() == [0, -96]
    assert encode(OVP_INT4_REPO, [1e38, 1e-37], np.float32(1e-37)).decode().tolist() == [0, 1]
    assert encode(OVP_INT4, [0.1, 1], 1.0).equals(encode(OVP_INT4, np.float32([0.1, 1]), 1.0))


@pytest.mark.long
@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize("name", CONSTANTS)
@given(data=st.data())
def test_any_pairs_encode_as_the_oracle_says(encode: Any, name: str, data: st.DataObject) -> None:
    top = CONSTANTS[name].boundary
    number = st.floats(-12 * top, 12 * top) | st.integers(-(2**62), 2**62) | st.sampled_from([top, -top])
    pair = data.draw(st.lists(number, min_size=2, max_size=2).filter(lambda p: type(p[0]) is type(p[1])))

    assert encode(CONSTANTS[name], np.array(pair)).code.tolist() == list(oracle.encode_pair(name, *pair))


@pytest.mark.parametrize("encode", ENCODERS)
def test_integers_are_compared_exactly(encode: Any) -> None:
    big = np.array([2**60 + 1, 2**60, 2**60, -(2**60) - 1, -(2**63), 2**63 - 1])

    assert encode(OVP_INT4, big).decode().tolist() == [96, 0, 0, -96, -96, 0]
    assert encode(OVP_INT4, np.array([2**64 - 1, 2**64 - 2], np.uint64)).decode().tolist() == [96, 0]


@pytest.mark.parametrize("name", CONSTANTS)
@given(values=st.lists(st.floats(-3000, 3000, width=32), min_size=2, max_size=40).filter(lambda v: len(v) % 2 == 0))
def test_pair_has_one_outlier_with_zero_partner(name: str, values: list[float]) -> None:
    fmt = CONSTANTS[name]
    pairs = fmt.encode(values).decode().reshape(-1, 2)
    outlier = np.abs(pairs) > fmt.normal.largest

    assert not (outlier.all(axis=1)).any()
    assert (pairs[outlier[:, ::-1]] == 0).all()
    assert not fmt.illegal(fmt.encode(values).code.reshape(-1, 2)).any()


@pytest.mark.parametrize("name", [name for name in CONSTANTS if not name.endswith("_REPO")])
@given(values=st.lists(st.floats(-3000, 3000, width=32), min_size=4, max_size=4), power=st.integers(-60, 60))
def test_pairs_are_independent_odd_symmetric_and_scale_free(name: str, values: list[float], power: int) -> None:
    fmt, x = CONSTANTS[name], np.array(values, np.float32)
    code = fmt.encode(x).code

    assert np.array_equal(code, np.concatenate([fmt.encode(x[:2]).code, fmt.encode(x[2:]).code]))
    assert np.array_equal(fmt.round(-x), -fmt.round(x))
    assert np.array_equal(fmt.encode(np.ldexp(x, power), np.ldexp(np.float32(1), power)).code, code)


@pytest.mark.parametrize(("paper", "repo"), [("OVP_INT4", "OVP_INT4_REPO"), ("OVP_FLINT4", "OVP_FLINT4_REPO")])
@given(values=st.lists(st.floats(-300, 300, width=32), min_size=2, max_size=2))
def test_presets_agree_but_for_ties_and_two_outliers(paper: str, repo: str, values: list[float]) -> None:
    """D-olive-4, D-olive-5, D-olive-7, D-olive-8, D-olive-46 are all that differs at 4 bits."""
    fmt, x = CONSTANTS[paper], np.abs(np.array(values))
    assert fmt.outlier
    grid = np.concatenate([np.unique(np.abs(fmt.normal.decode(fmt.normal.codes()))), fmt.outlier.magnitudes()])
    tie = np.isin(x, (grid[1:] + grid[:-1]) / 2).any()
    two = (x > fmt.boundary).all() and x[0] <= x[1]

    assert tie or two or np.array_equal(fmt.encode(values).code, CONSTANTS[repo].encode(values).code)


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize(
    ("name", "normal"), [("INT4_PLAIN", formats.INT4), ("FLINT4_PLAIN", formats.FLINT4), ("INT8_PLAIN", formats.INT8)]
)
def test_baselines_have_no_outliers(encode: Any, name: str, normal: Any) -> None:
    fmt, values = Ovp(normal, outlier=None), np.linspace(-150, 150, 602)
    expected = [oracle.encode_pair(name, *pair) for pair in values.reshape(-1, 2).tolist()]

    assert np.array_equal(encode(fmt, values).code.reshape(-1, 2), expected)
    assert fmt.legal_pairs().size == (2 * normal.largest + 1) ** 2 if normal != formats.FLINT4 else 225
    with pytest.raises(Refused, match="an identifier in a format without outliers"):
        fmt.decode([1, fmt.normal.identifier])


@pytest.mark.parametrize("name", CONSTANTS)
def test_ovp_repr_evaluates_back(name: str) -> None:
    assert eval(repr(CONSTANTS[name]), PUBLIC) == CONSTANTS[name]  # the text is ours


def test_pairs_are_described_by_kind_and_values() -> None:
    assert OVP_INT4.describe(0x85) == "0x85: O-V, left 0 10 1 = 3 << 4 = 48, right victim"
    assert OVP_INT4.describe(0xF8) == "0xf8: V-O, right 1 11 1 = -3 << 5 = -96, left victim"
    assert OVP_FLINT4.describe(0xD5) == "0xd5: N-N, left 0 101 = 2 << 2 = 8, right 1 101 = -2 << 2 = -8"
    assert OVP_INT4.describe(0x80) == "0x80: illegal: an identifier next to the reserved code 0000"
    assert OVP_INT8.describe(0x4080) == "0x4080: V-O, right 0 1000 000 = 8 << 12 = 32768, left victim"
    assert Ovp(INT4, None).describe(0x18) == "0x18: illegal: an identifier in a format without outliers"


def test_the_left_half_is_a_parameter() -> None:
    """D-olive-1."""
    high = Ovp(INT4, E2M1, left="high")
    tensor = high.encode([17.6, 1, 5, -3])

    assert tensor.pack().hex() == "285d"
    assert tensor.pairs().tolist() == compiled_run.encode_pairs(high, [17.6, 1, 5, -3]).tolist() == [0x28, 0x5D]
    assert high.unpack(tensor.pack(), (4,)).equals(tensor)


def test_rounding_is_stored_as_plain_string() -> None:
    rule: Any = np.str_("half_up")
    fmt = Ovp(INT4, E2M1, rounding=rule)

    assert repr(fmt) == repr(Ovp(INT4, E2M1, rounding="half_up")) and type(fmt.rounding) is str


BAD_FORMATS = [
    pytest.param({"normal": formats.INT8}, "both types must have one width, got 8 and 4", id="widths"),
    pytest.param(
        {"outlier": formats.E2M1_BIAS0},
        "smallest outlier 3 is not above the largest normal value 7; give threshold",
        id="overlap",
    ),
    pytest.param({"threshold": 0}, "threshold must be finite and above 0, got 0", id="threshold 0"),
    pytest.param({"threshold": np.inf}, "threshold must be finite and above 0, got inf", id="threshold inf"),
    pytest.param({"far": np.nan}, "far must be finite and above 0, got nan", id="far"),
    pytest.param(
        {"outlier": None, "threshold": 9}, "threshold needs an outlier format, got 9 with outlier=None", id="no outlier"
    ),
    pytest.param({"winner": "right"}, "winner must be one of 'larger', 'left', got 'right'", id="winner"),
    pytest.param({"rounding": "floor"}, "rounding must be one of 'half_even'", id="rounding"),
    pytest.param({"pairing": "row"}, "pairing must be one of 'axis', 'flat', got 'row'", id="pairing"),
    pytest.param({"left": "top"}, "left must be one of 'low', 'high', got 'top'", id="left"),
    pytest.param({"normal": IntFormat(4)}, "normal must leave 10...0 unused and have at most 8 bits", id="full"),
    pytest.param({"normal": IntFormat(9, symmetric=True), "outlier": None}, "have at most 8 bits", id="wide"),
]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"normal": E2M1, "outlier": INT4}, "normal must be an IntFormat or a Flint", id="swapped"),
        pytest.param({"threshold": "9"}, "threshold must be a number, got '9'", id="text threshold"),
        pytest.param({"closed": 1}, "closed must be a bool, got 1", id="closed"),
    ],
)
def test_ovp_rejects_parameters_of_another_type(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedType, match=f"Ovp: {message}"):
        Ovp(**{"normal": INT4, "outlier": E2M1, **arguments})


@pytest.mark.parametrize(("arguments", "message"), BAD_FORMATS)
def test_ovp_rejects_formats(arguments: dict[str, Any], message: str) -> None:
    """D-olive-22."""
    with pytest.raises(Refused, match="Ovp: .*" + message):
        Ovp(**{"normal": INT4, "outlier": E2M1} | arguments)


def test_an_overlap_is_allowed_with_a_threshold() -> None:
    assert Ovp(INT4, formats.E2M1_BIAS0, threshold=8).encode([9, 1]).decode().tolist() == [8, 0]


ROWS = np.ones((3, 8), np.float32)
HOLE = np.where(np.arange(24).reshape(3, 8) == 15, np.nan, ROWS)
BAD_CALLS = [
    pytest.param(OVP_INT4, (HOLE,), Refused, r"Ovp.encode: values\[1, 7\] is nan; values must be finite", id="nan"),
    pytest.param(OVP_INT4, (np.array([1, np.inf], np.float16),), Refused, r"values\[1\] is inf", id="inf"),
    pytest.param(OVP_INT4, ([1, np.inf], 1.0), Refused, r"values\[1\] is inf", id="scaled inf"),
    pytest.param(OVP_INT4, ([1, 1e300], 1.0), Refused, r"values\[1\] is inf", id="fl32 overflow"),
    pytest.param(OVP_INT4, ([True, False],), RefusedType, "got dtype bool", id="bool"),
    pytest.param(OVP_INT4, (3.0,), RefusedType, "an array with an axis of pairs is needed, got a scalar", id="scalar"),
    pytest.param(OVP_INT4, (ROWS, None, 2), Refused, r"axis must be in \[-2, 2\), got 2", id="axis"),
    pytest.param(OVP_INT4, (ROWS, None, 1.0), RefusedType, "axis must be an int, got 1.0", id="axis type"),
    pytest.param(OVP_INT4, (ROWS, 0.0), Refused, "scale 0.0 is not a positive normal float32", id="scale 0"),
    pytest.param(OVP_INT4, (ROWS, -1.0), Refused, "scale -1.0 is not a positive normal", id="scale negative"),
    pytest.param(OVP_INT4, (ROWS, np.array([1, np.nan, 1])), Refused, r"scale nan at index \(1,\)", id="scale nan"),
    pytest.param(OVP_INT4, (ROWS, np.float32(1e-39)), Refused, "is not a positive normal", id="scale subnormal"),
    pytest.param(OVP_INT4, (ROWS, 1e39), Refused, "scale inf is not a positive normal float32", id="scale inf"),
    pytest.param(
        OVP_INT4,
        (ROWS, np.ones(8, np.float32)),
        Refused,
        r"scale must be a scalar or of shape \(3,\), got \(8,\)",
        id="scale shape",
    ),
    pytest.param(OVP_INT4, (ROWS, 1), RefusedType, "scale must be float32, got dtype int64", id="scale type"),
    pytest.param(OVP_INT8_REPO, (np.ones((3, 3)),), Refused, "flat pairs need an even number .* got 9", id="odd"),
]


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize(("fmt", "arguments", "error", "message"), BAD_CALLS)
def test_encode_rejects(encode: Any, fmt: Ovp, arguments: tuple[Any, ...], error: type, message: str) -> None:
    """D-olive-47: NaN and infinity have no code; D-olive-24: an odd size has no flat pairs."""
    with pytest.raises(error, match=message):
        encode(fmt, *arguments)


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    ("codes", "error", "message"),
    [
        pytest.param(
            [0] * 24 + [0, 8],
            Refused,
            "Ovp.decode: pair 12 is 0x80: an identifier next to the reserved code 0000",
            id="illegal",
        ),
        pytest.param([[0, 0], [8, 8]], Refused, r"pair \(1, 0\) is 0x88: .* the reserved code 1000", id="both"),
        pytest.param([0, 16], Refused, r"Ovp.decode: code 16 at index \(1,\) is outside \[0, 16\)", id="code"),
        pytest.param([0.0, 1.0], RefusedType, "Ovp.decode: integers are needed, got dtype float64", id="float"),
        pytest.param([0, 1, 2], Refused, "Ovp.decode: codes come in pairs, got 3 along axis -1", id="odd"),
        pytest.param(1, RefusedType, "an array with an axis of pairs is needed, got a scalar", id="scalar"),
    ],
)
def test_decode_rejects(decode: Any, codes: Any, error: type, message: str) -> None:
    """D-olive-18: an illegal pair is an error unless `strict=False`."""
    with pytest.raises(error, match=message):
        decode(OVP_INT4, codes)
