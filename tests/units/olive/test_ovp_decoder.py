"""The pair decoder against the paper's examples, the oracle exhaustively, and the formats."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu import formats
from refemu.arith.checks import Refused, RefusedType
from refemu.units.olive import ovp_decoder
from refemu.units.olive.ovp_decoder import OvpDecoder
from refemu.units.stepping import Result
from tests.oracles.olive import units

IMPLEMENTATIONS = [pytest.param(ovp_decoder.run, id="unit"), pytest.param(ovp_decoder.UNIT.run_compiled, id="compiled")]
BYTES, WORDS = np.arange(256, dtype=np.uint8), np.arange(1 << 16, dtype=np.uint16)
WIDE = [pytest.param((4, 3), id="e4m3"), pytest.param((2, 5), id="e2m5")]
compiled_run = ovp_decoder.UNIT.run_compiled


def expected(pairs: Any, biases: Any, normal: str, outlier: tuple[int, int]) -> tuple[list[Any], list[Any], list[bool]]:
    """Exponents, integers and illegal flags of the oracle."""
    answers = [units.ovp_decoder(pair, bias, normal, outlier) for pair, bias in zip(pairs, biases, strict=True)]
    return [list(a[0]) for a in answers], [list(a[1]) for a in answers], [a[2] for a in answers]


def fields(result: Result) -> tuple[Any, Any, Any]:
    return result.exponent.tolist(), result.base_int.tolist(), result.illegal.tolist()


def grid(result: Result) -> np.ndarray:
    return result.base_int.astype(np.int64) << result.exponent


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("pair", "normal", "bias", "values"),
    [
        (0x85, "int4", 2, [48, 0]),
        (0x58, "int4", 2, [0, 48]),
        (0xD5, "int4", 2, [5, -3]),
        (0x82, "int4", 2, [16, 0]),
        (0xF8, "int4", 2, [0, -96]),
        (0x84, "int4", 2, [32, 0]),
        (0x40, "flint4", 3, [0, 16]),
        (0x81, "flint4", 3, [24, 0]),
    ],
    ids=lambda value: hex(value) if isinstance(value, int) else None,
)
def test_worked_examples(run: Any, pair: int, normal: str, bias: int, values: list[int]) -> None:
    """[olive §4.2] bias 2, 0101 is 48; [olive Fig. 1b] 17.6, -98 and 30.7; the left element is low (D-olive-1)."""
    assert grid(run(pair, bias, normal=normal)).tolist() == values


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("normal", ["int4", "flint4"])
def test_all_bytes_at_all_biases_equal_the_oracle(run: Any, normal: str) -> None:
    result = run(BYTES[:, None], np.arange(16, dtype=np.uint8), normal=normal)
    answer = [expected([pair] * 16, range(16), normal, (2, 1)) for pair in range(256)]

    assert fields(result) == tuple([row[field] for row in answer] for field in range(3))
    assert (result.exponent.dtype, result.base_int.dtype, result.illegal.dtype) == (np.uint8, np.int8, np.bool_)
    assert (result.exponent.shape, result.illegal.shape) == ((256, 16, 2), (256, 16))


@pytest.mark.long
@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("outlier", WIDE)
def test_all_words_at_bias_4_equal_the_oracle(run: Any, outlier: tuple[int, int]) -> None:
    result = run(WORDS, 4, normal="int8", outlier=outlier)

    assert fields(result) == expected(WORDS.tolist(), [4] * WORDS.size, "int8", outlier)


@pytest.mark.parametrize("outlier", WIDE)
def test_words_at_other_biases_equal_oracle(outlier: tuple[int, int]) -> None:
    marked = WORDS[(WORDS & 0xFF == 0x80) | (WORDS >> 8 == 0x80)]
    at_4 = compiled_run(WORDS, 4, normal="int8", outlier=outlier)
    for bias in range(16):
        result = compiled_run(WORDS, bias, normal="int8", outlier=outlier)
        differs = (result.exponent != at_4.exponent).any(axis=1) | (result.base_int != at_4.base_int).any(axis=1)
        some = ovp_decoder.run(marked, bias, normal="int8", outlier=outlier)

        assert not np.isin(WORDS[differs], marked, invert=True).any()
        assert fields(some) == expected(marked.tolist(), [bias] * marked.size, "int8", outlier)
        assert some.equals(compiled_run(marked, bias, normal="int8", outlier=outlier))


@pytest.mark.parametrize(("name", "bias"), [("int4", 2), ("flint4", 3), ("int8", 4), ("int8_repo", 2)])
def test_decoder_and_format_agree_on_every_word(name: str, bias: int) -> None:
    """`base_int << exponent` of both lanes is Ovp.decode, for all legal pairs; illegal ones are the format's too."""
    fmt: Any = formats.find(f"ovp_{name}")
    words = BYTES if fmt.width == 4 else WORDS
    result = compiled_run(words, bias, **ovp_decoder.UNIT.configs[name])
    codes = np.stack([words & ((1 << fmt.width) - 1), words >> fmt.width], axis=-1)

    assert np.array_equal(grid(result)[~result.illegal], fmt.decode(codes[~result.illegal]))
    assert np.array_equal(grid(result), fmt.decode(codes, strict=False))
    assert words.size - np.count_nonzero(result.illegal) == {4: 253, 8: 65_533}[fmt.width]


@pytest.mark.parametrize("bias", range(16))
def test_decoder_and_format_agree_at_any_bias(bias: int) -> None:
    """D-olive-20: unless bias + e leaves the 4-bit exponent port."""
    base: Any = formats.find("ovp_int4")
    fmt = dataclasses.replace(base, outlier=dataclasses.replace(base.outlier, bias=bias), threshold=9.5)
    codes = np.stack([BYTES & 15, BYTES >> 4], axis=-1)
    victim, outlier = codes == 8, np.where(codes == 8, 0, codes)
    wraps = victim.any(axis=1) & (bias + ((outlier.max(axis=1) & 7) >> 1) > 15)
    values = grid(compiled_run(BYTES, bias))

    assert np.array_equal(values[~wraps], fmt.decode(codes, strict=False)[~wraps])
    assert np.count_nonzero(wraps) == {13: 8, 14: 16, 15: 24}.get(bias, 0)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_illegal_pairs_are_flagged_and_follow_the_equations(run: Any) -> None:
    """D-olive-18, D-olive-19: 88 is <0,0> <0,0>; 08 has <bias,0> in lane 1, 80 in lane 0; no other byte is illegal."""
    result = run(np.array([0x88, 0x08, 0x80]), 7)

    assert fields(result) == ([[0, 0], [0, 7], [7, 0]], [[0, 0], [0, 0], [0, 0]], [True, True, True])
    assert BYTES[run(BYTES, 0).illegal].tolist() == [0x08, 0x80, 0x88]
    assert WORDS[compiled_run(WORDS, 0, normal="int8", outlier=(4, 3)).illegal].tolist() == [0x0080, 0x8000, 0x8080]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_victim_is_zero_with_exponent_zero(run: Any) -> None:
    """[olive §4.2] "transforms the outlier identifier to 0"; D-olive-19 for its exponent."""
    result = run(np.array([0x85, 0x58]), 15)

    assert (result.exponent[0, 1], result.base_int[0, 1], result.exponent[1, 0], result.base_int[1, 0]) == (0, 0, 0, 0)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("normal", "outlier", "words"), [("int4", (2, 1), BYTES), ("int8", (4, 3), WORDS)])
def test_counters_count_pairs_outlier_lanes_and_illegal_pairs(run: Any, normal: str, outlier: Any, words: Any) -> None:
    """Per side 2**width - 1 codes next to an identifier; of these one pair on either side holds the reserved code 0."""
    result = run(words, 2, normal=normal, outlier=outlier)

    assert (result.pairs, result.outliers, result.illegal_pairs) == (words.size, 2 * (int(words.size**0.5) - 1), 3)


def test_formats_of_the_8_bit_decoder() -> None:
    """D-olive-14: E4M3 of the paper in `int8`, E2M5 of the published code in `int8_repo`."""
    assert [ovp_decoder.UNIT.configs[name]["outlier"] for name in ("int8", "int8_repo")] == [(4, 3), (2, 5)]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_shapes_are_preserved_and_scalars_broadcast(run: Any) -> None:
    pairs = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)

    assert run(pairs, 2).exponent.shape == (2, 3, 4, 2)
    assert run(0x85, np.arange(3)).illegal.shape == (3,)
    assert run(0x85, 2).exponent.tolist() == [4, 0] and run(0x85, 2).illegal.shape == ()
    assert run(pairs[:, :0], 2).base_int.shape == (2, 0, 4, 2)
    assert run(pairs.transpose(2, 0, 1)[::-1], 2).equals(run(np.ascontiguousarray(pairs.transpose(2, 0, 1)[::-1]), 2))


@settings(deadline=None)
@given(words=st.lists(st.integers(0, 65535), min_size=1, max_size=8), bias=st.integers(0, 15))
def test_dtype_of_the_input_is_of_no_consequence(words: list[int], bias: int) -> None:
    config: dict[str, Any] = {"normal": "int8", "outlier": (4, 3)}
    for dtype in (np.int32, np.uint32, np.int64, np.uint64, ">u2"):
        assert compiled_run(np.array(words, dtype), bias, **config).equals(
            compiled_run(np.array(words, np.uint16), bias, **config)
        )


BAD_CALLS = [
    pytest.param({"pair": 256, "bias": 2}, Refused, r"ovp_decoder: pair 256 is outside \[0, 256\)", id="pair"),
    pytest.param({"pair": [1, -1], "bias": 2}, Refused, r"ovp_decoder: pair -1 at index \(1,\)", id="negative"),
    pytest.param({"pair": 1, "bias": [0, 16]}, Refused, r"ovp_decoder: bias 16 at index \(1,\) is outside", id="bias"),
    pytest.param({"pair": [1.0], "bias": 2}, RefusedType, r"ovp_decoder\.pair: integers are needed", id="float"),
    pytest.param(
        {"pair": BYTES, "bias": 4, "normal": "int8", "outlier": (4, 3)},
        RefusedType,
        r"ovp_decoder\.pair: must be 16-bit words for int8, got dtype uint8; view bytes as",
        id="bytes",
    ),
    pytest.param({"pair": [1, 2], "bias": [1, 2, 3]}, Refused, r"pair \(2,\), bias \(3,\)", id="shapes"),
    pytest.param({"pair": 1, "bias": 2, "normal": "int5"}, Refused, "normal must be one of 'int4'", id="type"),
    pytest.param({"pair": 1, "bias": 2, "outlier": (4, 3)}, Refused, "outlier with int4 must be", id="mix"),
    pytest.param({"pair": 1, "bias": 2, "normal": "int8"}, Refused, r"one of \(4, 3\), \(2, 5\)", id="width"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("arguments", "error", "message"), BAD_CALLS)
def test_ovp_decoder_rejects_invalid_inputs(
    run: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(**arguments)


def test_ovp_decoder_repr_evaluates_back() -> None:
    assert repr(OvpDecoder("int8", (4, 3))) == "OvpDecoder(normal='int8', outlier=(4, 3))"
    assert repr(OvpDecoder(outlier=[2, 1])) == repr(OvpDecoder())  # type: ignore[arg-type]
