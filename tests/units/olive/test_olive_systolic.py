"""The array against Python integers and against its own formulas: any size, cycle by cycle."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units.olive import mmaovp, olive_systolic
from refemu.units.olive.olive_systolic import UNIT, OliveSystolic
from tests.arith.strategies import codes
from tests.oracles.bits import signed
from tests.units.olive.operands import decoded as of_pair

IMPLEMENTATIONS = [pytest.param(olive_systolic.run, id="unit"), pytest.param(UNIT.run_compiled, id="compiled")]
HIGH, LOW = 2**31 - 1, -(2**31)
OPERANDS = [
    ("int4", "int4"),
    ("int4", "flint4"),
    ("flint4", "int4"),
    ("flint4", "flint4"),
    ("int8", "int8"),
    ("int8_repo", "int8_repo"),
]


@st.composite
def pairs(draw: st.DrawFn, kind: str, count: int) -> np.ndarray:
    """Any pairs, a quarter of them with a victim at the left."""
    width = 8 if kind.startswith("int8") else 4
    words, place = draw(codes(count, 2 * width)), draw(codes(count, 2))
    return np.where(place == 3, words >> width << width | 1 << (width - 1), words)


def lines(words: np.ndarray, bias: int, kind: str, count: int) -> list[list[int]]:
    """Integers of `count` rows of pairs, by the oracle."""
    decoded = [of_pair(word, bias, kind) for word in words]
    values = [i * 2**e for exponents, integers, _ in decoded for e, i in zip(exponents, integers, strict=True)]
    return [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]


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
@given(
    size=st.tuples(*[st.integers(1, 4)] * 2, *[st.integers(1, 6)] * 2, st.integers(1, 4)),
    data=st.data(),
    biases=st.tuples(st.integers(0, 15), st.integers(0, 15)),
)
def test_any_matrix_on_any_array_equals_oracle(
    run: Any, overflow: str, a: str, b: str, size: Any, data: st.DataObject, biases: Any
) -> None:
    """[olive §4.3]; D-olive-39: cycles = tiles * (K + 2 rows + cols - 2), decodes and products as stated."""
    quad, (rows, cols, m, n, half) = 2 if a.startswith("int8") else 1, size
    left, right = data.draw(pairs(a, m * half)), data.draw(pairs(b, n * half))
    config = {"rows": rows * quad, "cols": cols * quad, "m": m, "n": n, "k": 2 * half, "a": a, "b": b}
    result = run(left, right, *biases, **config, overflow=overflow)
    illegal = any(
        of_pair(word, bias, kind)[2]
        for words, bias, kind in ((left, biases[0], a), (right, biases[1], b))
        for word in words
    )
    answers = [expected(x, y, overflow) for x in lines(left, biases[0], a, m) for y in lines(right, biases[1], b, n)]
    down, across = -(-m // rows), -(-n // cols)
    compute, drain = down * across * (2 * half + rows + cols - 2), down * across * rows

    assert np.ravel(result.d).tolist() == [acc for acc, _ in answers]
    assert np.ravel(result.overflow).tolist() == [overs > 0 for _, overs in answers]
    assert bool(result.illegal) == illegal
    assert {name: getattr(result, name) for name in UNIT.counters} == {
        "cycles": compute + drain,
        "compute_cycles": compute,
        "drain_cycles": drain,
        "decodes": half * (m * across + n * down),
        "macs": m * n * 2 * half,
        "idle": compute * rows * cols - m * n * 2 * half,
        "overflows": sum(overs for _, overs in answers),
    }


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_worked_example(run: Any) -> None:
    """[olive §4.2, §4.4] (48, 0) x (5, -3) = 240 on one element, in 2 + 1 cycles."""
    result = run([0x85], [0xD5], 2, 2, rows=1, cols=1, m=1, n=1, k=2)

    assert (result.d.item(), result.cycles, result.decodes, result.macs, result.idle) == (240, 3, 2, 2, 0)


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("side", ["a", "b"])
def test_illegal_pair_is_sticky_until_operation_ends(side: str, at: int) -> None:
    """D-olive-18: in every state from the cycle that decodes it on, over legal pairs, the drain and the next tile."""
    array, words = OliveSystolic(rows=1, cols=1, m=3, n=3, k=4), {"a": [0x11] * 6, "b": [0x11] * 6}
    words[side][at] = 0x80
    states = list(array.steps(words["a"], words["b"], 2, 2))
    line, pair = divmod(at, 2)
    first = (line * 3 if side == "a" else line) * array.tile_cycles + 2 * pair
    again = list(array.steps([0x11] * 6, [0x11] * 6, 2, 2))

    assert [state.illegal for state in states] == [0] * first + [1] * (len(states) - first)
    assert not any(state.illegal for state in again)
    compiled_run = UNIT.run_compiled(
        [words["a"], [0x11] * 6], [words["b"], [0x11] * 6], 2, 2, rows=1, cols=1, m=3, n=3, k=4
    )
    assert compiled_run.illegal.tolist() == [True, False]


def at_work(state: olive_systolic.State) -> set[tuple[str, int]]:
    """Border decoders that decode in a cycle: afterwards they hold a right element, and in no other cycle."""
    return {(side, line) for side in ("west", "north") for line, held in enumerate(getattr(state, side)) if held.valid}


@pytest.mark.parametrize(("kind", "lines"), [("int4", 64), ("int8", 32)])
def test_decoders_and_elements_of_the_papers_arrays(kind: str, lines: int) -> None:
    """[olive Tbl. 11, §4.3] n + m decoders: 64 + 64 of 4 bits, 32 + 32 of 8 bits, on 64 x 64 elements of 4 bits.

    Seen at work, until the last lines have had their second pair: each line decodes its own pairs, one every second
    cycle, and every element of the grid has two operands at once by then or later.
    """
    array, word = OliveSystolic(k=4, m=lines, n=lines, a=kind, b=kind), 0x0101 if kind == "int8" else 0x11
    states = [array.step([word] * 2 * lines, [word] * 2 * lines, 2, 2)]
    while array.state.cycle < array.compute_time - 1:
        states.append(array.step())
    working = [at_work(state) for state in states]
    cycles = {decoder: [t for t, one in enumerate(working) if decoder in one] for decoder in set.union(*working)}

    assert cycles == {(side, i): [i, i + 2] for side in ("west", "north") for i in range(lines)}
    assert len(cycles) == array.decoders == 2 * lines
    assert states[-1].decodes == sum(map(len, working)) == 2 * 2 * lines
    assert [pe.acc for pe in states[-1].pes] == [4] * lines * lines
    assert len(states[-1].pes) * (4 if kind == "int8" else 1) == array.pes == 4096
    assert array.tile_cycles == 4 + 2 * lines + lines - 2


@pytest.mark.parametrize("size", [(6, 5), (4, 4), (1, 3)])
def test_half_of_the_decoders_work_in_a_cycle(size: tuple[int, int]) -> None:
    """D-olive-38: where K is long enough every line is busy, and decodes every second cycle."""
    rows, cols = size
    array = OliveSystolic(rows, cols, m=rows, n=cols, k=24)
    most = max(len(at_work(state)) for state in array.steps([0x11] * 12 * rows, [0x11] * 12 * cols, 2, 2))

    assert most == -(-rows // 2) + -(-cols // 2)


def test_skew_decoder_decodes_every_other_cycle() -> None:
    """D-olive-38: element (i, j) does product k at cycle k + i + j; D-olive-39: then the bottom row leaves first."""
    array = OliveSystolic(rows=2, cols=2, m=2, n=2, k=4)
    states = list(array.steps([0x21, 0x43, 0x65, 0x17], [0x11] * 4, 2, 2))

    assert [state.event for state in states] == ["compute"] * 6 + ["drain"] * 2
    assert [[pe.acc for pe in state.pes] for state in states[:6]] == [
        [1, 0, 0, 0],
        [3, 1, 5, 0],
        [6, 3, 11, 5],
        [10, 6, 18, 11],
        [10, 10, 19, 18],
        [10, 10, 19, 19],
    ]
    assert [state.decodes for state in states[:6]] == [2, 4, 6, 8, 8, 8]
    assert (states[0].west[0], states[1].west[0]) == ((1, 0, 2), (0, 0, 0))
    assert [state.d for state in states[5:]] == [(0, 0, 0, 0), (0, 0, 19, 19), (10, 10, 19, 19)]
    assert [state.macs for state in states[:6]] == [1, 4, 8, 12, 15, 16]


@pytest.mark.parametrize("name", ["i4_i4", "i4_f4", "f4_i4", "f4_f4", "i8_i8"])
@settings(deadline=None, max_examples=8)
@given(data=st.data(), biases=st.tuples(st.integers(0, 15), st.integers(0, 15)))
def test_array_and_instruction_agree_in_wrap(data: st.DataObject, name: str, biases: tuple[int, int]) -> None:
    """[olive §4.3, §4.6] the same decoders and the same exact sums modulo 2**32."""
    config = mmaovp.UNIT.configs[name]
    a, b = (mmaovp.TYPES[config[side]] for side in ("a_type", "b_type"))
    k = 16 if a == "int8" else 32
    left, right = data.draw(pairs(a, 4 * k)), data.draw(pairs(b, 4 * k))
    array = UNIT.run_compiled(left, right, *biases, rows=8, cols=8, m=8, n=8, k=k, a=a, b=b)

    assert array.d.tolist() == mmaovp.UNIT.run_compiled(left, right, *biases, [0] * 64, **config).d.tolist()


def test_wrong_event_order_raises_without_change() -> None:
    array = OliveSystolic(rows=2, cols=2, m=2, n=2, k=2)
    with pytest.raises(Refused, match="olive_systolic: step needs the inputs of an operation, got none"):
        array.step()
    begun = array.step([0x11, 0x11], [0x11, 0x11], 2, 2)
    with pytest.raises(Refused, match=r"olive_systolic: step takes no inputs after event \w+"):
        array.step([0x11, 0x11], [0x11, 0x11], 2, 2)

    assert array.snapshot() == begun


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({"k": 3}, Refused, "k even and at least 2, got 2, 2, 3", id="odd k"),
        pytest.param({"m": 0}, Refused, "m and n must be at least 1", id="no row"),
        pytest.param({"rows": 0}, Refused, "rows and cols must be at least 1", id="no element"),
        pytest.param({"rows": 3, "a": "int8", "b": "int8"}, Refused, "and even for int8, got 3, 4", id="odd rows"),
        pytest.param({"cols": 5, "a": "int8", "b": "int8"}, Refused, "and even for int8, got 4, 5", id="odd cols"),
        pytest.param({"b": "int8"}, Refused, "a and b must have one width, got int4 and int8", id="width mix"),
        pytest.param({"a": "ovpi4"}, Refused, "a must be one of 'int4', 'flint4', 'int8'", id="type"),
        pytest.param(
            {"m": 3}, RefusedType, "olive_systolic.a_pairs: the last axis must hold 6 lanes", id="larger matrix"
        ),
        pytest.param({"bias_b": 16}, Refused, "olive_systolic: bias_b 16 is outside", id="bias"),
    ],
)
def test_olive_systolic_rejects_invalid_inputs(
    run: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    good = {
        "a_pairs": [0] * 4,
        "b_pairs": [0] * 4,
        "bias_a": 2,
        "bias_b": 2,
        "rows": 4,
        "cols": 4,
        "m": 2,
        "n": 2,
        "k": 4,
    }
    with pytest.raises(error, match=message):
        run(**(good | arguments))


def test_olive_systolic_repr_evaluates_back() -> None:
    array = OliveSystolic(rows=4, cols=6, m=2, n=2, k=4, a="int8", b="int8")

    assert repr(eval(repr(array))) == repr(array) and "rows=4, cols=6" in repr(array)
