"""The dot product units against Python integers: types, biases, ends of 32 bits, illegal pairs, the order of events."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.units.olive import olive_edp
from refemu.units.olive.olive_edp import EVENTS, TYPES, DotProductUnit
from tests.oracles.bits import signed
from tests.units.olive.operands import decoded as of_pair

IMPLEMENTATIONS = [pytest.param(olive_edp.run, id="unit"), pytest.param(olive_edp.UNIT.run_compiled, id="compiled")]
HIGH, LOW = 2**31 - 1, -(2**31)
OPERANDS = [*TYPES.values(), ("int8_repo", "int8_repo"), ("int8", "int8_repo")]


def elements(pairs: Any, bias: int, kind: str) -> tuple[list[int], bool]:
    """Integers of a row of pairs, and whether one is illegal, by the oracle."""
    decoded = [of_pair(pair, bias, kind) for pair in pairs]
    return [i * 2**e for exponents, integers, _ in decoded for e, i in zip(exponents, integers, strict=True)], any(
        bad for *_, bad in decoded
    )


def expected(event: Any, a: str, b: str, overflow: str) -> tuple[int, bool, bool]:
    """d, overflow and illegal of one operation."""
    (x, bad_x), (y, bad_y) = elements(event[0], event[2], a), elements(event[1], event[3], b)
    exact = event[4] + sum(p * q for p, q in zip(x, y, strict=True))
    d = {"wrap": signed(exact % 2**32, 32), "saturate": max(LOW, min(HIGH, exact))}[overflow]
    return d, not LOW <= exact <= HIGH, bad_x or bad_y


def columns(events: list[Any]) -> list[np.ndarray]:
    return [np.array(column) for column in zip(*events, strict=True)]


def row(pair: int, lanes: int = 8) -> list[int]:
    return [pair] + [0] * (lanes - 1)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_worked_example(run: Any) -> None:
    """[olive §4.2, §4.4] A = (48, 0), B = (5, -3), biases 2: 48 * 5 + 0 * -3 = (3 * 5) << 4 = 240."""
    result = run(row(0x85), row(0xD5), 2, 2, 0)

    assert (int(result.d), bool(result.overflow), bool(result.illegal)) == (240, False, False)
    assert (result.operations, result.macs, result.decodes) == (1, 16, 16)
    assert (result.d.dtype, result.overflow.dtype, result.illegal.dtype) == (np.int32, np.bool_, np.bool_)


@st.composite
def operations(draw: st.DrawFn, kind: str) -> Any:
    lanes, top = (4, 0xFFFF) if kind.startswith("int8") else (8, 0xFF)
    special = [0x80, 0x8000, 0x8040, 0xC080, 0x80FF] if kind.startswith("int8") else [0x08, 0x80, 0x87, 0xF8]
    pairs = st.lists(st.one_of(st.sampled_from(special), st.integers(0, top)), min_size=lanes, max_size=lanes)
    c = st.one_of(st.sampled_from([0, HIGH, LOW]), st.integers(LOW, HIGH))
    return draw(pairs), draw(pairs), draw(st.integers(0, 15)), draw(st.integers(0, 15)), draw(c)


@pytest.mark.long
@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("overflow", ["wrap", "saturate"])
@pytest.mark.parametrize(("a", "b"), OPERANDS, ids="_".join)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_operations_equal_the_oracle(run: Any, overflow: str, a: str, b: str, data: st.DataObject) -> None:
    """Every pair of types at every bias; D-olive-33, D-olive-34: one exact sum, reduced once."""
    events = data.draw(st.lists(operations(a), min_size=1, max_size=4))
    result = run(*columns(events), a=a, b=b, overflow=overflow)

    assert list(zip(result.d.tolist(), result.overflow.tolist(), result.illegal.tolist(), strict=True)) == [
        expected(event, a, b, overflow) for event in events
    ]
    assert (result.operations, result.overflows, result.illegal_operations) == (
        len(events),
        int(result.overflow.sum()),
        int(result.illegal.sum()),
    )


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("sign", [0x00, 0x80])
def test_sum_beyond_64_bits_is_exact(run: Any, sign: int) -> None:
    """Four products of (15 << 30) each, 15^2 << 60 and more: the flag and the clamp see the exact sum."""
    a, b = [0x807F] * 4, [0x807F | sign] * 4
    wrapped, clamped = (run(a, b, 15, 15, -1, a="int8", b="int8", overflow=rule) for rule in ("wrap", "saturate"))

    assert (int(wrapped.d), bool(wrapped.overflow)) == (-1, True)
    assert (int(clamped.d), bool(clamped.overflow)) == (LOW if sign else HIGH, True)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_illegal_pair_contributes_nothing(run: Any) -> None:
    """D-olive-18: flagged, value 0; the other pairs count."""
    result = run([[0x88, 0x11] + [0] * 6, [0x11, 0x80] + [0] * 6], [[0x77, 0x12] + [0] * 6] * 2, 2, 2, 5)

    assert (result.d.tolist(), result.illegal.tolist()) == ([5 + 2 + 1, 5 + 7 + 7], [True, True])


def test_an_operation_is_four_events_with_their_registers() -> None:
    """D-olive-35: sixteen products have sixteen shifts of their own."""
    device = DotProductUnit()
    states = [device.step(row(0x85), row(0xD5), 2, 2, 1), device.step(), device.step(), device.step()]

    assert [state.event for state in states] == list(EVENTS)
    assert (states[0].a_exponent[:2], states[0].a_int[:2]) == ((4, 0), (3, 0))
    assert (states[0].b_exponent[:2], states[0].b_int[:2]) == ((0, 0), (5, -3))
    assert states[1].shifts[:2] == (4, 0) and states[1].products[:2] == (15, 0)
    assert states[2].shifted[:2] == (240, 0) and (states[2].d, states[3].d) == (0, 241)
    assert [(s.decodes, s.macs, s.operations) for s in states] == [(16, 0, 0), (16, 16, 0), (16, 16, 0), (16, 16, 1)]


def test_wrong_event_order_raises_without_change() -> None:
    device = DotProductUnit()
    with pytest.raises(Refused, match="olive_edp: step needs the inputs of an operation, got none"):
        device.step()
    begun = device.step(row(0x85), row(0xD5), 2, 2, 1)
    with pytest.raises(Refused, match=r"olive_edp: step takes no inputs after event \w+"):
        device.step(row(0x85), row(0xD5), 2, 2, 1)

    assert device.busy and device.snapshot() == begun


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param(
            {"a_pairs": row(0, 7)}, RefusedType, "olive_edp.a_pairs: the last axis must hold 8 lanes", id="lanes"
        ),
        pytest.param({"b_pairs": row(256)}, Refused, r"olive_edp: b_pairs 256 at index \(0,\) is outside", id="pair"),
        pytest.param({"bias_b": 16}, Refused, r"olive_edp: bias_b 16 is outside \[0, 16\)", id="bias"),
        pytest.param({"c": 2**31}, Refused, "olive_edp: c 2147483648 is outside", id="c"),
        pytest.param(
            {"b": "int8"}, Refused, "olive_edp: a and b must have one width, got int4 and int8", id="width mix"
        ),
        pytest.param({"a": "int6"}, Refused, "olive_edp: a must be one of .*, got 'int6'", id="type"),
    ],
)
def test_olive_edp_rejects_invalid_inputs(
    run: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    good = {"a_pairs": row(1), "b_pairs": row(1), "bias_a": 2, "bias_b": 2, "c": 0}
    with pytest.raises(error, match=message):
        run(**(good | arguments))


@pytest.mark.parametrize(("kind", "n"), [("int4", 16), ("flint4", 16), ("int8", 8)])
def test_multipliers_and_pair_decoders_are_those_of_operation(kind: str, n: int) -> None:
    """[olive §4.1] 16EDP and 8EDP; as many pair decoders as multipliers [olive Tbl. 10]."""
    done = olive_edp.run(row(0, n // 2), row(0, n // 2), 2, 2, 0, a=kind, b=kind)

    assert (done.macs, done.decodes) == (n, n)


def test_olive_edp_repr_evaluates_back() -> None:
    assert repr(DotProductUnit("int8", "int8")) == "DotProductUnit(a='int8', b='int8', overflow='wrap')"
