"""The output stage against the oracle's fractions and the scheme's own tensors; its decisions by hand."""

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu import formats, units
from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.formats.olive.ovp import quotient
from refemu.units.olive import olive_requant, ovp_encoder
from refemu.units.olive.olive_requant import NO_BIAS, UNIT, OliveRequant
from refemu.units.olive.olive_requant.cases import legal
from tests.oracles.olive import requant

IMPLEMENTATIONS = [pytest.param(olive_requant.run, id="unit"), pytest.param(UNIT.run_compiled, id="compiled")]
FORMATS = ["OVP_INT4", "OVP_FLINT4", "OVP_INT8", "OVP_INT4_REPO", "OVP_FLINT4_REPO", "OVP_INT8_REPO"]
INPUTS = ("acc", "scale_a", "scale_w", "bias", "scale_next")
SCALES = st.one_of(st.floats(2**-14, 1, width=32), st.floats(float.fromhex("0x1p-126"), width=32, allow_infinity=False))
SUMS = st.one_of(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-5000, 5000), st.just((1 << 24) + 1))


def f32(*values: float) -> Any:
    """float32 patterns of one value, or of several."""
    words = np.array(values, np.float32).view(np.uint32)
    return words if len(values) > 1 else int(words[0])


def f16(*values: float) -> list[int]:
    return fp16.bits(fp16.to_f16(np.array(values, np.float64))).tolist()  # type: ignore[no-any-return]


def one(run: Any, acc: Any, scale: float = 1.0, bias: Any = (-0.0, -0.0), following: float = 1.0, **config: Any) -> Any:
    """A pair of sums at one scale of the weights."""
    return run(acc, f32(scale), f32(1, 1), f16(*bias), f32(following), **config)


def assert_rows(expected: list[requant.Answer], result: Any) -> None:
    """Every word of every row."""
    for name in requant.Answer._fields:
        words = np.array([getattr(answer, name) for answer in expected])
        np.testing.assert_array_equal(getattr(result, name), words, err_msg=name)


def answers(fmt: str, inputs: Any) -> list[requant.Answer]:
    """Of the oracle, row by row."""
    return [requant.requant(fmt, *row) for row in zip(*(inputs[name].tolist() for name in INPUTS), strict=True)]


@lru_cache
def golden(name: str) -> list[tuple[dict[str, np.ndarray], list[requant.Answer]]]:
    """All cases of a configuration, and what the oracle answers."""
    kinds: tuple[Any, ...] = ("paper", "edge", "random")
    config = UNIT.configs[name]
    cases = [dict(case.inputs) for kind in kinds for case in UNIT.cases(config, kind, 0)]
    return [(inputs, answers(config["fmt"], inputs)) for inputs in cases]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", UNIT.configs)
def test_golden_cases_equal_the_oracle(run: Any, name: str) -> None:
    for inputs, expected in golden(name):
        assert_rows(expected, run(**inputs, **UNIT.configs[name]))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("fmt", FORMATS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_drawn_rows_equal_the_oracle(run: Any, fmt: str, data: Any) -> None:
    pairs = st.tuples(SUMS, SUMS), SCALES, st.tuples(SCALES, SCALES), st.tuples(*[st.integers(0, 0xFFFF)] * 2), SCALES
    rows = data.draw(st.lists(st.tuples(*pairs), min_size=1, max_size=6))
    acc, scale_a, scale_w, bias, following = (np.array(column) for column in zip(*rows, strict=True))
    reals = {"scale_a": scale_a, "scale_w": scale_w, "scale_next": following}
    patterns = {name: column.astype(np.float32).view(np.uint32) for name, column in reals.items()}
    inputs = legal({}, {"acc": acc, "bias": bias, **patterns})

    assert_rows(answers(fmt, inputs), run(**inputs, fmt=fmt))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_the_value_before_fp16_is_the_schemes(run: Any) -> None:
    """D-olive-42: fl32(fl32(acc) * fl32(s_a * s_w)), elementwise in NumPy, and the pair is the format's."""
    rng = np.random.default_rng(1)
    acc = rng.integers(-(1 << 31), 1 << 31, (512, 2)) >> rng.integers(0, 24, (512, 1))
    a, w = np.float32(0.01171), (rng.random((512, 2)) / 300).astype(np.float32)
    step = np.float32(0.37)
    result = run(acc, a.view(np.uint32), w.view(np.uint32), NO_BIAS * np.ones(2, np.int64), step.view(np.uint32))

    scaled = acc.astype(np.float32) * (a * w)
    y = fp16.to_f16(scaled)
    values = y.astype(np.float32)
    np.testing.assert_array_equal(result.scaled, scaled.view(np.uint32))
    np.testing.assert_array_equal(result.biased, scaled.view(np.uint32))
    np.testing.assert_array_equal(result.y, fp16.bits(y))
    np.testing.assert_array_equal(result.overflow, np.isinf(y))
    finite = np.isfinite(values).all(axis=1)
    codes = formats.OVP_INT4.encode(values[finite], step).pairs().reshape(-1)
    np.testing.assert_array_equal(result.pair[finite], codes)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("acc", "real"),
    [
        ((1 << 24) + 1, 1 << 24),
        ((1 << 24) + 3, (1 << 24) + 4),
        ((1 << 31) - 1, 1 << 31),
        (-(1 << 31), -(1 << 31)),
        ((1 << 31) - 64, 1 << 31),
        ((1 << 31) - 65, (1 << 31) - 128),
    ],
)
def test_sums_round_to_even(run: Any, acc: int, real: int) -> None:
    """D-olive-42: the first of the three roundings."""
    result = one(run, (acc, 0), 2.0**-20)

    assert result.acc_f32.tolist() == f32(real, 0).tolist()
    assert result.inexact_sums == (acc != real)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_output_beyond_fp16_is_infinity_with_largest_code(run: Any) -> None:
    """D-olive-52: 65,519 rounds to 65,504, 65,520 to infinity."""
    results = [one(run, (acc, -acc), following=4096.0) for acc in (65519, 65520)]

    assert [result.y.tolist() for result in results] == [[0x7BFF, 0xFBFF], [0x7C00, 0xFC00]]
    assert [result.overflow.tolist() for result in results] == [[False] * 2, [True] * 2]
    assert [result.pair.tolist() for result in results] == [0xA8, 0xF8]
    assert results[1].grid.tolist() == [0x7F7FFFFF, 0xFF7FFFFF]
    assert (results[0].overflows, results[1].overflows, results[1].wide_quotients) == (0, 2, 2)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("fmt", "pair"), [("OVP_INT4", 0x87), ("OVP_INT8", 0x8040), ("OVP_INT8_REPO", 0x0000)])
def test_a_quotient_beyond_float32_is_the_largest(run: Any, fmt: str, pair: int) -> None:
    """D-olive-53: the largest outlier; 0 where far values are (D-olive-46)."""
    result = one(run, (3000, 0), following=2.0**-120, fmt=fmt)

    assert (result.grid.tolist(), result.pair.tolist()) == ([0x7F7FFFFF, 0], pair)
    assert (result.overflow.any(), result.wide_quotients) == (False, 1)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_the_fp16_word_is_encoded(run: Any) -> None:
    """D-olive-54: 2.5 and a bit is 2.5 in fp16, which rounds to 2; the float32 before it would give 3."""
    result = one(run, ((5 << 18) + 1, 0), 2.0**-19)

    assert (result.biased.tolist(), result.y.tolist()) == (f32(2.5 + 2.0**-19, 0).tolist(), f16(2.5, 0))
    assert result.pair == 0x02


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_a_bias_is_added_before_fp16(run: Any) -> None:
    """D-olive-55: 2049 + 1 = 2050; rounded to 2048 first it would be 2049, not an fp16 value. -0 changes no zero."""
    assert one(run, (2049, 0), bias=(1, -0.0)).y.tolist() == f16(2050, 0)
    assert one(run, (-1, -1), 2.0**-40, bias=(-0.0, 0.0)).y.tolist() == [0x8000, 0x8000]
    tiny = run((-1, -1), f32(2.0**-126), f32(2.0**-60, 2.0**-60), f16(-0.0, 0.0), f32(1))
    assert (tiny.scaled.tolist(), tiny.y.tolist()) == ([0x80000000] * 2, [0x8000, 0])


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_subnormal_outputs_are_preserved(run: Any) -> None:
    """D-arith-2."""
    assert one(run, (3, -1), 2.0**-25).y.tolist() == [0x0002, 0x8000]


def test_counters_include_those_of_encoder() -> None:
    stage = OliveRequant("OVP_INT8")
    encoder = ovp_encoder.OvpEncoder("OVP_INT8")
    for acc in ((200, 3), (3, 4), (-1000, 900), ((1 << 24) + 1, 70000)):
        state = stage.step(acc, f32(1), f32(1, 1), (NO_BIAS, NO_BIAS), f32(1))
        encoder.step(state.grid)

    assert {name: getattr(state, name) for name in ovp_encoder.UNIT.counters} == {
        name: getattr(encoder.state, name) for name in ovp_encoder.UNIT.counters
    }
    assert (state.inexact_sums, state.overflows, state.wide_quotients) == (1, 2, 2)
    assert UNIT.counters[3:] == ovp_encoder.UNIT.counters


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"scale_w": f32(1, 2.0**100), "scale_a": f32(2.0**100)},
            r"scale_a \* scale_w must be a finite float32, got .* at index \(1,\)",
        ),
        ({"bias": (0, 0x7C00)}, r"bias must be a finite fp16, got 0x7c00 at index \(1,\)"),
        ({"bias": (0xFE00, 0)}, r"bias must be a finite fp16, got 0xfe00 at index \(0,\)"),
        ({"scale_a": 0}, "scale_a 0 .*outside"),
        ({"scale_next": 0x7F800000}, "scale_next 2139095040 .*outside"),
        ({"scale_w": (0x80800000, 0x3F800000)}, "scale_w 2155872256 .*outside"),
        ({"acc": (1 << 31, 0)}, "acc 2147483648 .*outside"),
    ],
)
def test_olive_requant_error_changes_nothing(run: Any, changed: dict[str, Any], message: str) -> None:
    """D-olive-56: scales are positive normal float32 with a finite product; biases are finite."""
    good = {"acc": (3, 4), "scale_a": f32(1), "scale_w": f32(1, 1), "bias": (NO_BIAS, NO_BIAS), "scale_next": f32(1)}
    with pytest.raises(Refused, match=f"olive_requant: {message}"):
        run(**{**good, **changed})
    stage = OliveRequant()
    before = stage.step(**good)
    with pytest.raises(Refused, match=f"olive_requant: {message}"):
        stage.step(**{**good, **changed})

    assert stage.snapshot() == before


def test_a_wrong_encoder_inside_is_seen() -> None:
    """The stage has an encoder: another one gives other pairs."""
    unit = units.find("olive_requant")
    stage, other = OliveRequant(), OliveRequant()
    other.encoder = type("LeftHigh", (ovp_encoder.OvpEncoder,), {"join": lambda self, left, right: right | left << 4})()
    inputs = ((5, -3), f32(1), f32(1, 1), (NO_BIAS, NO_BIAS), f32(1))

    assert (stage.step(*inputs).pair, other.step(*inputs).pair) == (0xD5, 0x5D)
    assert unit.unit_class is OliveRequant


def test_quotients_are_those_of_the_format() -> None:
    """D-olive-25."""
    y = np.array([[3.0, -7.5], [0.1, 65504.0]], np.float16)
    step = np.float32(0.3)
    acc = np.array([[3 << 13, -15 << 12], [819, 65504 << 13]], np.int64)
    result = olive_requant.run(acc, f32(2.0**-13), f32(1, 1), f16(-0.0, -0.0), f32(0.3))

    assert result.y.tolist() == fp16.bits(y).tolist()
    assert result.grid.tolist() == quotient(y, step, -1).view(np.uint32).tolist()
