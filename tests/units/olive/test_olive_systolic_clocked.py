"""The clocked array against the oracle, edge by edge in every output, register and counter; its decisions by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.units.olive import olive_systolic_clocked
from refemu.units.olive.olive_systolic_clocked import UNIT, OliveSystolicClocked
from refemu.units.olive.olive_systolic_clocked.product import idle, joined, tile
from tests.oracles.olive import array
from tests.units.clocked_rows import assert_cases, assert_rows

IMPLEMENTATIONS = [pytest.param(olive_systolic_clocked.run, id="unit"), pytest.param(UNIT.run_compiled, id="compiled")]
SMALL: dict[str, Any] = {
    "rows": 2,
    "cols": 2,
    "a": "int4",
    "b": "int4",
    "eight": "int8",
    "overflow": "wrap",
    "split": "twos_complement",
}


def edges(config: Any, draw: Any, count: int) -> dict[str, Any]:
    """Any inputs; few changes of width and drains, many pairs, victims among them."""
    rare = st.integers(0, 7).map(lambda x: int(x == 0))
    often = st.integers(0, 3).map(lambda x: int(x > 0))
    word = st.one_of(st.integers(0, 0xFFFF), st.sampled_from([0x80, 0x08, 0x87, 0x8040, 0x4080, 0xC080, 0x8000, 0x11]))
    wide = np.cumsum(draw(st.lists(rare, min_size=count, max_size=count))) % 2
    inputs: dict[str, Any] = {"wide": wide.tolist(), "drain": draw(st.lists(rare, min_size=count, max_size=count))}
    for side, lines in (("west", config["rows"]), ("north", config["cols"])):
        for name, values in ((side, word), (f"{side}_valid", often)):
            row = st.lists(values, min_size=lines, max_size=lines)
            inputs[name] = draw(st.lists(row, min_size=count, max_size=count))
    for name, most in (
        ("bias_a", 15),
        ("bias_b", 15),
        *((f"flint_{side}", 1) for side in "ab" if config["a"] == "port"),
    ):
        inputs[name] = draw(st.lists(st.integers(0, most), min_size=count, max_size=count))
    return inputs


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("eight", "split"), [("int8", "twos_complement"), ("int8_repo", "sign_magnitude")])
@pytest.mark.parametrize(
    ("a", "b", "overflow"), [("int4", "flint4", "wrap"), ("flint4", "int4", "saturate"), ("port", "port", "wrap")]
)
@settings(deadline=None, max_examples=12)
@given(data=st.data(), size=st.tuples(st.sampled_from([2, 4]), st.sampled_from([2, 6])))
def test_edges_equal_the_oracle(
    run: Any, eight: str, split: str, a: str, b: str, overflow: str, data: Any, size: Any
) -> None:
    config = {"rows": size[0], "cols": size[1], "a": a, "b": b, "eight": eight, "overflow": overflow, "split": split}
    inputs = edges(config, data.draw, data.draw(st.integers(1, 20)))

    expected = array.simulate(**config, inputs=inputs)  # type: ignore[arg-type]

    assert_rows(UNIT, config, run(**{name: np.array(values) for name, values in inputs.items()}, **config), expected)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", UNIT.configs)
@pytest.mark.parametrize("kind", ["paper", "edge", "random"])
def test_golden_cases_equal_the_oracle(run: Any, name: str, kind: Any) -> None:
    def simulated(config: Any, inputs: Any) -> Any:
        return array.simulate(**config, inputs={port: values.tolist() for port, values in inputs.items()})

    assert_cases(UNIT, name, kind, run, simulated)


def states(inputs: dict[str, np.ndarray], **config: Any) -> list[Any]:
    return list(OliveSystolicClocked(**{**SMALL, **config}).steps(**inputs))


def test_a_product_by_hand() -> None:
    """[olive §4.2] 48 * 5 + 0 * -3 = 240, in the element of row 1 and column 1 two edges after it began."""
    pairs = [np.array([[0], [word]]) for word in (0x85, 0xD5)]
    trace = states(tile(*pairs, (2, 2), 2, 2))

    assert [state.event for state in trace] == ["compute"] * 4 + ["drain"] * 2
    assert [state.acc[3] for state in trace] == [0, 0, 240, 240, 0, 0]
    assert [state.south for state in trace][-2:] == [(0, 240), (0, 0)]
    assert trace[1].west_held_valid == (0, 1) and trace[1].north_held_integer == (0, -3)
    assert (trace[-1].macs, trace[-1].decodes, trace[-1].cycles) == (8, 4, 6)


def test_an_8_bit_product_is_made_of_four() -> None:
    """[olive §4.5] 100 * -77 of halves 6, 4 and -5, 3; 2 x 2 elements are one of 8 bits."""
    pairs = [np.array([[word]]) for word in (100, -77 & 0xFF)]
    trace = states(tile(*pairs, (0, 0), 2, 2, wide=1))

    assert trace[0].partial == (-30, 18, -20, 12)
    assert trace[0].acc == (-7700, 0, 0, 0)
    assert trace[-1].south == (-7700, 0)


def test_a_line_takes_a_pair_every_second_edge() -> None:
    """D-olive-48: the second of two pairs in neighbouring edges is not taken."""
    inputs = idle(3, 2, 2)
    inputs["west"][:, 0], inputs["west_valid"][:, 0] = [0x21, 0x43, 0x65], 1

    trace = states(inputs)

    assert [state.a_integer[0] for state in trace] == [1, 2, 5]
    assert trace[-1].decodes == 2


def test_a_change_of_width_empties_the_array() -> None:
    """D-olive-49: accumulators, operands and held elements, before the edge does anything."""
    narrow = tile(np.full((2, 1), 0x11), np.full((2, 1), 0x11), (0, 0), 2, 2)
    cut = {name: values[:3] for name, values in narrow.items()}

    before, after = states(joined(cut, idle(1, 2, 2, wide=1)))[-2:]

    assert before.acc == (2, 2, 2, 1) and before.mode == 0
    assert not any((*after.acc, *after.a_valid, *after.b_valid, *after.west_held_valid)) and after.mode == 1


def test_a_drain_drops_operands() -> None:
    """D-olive-50."""
    inputs = tile(np.full((2, 1), 0x11), np.full((2, 1), 0x11), (0, 0), 2, 2)
    inputs["drain"][1] = 1

    trace = states(inputs)

    assert any(trace[0].a_valid) and any(trace[0].west_held_valid)
    assert not any((*trace[1].a_valid, *trace[1].b_valid, *trace[1].west_held_valid, *trace[1].north_held_valid))


def test_the_south_border_shows_drains_only() -> None:
    """D-olive-51: the bottom row is 0 in every edge of compute, whatever its accumulators hold."""
    trace = states(tile(np.full((2, 1), 0x11), np.full((2, 1), 0x11), (0, 0), 2, 2))

    assert all(state.south == (0, 0) for state in trace if state.event == "compute")
    assert any(state.acc[3] for state in trace if state.event == "compute")
    assert trace[-2].south == (2, 2)


def test_types_are_inputs() -> None:
    """D-olive-63: codes 7 and 6 are 7 and 6 as int4, 6 and 4 as flint4; a held element keeps its type."""
    inputs = idle(3, 2, 2, flint=(0, 0))
    inputs["west"][:, 0], inputs["west_valid"][:, 0] = 0x67, (1, 0, 1)
    inputs["flint_a"][:] = 1, 0, 0

    trace = states(inputs, a="port", b="port")

    assert [state.a_integer[0] for state in trace] == [6, 4, 7]
    assert trace[2].west_held_integer == (6, 0)


def test_any_state_can_be_restored() -> None:
    inputs = joined(*(tile(np.full((1, 2), 0x17), np.full((1, 2), 0x35), (1, 1), 2, 2, wide) for wide in (0, 1)))
    rows = [{name: values[edge] for name, values in inputs.items()} for edge in range(len(inputs["wide"]))]
    trace = states(inputs)
    device = OliveSystolicClocked(**SMALL)
    for edge in range(len(rows) - 1):
        device.restore(trace[edge])
        assert device.step(**rows[edge + 1]) == trace[edge + 1]


@pytest.mark.parametrize(("rows", "cols"), [(2, 6), (64, 64)])
def test_lanes_follow_the_array(rows: int, cols: int) -> None:
    lanes = {port.name: port.count for port in OliveSystolicClocked(rows, cols).ports.all}

    assert lanes["west"] == lanes["west_valid"] == lanes["west_held_integer"] == rows
    assert lanes["north"] == lanes["south"] == lanes["north_held_valid"] == cols
    assert lanes["acc"] == lanes["a_exponent"] == lanes["partial"] == rows * cols


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rows": 3}, "even"),
        ({"cols": 66}, "cols must be"),
        ({"a": "int8"}, "a must be"),
        ({"a": "port"}, "a and b must both be port, or neither, got port, int4"),
        ({"overflow": "round"}, "overflow"),
        ({"split": "thirds"}, "split"),
    ],
)
def test_olive_systolic_clocked_rejects_invalid_inputs(parameters: Any, message: str) -> None:
    with pytest.raises(Refused, match=message):
        OliveSystolicClocked(**parameters)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_lanes_of_8_bit_operands(run: Any) -> None:
    """D-olive-62: lines and columns 0 and 1 of four; registers of element (i, j) are those of lane 2 * (4 * i + j)."""
    config = SMALL | {"rows": 4, "cols": 4}
    a, b = np.array([[0x0201], [0x0403]]), np.array([[0x0605], [0x0807]])  # rows (1, 2) and (3, 4), (5, 6) and (7, 8)
    inputs = tile(a, b, (0, 0), 4, 4, 1)
    result = run(**inputs, **config)

    assert np.flatnonzero(inputs["west_valid"].any(axis=0)).tolist() == [0, 1]
    assert result.south[-2:].tolist() == [[39, 53, 0, 0], [17, 23, 0, 0]]
    before = result.acc[len(result.acc) - 3]
    assert before.reshape(4, 4)[::2, ::2].tolist() == [[17, 23], [39, 53]]
    assert before.sum() == 17 + 23 + 39 + 53
    first = result.partial[0].tolist()
    assert first[:4] == [0, 0, 0, 5] and not any(first[4:])  # halves 0 and 1 by 0 and 5
