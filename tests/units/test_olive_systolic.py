"""The array against Python integers and against its own formulas: any size, cycle by cycle."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units import mmaovp, olive_systolic
from refemu.units.olive_edp import OUTLIER
from refemu.units.olive_systolic import COUNTERS, UNIT, OliveSystolic
from tests.oracles import olive_units as oracle
from tests.oracles.bits import signed

IMPLEMENTATIONS = [pytest.param(olive_systolic.run, id="unit"), pytest.param(UNIT.run_jit, id="twin")]
HIGH, LOW = 2**31 - 1, -(2**31)
OPERANDS = [("int4", "int4"), ("int4", "flint4"), ("flint4", "int4"), ("flint4", "flint4"), ("int8", "int8")]


def pairs(rng: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """Random pairs, a third of them with a victim at the left."""
    width = 8 if kind == "int8" else 4
    drawn = rng.integers(0, 1 << 2 * width, count)
    return np.where(rng.integers(0, 3, count) == 0, drawn >> width << width | 1 << (width - 1), drawn)


def lines(words: np.ndarray, bias: int, kind: str, count: int) -> list[list[int]]:
    """Integers of `count` rows of pairs, by the oracle."""
    decoded = [oracle.ovp_decoder(int(word), bias, kind, OUTLIER[kind]) for word in words]
    values = [i * 2**e for exponents, integers, _ in decoded for e, i in zip(exponents, integers, strict=True)]
    return [values[i * len(values) // count:(i + 1) * len(values) // count] for i in range(count)]


def expected(x: list[int], y: list[int], overflow: str) -> tuple[int, int]:
    """One element, K in order, and how often it left 32 bits."""
    acc = overs = 0
    for p, q in zip(x, y, strict=True):
        acc += p * q
        overs += not LOW <= acc <= HIGH
        acc = signed(acc % 2**32, 32) if overflow == "wrap" else max(LOW, min(HIGH, acc))
    return acc, overs


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("overflow", ["wrap", "saturate"])
@pytest.mark.parametrize(("a", "b"), OPERANDS)
@settings(deadline=None, max_examples=15)
@given(size=st.tuples(*[st.integers(1, 4)] * 2, *[st.integers(1, 6)] * 2, st.integers(1, 4)), seed=st.integers(0, 999),
       biases=st.tuples(st.integers(0, 15), st.integers(0, 15)))
def test_any_matrix_on_any_array_equals_the_oracle_and_the_formulas(
        run: Any, overflow: str, a: str, b: str, size: Any, seed: int, biases: Any) -> None:
    """[olive §4.3]; D-olive-39: cycles = tiles * (K + 2 rows + cols - 2), decodes and products as stated."""
    quad, rng, (rows, cols, m, n, half) = 2 if a == "int8" else 1, np.random.default_rng(seed), size
    left, right = pairs(rng, a, m * half), pairs(rng, b, n * half)
    config = {"rows": rows * quad, "cols": cols * quad, "m": m, "n": n, "k": 2 * half, "a": a, "b": b}
    ports = [side if side.size > 1 else side[0] for side in (left, right)]
    result = run(*ports, *biases, **config, overflow=overflow)
    answers = [expected(x, y, overflow) for x in lines(left, biases[0], a, m) for y in lines(right, biases[1], b, n)]
    down, across = -(-m // rows), -(-n // cols)
    compute, drain = down * across * (2 * half + rows + cols - 2), down * across * rows

    assert np.ravel(result.d).tolist() == [acc for acc, _ in answers]
    assert np.ravel(result.overflow).tolist() == [overs > 0 for _, overs in answers]
    assert {name: getattr(result, name) for name in COUNTERS} == {
        "cycles": compute + drain, "compute_cycles": compute, "drain_cycles": drain,
        "decodes": half * (m * across + n * down), "macs": m * n * 2 * half,
        "idle": compute * rows * cols - m * n * 2 * half, "overflows": sum(overs for _, overs in answers)}


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_worked_example(run: Any) -> None:
    """[olive §4.2, §4.4] (48, 0) x (5, -3) = 240 on one element, in 2 + 1 cycles."""
    result = run(0x85, 0xD5, 2, 2, rows=1, cols=1, m=1, n=1, k=2)

    assert (int(result.d), result.cycles, result.decodes, result.macs, result.idle) == (240, 3, 2, 2, 0)


def test_decoders_and_elements_of_the_papers_arrays() -> None:
    """[olive Tbl. 11, §4.3] n + m decoders: 64 + 64 of 4 bits, 32 + 32 of 8 bits, on 64 x 64 elements of 4 bits."""
    four, eight = OliveSystolic(), OliveSystolic(a="int8", b="int8")

    assert [(array.decoders, array.pes) for array in (four, eight)] == [(128, 4096), (64, 4096)]
    assert (eight.rows * eight.cols, four.tile_cycles) == (1024, 64 + 2 * 64 + 64 - 2)


def test_skew_a_decoder_decodes_every_other_cycle_and_holds_the_right_element() -> None:
    """D-olive-38: element (i, j) does product k at cycle k + i + j; D-olive-39: then the bottom row leaves first."""
    array = OliveSystolic(rows=2, cols=2, m=2, n=2, k=4)
    states = list(array.steps([0x21, 0x43, 0x65, 0x17], [0x11] * 4, 2, 2))

    assert [state.event for state in states] == ["compute"] * 6 + ["drain"] * 2
    assert [[pe.acc for pe in state.pes] for state in states[:6]] == [
        [1, 0, 0, 0], [3, 1, 5, 0], [6, 3, 11, 5], [10, 6, 18, 11], [10, 10, 19, 18], [10, 10, 19, 19]]
    assert [state.decodes for state in states[:6]] == [2, 4, 6, 8, 8, 8]
    assert (states[0].west[0], states[1].west[0]) == ((1, 0, 2), (0, 0, 0))
    assert [state.d for state in states[5:]] == [(0, 0, 0, 0), (0, 0, 19, 19), (10, 10, 19, 19)]
    assert [state.macs for state in states[:6]] == [1, 4, 8, 12, 15, 16]


@pytest.mark.parametrize("name", ["i4_i4", "i4_f4", "f4_i4", "f4_f4", "i8_i8"])
@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 999), biases=st.tuples(st.integers(0, 15), st.integers(0, 15)))
def test_array_and_instruction_agree_in_wrap(seed: int, name: str, biases: tuple[int, int]) -> None:
    """[olive §4.3, §4.6] the same decoders and the same exact sums modulo 2**32."""
    rng, config = np.random.default_rng(seed), mmaovp.UNIT.configs[name]
    a, b = (mmaovp.TYPES[config[side]] for side in ("a_type", "b_type"))
    k = 16 if a == "int8" else 32
    left, right = pairs(rng, a, 4 * k), pairs(rng, b, 4 * k)
    array = UNIT.run_jit(left, right, *biases, rows=8, cols=8, m=8, n=8, k=k, a=a, b=b)

    assert array.d.tolist() == mmaovp.UNIT.run_jit(left, right, *biases, [0] * 64, **config).d.tolist()


def test_a_wrong_order_of_events_is_refused_and_changes_nothing() -> None:
    array = OliveSystolic(rows=2, cols=2, m=2, n=2, k=2)
    with pytest.raises(Refused, match="olive_systolic: step takes the inputs of an operation"):
        array.step()
    begun = array.step([0x11, 0x11], [0x11, 0x11], 2, 2)
    with pytest.raises(Refused, match="olive_systolic: step takes no inputs: cycle 0 came last"):
        array.step([0x11, 0x11], [0x11, 0x11], 2, 2)

    assert array.snapshot() == begun


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("arguments", "error", "message"), [
    pytest.param({"k": 3}, Refused, "k even and at least 2, got 2, 2, 3", id="odd k"),
    pytest.param({"m": 0}, Refused, "m and n must be at least 1", id="no row"),
    pytest.param({"rows": 0}, Refused, "rows and cols must be at least 1", id="no element"),
    pytest.param({"rows": 3, "a": "int8", "b": "int8"}, Refused, "and even for int8, got 3, 4", id="odd rows"),
    pytest.param({"cols": 5, "a": "int8", "b": "int8"}, Refused, "and even for int8, got 4, 5", id="odd cols"),
    pytest.param({"b": "int8"}, Refused, "a and b must have one width, got int4 and int8", id="width mix"),
    pytest.param({"a": "ovpi4"}, Refused, "a must be one of 'int4', 'flint4', 'int8'", id="type"),
    pytest.param({"m": 3}, RefusedType, "olive_systolic.a_pairs: the last axis must hold 6 lanes", id="larger matrix"),
    pytest.param({"bias_b": 16}, Refused, "olive_systolic: bias_b 16 is outside", id="bias")])
def test_refuses(run: Any, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    good = {"a_pairs": [0] * 4, "b_pairs": [0] * 4, "bias_a": 2, "bias_b": 2, "rows": 4, "cols": 4, "m": 2, "n": 2,
            "k": 4}
    with pytest.raises(error, match=message):
        run(**(good | arguments))


def test_repr_evaluates_back() -> None:
    array = OliveSystolic(rows=4, cols=6, m=2, n=2, k=4, a="int8", b="int8")

    assert repr(eval(repr(array))) == repr(array) and "rows=4, cols=6" in repr(array)
