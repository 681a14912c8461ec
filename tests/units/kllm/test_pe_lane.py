"""The lane against the oracle, edge by edge in every output, register and counter; its decisions by hand."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.units.kllm import pe_lane
from refemu.units.kllm.fp16_mac import Fp16Mac
from refemu.units.kllm.pe_lane import UNIT, PeLane
from refemu.units.kllm.pe_lane.feed import Feeder, Slab, Tile, slabs
from tests.oracles.kllm import lane as oracle
from tests.units.clocked_rows import assert_cases, assert_rows

IMPLEMENTATIONS = [pytest.param(pe_lane.run, id="unit"), pytest.param(UNIT.run_compiled, id="compiled")]
PHASES = {name: number for number, name in enumerate(pe_lane.PHASES)}
ONE, HALF, QUARTER, TWO, THREE = 0x3C00, 0x3800, 0x3400, 0x4000, 0x4200
#: [kllm §III-B, Fig. 3] a column of 8 positions: indices of A and B, products of centroids -0.5, 0.75 by -1 to 1
A, B = [0, 1, 1, 0, 1, 0, 0, 1], [3, 0, 2, 2, 1, 3, 0, 1]
TABLE = [0x3800, 0x3000, 0xB000, 0xB800, 0xBA00, 0xB200, 0x3200, 0x3A00]
SMALL: dict[str, Any] = {
    "concat": 8,
    "counters": 2,
    "inputs": 2,
    "macs": 2,
    "a_bits": 1,
    "b_bits": 2,
    "counter_bits": 5,
}


def lists(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Ports of every edge for the oracle, a list where a port may have lanes."""
    wide = {"a", "b", "valid", *oracle.LANES}
    return [
        {name: np.ravel(array[edge]).tolist() if name in wide else int(array[edge]) for name, array in inputs.items()}
        for edge in range(len(inputs["load"]))
    ]


def expected(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Rows of the oracle for one device."""
    own = {name: config[name] for name in oracle.Sizes._fields if name in config}
    return oracle.edges(oracle.Sizes(**own), lists(config, inputs))


@st.composite
def configurations(draw: Any, mapping: str, merge: str, integer: bool) -> dict[str, Any]:
    """Small sizes, lanes of one among them."""
    counters, inputs = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    macs = counters if mapping == "counter" else draw(st.integers(1, 3))
    return {
        "concat": counters * inputs * draw(st.integers(1, 3)),
        "counters": counters,
        "inputs": inputs,
        "macs": macs,
        "a_bits": draw(st.integers(1, 4 if integer else 2)),
        "b_bits": draw(st.integers(1, 2)),
        "integer": integer,
        "lane_mapping": mapping,
        "merge": merge,
        "counter_bits": 16,
    }


def edges(config: Mapping[str, Any], draw: Any, count: int) -> dict[str, np.ndarray]:
    """Any values at the ports of `count` edges; loads and `go` often, few outliers, words of every kind among them."""
    word = st.one_of(st.integers(0, 0xFFFF), st.sampled_from([0, 0x8000, ONE, 0x7BFF, 0x7C00, 0x7E00, 1]))
    often = st.integers(0, 3).map(lambda x: int(x > 0))
    special = {"load": often, "go": often, "closes": often, "valid": often, "outliers": st.integers(0, 2)}
    inputs = {}
    for port in PeLane(**config).ports.inputs:
        least, most = port.limits
        values = special.get(port.name, word if port.encoding == "f16" else st.integers(least, most))
        flat = draw(st.lists(values, min_size=count * port.count, max_size=count * port.count))
        inputs[port.name] = np.array(flat).reshape(count, *port.shape)
    return inputs


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("mapping", "merge", "integer"), [*product(("column", "counter"), ("tree", "serial"), (False, True))]
)
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_edges_equal_the_oracle(run: Any, mapping: str, merge: str, integer: bool, data: Any) -> None:
    config = data.draw(configurations(mapping, merge, integer))
    inputs = edges(config, data.draw, data.draw(st.integers(1, 30)))

    assert_rows(UNIT, config, run(**inputs, **config), expected(config, inputs))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", UNIT.configs)
@pytest.mark.parametrize("kind", ["paper", "edge", "random"])
def test_golden_cases_equal_the_oracle(run: Any, name: str, kind: Any) -> None:
    assert_cases(UNIT, name, kind, run, expected)


def tile(lane: PeLane, outliers: int = 0, **operands: Any) -> Tile:
    """Scales of 1, and no operand of the sparse path."""
    none = np.zeros((outliers, lane.macs), np.int64)
    words: dict[str, Any] = {"a_scale": ONE, "b_scale": np.full(lane.macs, ONE)}
    words |= dict.fromkeys(("sparse", "x", "w", "x_coded", "w_coded"), none)
    lines = {name: np.full(lane.macs, value) for name, value in operands.items() if name in ("row_sum", "bias")}
    return Tile(**(words | operands | lines))


def product_of(lane: PeLane, columns: Sequence[Sequence[int]], tiles: Sequence[Tile], a: Any = A) -> list[Any]:
    """States of a product streamed through the lane; tile t has the columns from macs * t on."""
    b = np.array(columns)
    stream: list[Slab] = []
    for first in range(0, len(b), lane.macs):
        part = b[first : first + lane.macs]
        stream += slabs(lane, np.array(a), part, np.ones_like(part))
    feeder = Feeder(lane, stream, tiles, np.array(TABLE))
    states = []
    while not feeder.done(lane.state):
        states.append(lane.step(**feeder.inputs(feeder.pick(lane.state))))
    return states


def test_a_column_by_hand() -> None:
    """[kllm §III-B, Fig. 3] counts 1 0 1 2 1 2 1 0, Y = -1.5625, in fifteen edges."""
    lane = PeLane(**{**SMALL, "macs": 1})
    states = product_of(lane, [B], [tile(lane)])

    assert [state.event for state in states] == [
        "load",
        "count",
        "count",
        *["idle"] * 2,
        *["reduce"] * 8,
        "scale",
        "merge",
    ]
    assert states[0].q == (3, 4, 6, 2, 5, 3, 0, 5)
    assert states[3].counted == states[4].reducing == (1, 0, 1, 2, 1, 2, 1, 0) and states[3].full
    assert [state.y_valid for state in states] == [0] * 14 + [1]
    assert (states[-1].y, states[-1].overflow) == ((0xBE40,), (0,))
    counters = {name: getattr(states[-1], name) for name in UNIT.counters}
    assert counters == dict(zip(UNIT.counters, (15, 2, 0, 1, 10, 1, 8, 8, 8, 8, 0, 0, 1, 1, 0), strict=True))


@pytest.mark.parametrize("merge", ["tree", "serial"])
def test_an_integer_column_by_hand(merge: Any) -> None:
    """[kllm §III-B2] q = 3 0 1 2 1 3 0 2 at the same indices of B: amounts 0 3 3 6, Y = 6."""
    lane = PeLane(**{**SMALL, "macs": 1, "a_bits": 2, "integer": True, "merge": merge})
    stream = list(slabs(lane, np.array([3, 0, 1, 2, 1, 3, 0, 2]), np.array([B]), np.ones((1, 8), np.int64)))
    feeder = Feeder(lane, stream, [tile(lane)], np.array([0xBC00, 0xB400, 0x3400, 0x3C00]))
    while not feeder.done(lane.state):
        lane.step(**feeder.inputs(feeder.pick(lane.state)))

    assert lane.state.reducing == (0, 3, 3, 6)
    assert lane.state.y == (0x4600,)
    assert lane.state.concats == 0


def test_values_are_those_of_the_tile() -> None:
    """Two tiles, with shift and bias: Y as the oracle computes it from values, without an edge."""
    lane = PeLane(**SMALL)
    columns = [B, B[::-1], [1] * 8, [2, 3] * 4]
    tiles = [tile(lane), tile(lane, a_scale=HALF, shifts=1, biases=1, shift=HALF, row_sum=THREE, bias=QUARTER)]
    states = [state for state in product_of(lane, columns, tiles) if state.y_valid]

    sizes = oracle.Sizes(8, 2, 2, 2, 1, 2)
    every = [[1] * 8] * 2
    first = oracle.product(sizes, A, columns[:2], every, TABLE, ONE, [ONE] * 2)
    second = oracle.product(sizes, A, columns[2:], every, TABLE, HALF, [ONE] * 2, (), HALF, [THREE] * 2, [QUARTER] * 2)
    assert [state.y for state in states] == [tuple(first), tuple(second)]


def test_partial_histograms_are_merged_at_once_or_serially() -> None:
    """D-kllm-42: one merge edge, or one a counter, and the same histogram."""
    trees, serial = (
        product_of(lane, [B] * 2, [tile(lane)]) for lane in (PeLane(**SMALL), PeLane(**SMALL, merge="serial"))
    )

    assert max(state.merging for state in trees) == 1 and max(state.merging for state in serial) == 2
    assert (trees[-1].merge_cycles, serial[-1].merge_cycles) == (2, 4)
    assert trees[-1].reducing == serial[-1].reducing == (1, 0, 1, 2, 1, 2, 1, 0) * 2
    assert serial[-1].cycles > trees[-1].cycles
    halves = [state.counted[:8] for state in serial[:6]]
    assert halves[3] == (0, 0, 0, 2, 1, 1, 0, 0) and halves[4] == (1, 0, 1, 2, 1, 2, 1, 0)


def test_one_tile_is_counted_while_another_is_reduced() -> None:
    """D-kllm-43: the bank of the MACs is unchanged, that of the counters fills; with both full the counters wait."""
    lane = PeLane(**SMALL)
    states = product_of(lane, [B, A, B, B, A, A], [tile(lane)] * 3)
    reducing = [state for state in states if state.phase == PHASES["reduce"]]

    both = [state for state in reducing if state.working and any(state.counted)]
    assert both and {state.reducing for state in reducing[:8]} == {reducing[0].reducing}
    assert reducing[7].count_cycles > reducing[0].count_cycles
    full = [state for state in reducing if state.full]
    assert full and full[-1].stalls > 0
    assert states[-1].tiles == 3


def test_a_product_of_outliers_takes_an_edge() -> None:
    """D-kllm-44: 3 * 0.5 by 2 * 0.25 in one edge, two values computed next to the MAC, one product in it."""
    lane = PeLane(**{**SMALL, "macs": 1})
    coded = np.ones((1, 1), np.int64)
    operands = {"sparse": coded, "x": coded * THREE, "w": coded * TWO, "x_coded": coded, "w_coded": coded}
    states = product_of(lane, [B], [tile(lane, 1, a_scale=HALF, b_scale=np.array([QUARTER]), **operands)])
    (sparse,) = (state for state in states if state.event == "sparse")

    assert (sparse.outside, sparse.left, sparse.phase) == ((0x3A00,), 0, PHASES["scale"])
    assert (sparse.dequants, sparse.macs_sparse) == (2, 1)
    assert states[-1].y == (0x3870,)  # 0.75 - 1.5625 / 8 = 0.5547


def test_early_slab_is_ignored_and_full_tile_ends() -> None:
    """D-kllm-45: the registers keep the slab before; two columns fill two MACs without `tile_end`."""
    lane = PeLane(**SMALL)
    idle, ones = zeros(lane), (1,) * 8
    first = lane.step(**{**idle, "load": 1, "turns": 2, "a": (0,) * 8, "b": (1,) * 8, "valid": ones, "last": 1})
    second = lane.step(**{**idle, "load": 1, "turns": 1, "a": ones, "b": ones, "valid": ones, "last": 1})

    assert (first.ready, second.ready) == (0, 1)
    assert second.q == first.q == (1,) * 8 and second.concats == 8
    for _ in range(3):
        state = lane.step(**{**idle, "load": int(lane.state.left_turns == 1), "last": 1, "valid": ones})
    state = lane.step(**idle)
    assert (state.columns, state.full, state.end_held) == (2, 1, 0)


def test_outputs_stay_until_next_tile() -> None:
    """D-kllm-46: y and overflow keep a tile's values while the next is reduced, and show sums before shift and bias."""
    lane = PeLane(**SMALL)
    large = tile(lane, a_scale=0x7BFF, b_scale=np.array([0x7BFF, ONE]))
    states = product_of(lane, [B] * 4, [large, tile(lane, biases=1, bias=ONE)])
    first = next(at for at, state in enumerate(states) if state.y_valid)
    merged = next(at for at, state in enumerate(states) if state.event == "merge" and at > first)

    assert states[first].overflow == (1, 1)
    assert {(state.y, state.overflow) for state in states[first:merged]} == {(states[first].y, states[first].overflow)}
    assert [state.y_valid for state in states[first : merged + 2]] == [1, *[0] * (merged - first), 1]
    assert states[merged].y == (0xBE40,) * 2 and states[merged].overflow == states[first].overflow
    assert states[merged + 1].y == (0xB880,) * 2 and states[merged + 1].overflow == (0, 0)


@pytest.mark.parametrize("name", UNIT.configs)
def test_any_state_can_be_restored(name: str) -> None:
    config = UNIT.configs[name]
    (case,) = UNIT.cases(config, "paper", 0)
    inputs = {port: values[0] for port, values in case.inputs.items()}
    lane, device = PeLane(**config), PeLane(**config)
    trace = [lane.state, *lane.steps(**inputs)]
    for edge in range(len(trace) - 1):
        device.restore(trace[edge])
        assert device.step(**row_of(inputs, edge)) == trace[edge + 1]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"counter_bits": 2}, "index_counter: count 4 of index 1 does not fit counter_bits=2"),
        ({"counter_bits": 3}, "pe_lane: a count must fit counter_bits=3, got 8"),
        ({"counter_bits": 3, "merge": "serial"}, "pe_lane: a count must fit counter_bits=3, got 8"),
    ],
)
def test_count_that_does_not_fit_is_rejected(run: Any, options: Any, message: str) -> None:
    config = {**SMALL, "macs": 1, **options}
    inputs = full_column(config)

    with pytest.raises(Refused, match=message):
        run(**inputs, **config)


def full_column(config: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Edges in which one index is counted eight times, four in each counter."""
    inputs = {port.name: np.full((7, *port.shape), int(port.name == "turns")) for port in PeLane(**config).ports.inputs}
    for name, value in {"load": 1, "last": 1, "turns": 2, "b": 1, "valid": 1}.items():
        inputs[name][0] = value
    return inputs


def row_of(inputs: Mapping[str, np.ndarray], edge: int) -> dict[str, Any]:
    """Ports of one edge, tuples for lanes."""
    row = {name: values[edge].tolist() for name, values in inputs.items()}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


@pytest.mark.parametrize(("options", "at"), [({"counter_bits": 2}, 2), ({"counter_bits": 3}, 3)])
def test_rejected_edge_changes_nothing(options: Any, at: int) -> None:
    config = {**SMALL, "macs": 1, **options}
    inputs = full_column(config)
    lane = PeLane(**config)
    *_, before = (lane.step(**row_of(inputs, edge)) for edge in range(at))
    with pytest.raises(Refused):
        lane.step(**row_of(inputs, at))

    assert lane.state is before


def test_rejected_edge_restores_all_counters() -> None:
    """Counter 0 takes index 0 up to 3 in the second turn, in which counter 1 rejects index 1, repeatedly."""
    lane = PeLane(**{**SMALL, "macs": 1, "counter_bits": 2})
    lane.step(**{**zeros(lane), "load": 1, "turns": 2, "b": (0, 0, 1, 1, 0, 0, 1, 1), "valid": (1, 0, *(1,) * 6)})
    lane.step(**zeros(lane))
    for _ in range(3):
        with pytest.raises(Refused, match="count 4 of index 1"):
            lane.step(**zeros(lane))


class Sevens(Fp16Mac):
    """The sum is lost."""

    def multiply_add(self, a: int, b: int, acc: int) -> tuple[int, int]:
        return super().multiply_add(a, b, acc)[0], 0x4700


@pytest.mark.parametrize(
    ("units", "registers"), [("mac_units", ("acc", "outside", "joint", "y")), ("multipliers", ("outside", "y"))]
)
def test_every_stage_is_a_mac(units: str, registers: Sequence[str]) -> None:
    """[kllm §III-B, §III-D] the registers hold what the lane's own MACs answer."""
    coded = np.ones((1, 2), np.int64)
    operands = {"sparse": coded, "x": coded * THREE, "w": coded * TWO, "x_coded": coded, "w_coded": coded}
    lanes = [PeLane(**SMALL), PeLane(**SMALL)]
    setattr(lanes[1], units, [Sevens(), Sevens()])
    right, wrong = (product_of(lane, [B] * 2, [tile(lane, 1, **operands)])[-1] for lane in lanes)

    assert {name for name in ("acc", "outside", "joint", "y") if getattr(right, name) != getattr(wrong, name)} == {
        *registers
    }


def test_sub_units_hold_the_registers_after_restore() -> None:
    lane = PeLane(**SMALL)
    states = product_of(lane, [B, A], [tile(lane)])
    lane.restore(states[1])
    after = lane.step(**{**dict.fromkeys((p.name for p in lane.ports.inputs), 0), **zeros(lane)})

    assert tuple(unit.state.q for unit in lane.concats) == states[1].q
    assert sum((counter.state.count for counter in lane.index_counters), ()) == after.count == states[2].count


def zeros(lane: PeLane) -> dict[str, Any]:
    """Inputs without anything."""
    none: dict[str, Any] = {port.name: port.filled(0) for port in lane.ports.inputs}
    return none | {"turns": 1}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"concat": 6}, "concat must be a multiple of counters \\* inputs, got 6, 2, 2"),
        ({"concat": 0}, "concat"),
        ({"counters": 0}, "counters"),
        ({"inputs": 17}, "inputs"),
        ({"macs": 0}, "macs"),
        ({"a_bits": 5}, "a_bits"),
        ({"a_bits": 9, "integer": True}, "a_bits"),
        ({"b_bits": 5}, "b_bits"),
        ({"counter_bits": 63}, "counter_bits"),
        ({"lane_mapping": "row"}, "lane_mapping"),
        ({"merge": "ripple"}, "merge"),
        ({"lane_mapping": "counter", "macs": 3}, "counters must equal macs .*, got 2, 3"),
    ],
)
def test_pe_lane_rejects_invalid_inputs(parameters: Any, message: str) -> None:
    with pytest.raises(Refused, match=message):
        PeLane(**{**SMALL, **parameters})


@pytest.mark.parametrize(("port", "value"), [("turns", 0), ("turns", 3), ("go", 2), ("entry", 1 << 16)])
def test_pe_lane_error_changes_nothing(port: str, value: int) -> None:
    lane = PeLane(**SMALL)
    before = lane.state
    with pytest.raises(Refused, match=rf"pe_lane\D*{port} {value}"):
        lane.step(**{**zeros(lane), port: value})
    assert lane.state is before
