"""Seeded port values and columns for golden cases."""

import numpy as np
import pytest

from refemu import units
from refemu.units.ports import Port
from refemu.units.stimuli import columns, port_values, random_inputs, sequences, streamed
from refemu.units.unit import Unit
from tests.oracles import prng


def test_random_takes_top_bits_of_own_sequence() -> None:
    words = prng.words(prng.stream("unit/random/x", 7), 0, 6)

    assert port_values("unit", Port("x", 5), (6,), 7).tolist() == [word >> 59 for word in words]
    assert port_values("unit", Port("x", 5, lanes=3), (2,), 7).ravel().tolist() == [word >> 59 for word in words]
    assert port_values("unit", Port("x", 4, signed=True), (6,), 7).tolist() == [
        ((word >> 60) ^ 8) - 8 for word in words
    ]


def test_random_reaches_the_whole_range() -> None:
    assert sorted(set(port_values("unit", Port("x", 4, signed=True), (500,), 0).tolist())) == list(range(-8, 8))


def test_sequences_differ_by_unit_port_and_seed() -> None:
    ports = Port("a", 16), Port("b", 16)
    first, second = random_inputs("unit", ports, (8,), 0).values()

    assert not np.array_equal(first, second)
    assert not np.array_equal(first, port_values("other", ports[0], (8,), 0))
    assert not np.array_equal(first, port_values("unit", ports[0], (8,), 1))


@pytest.mark.parametrize(
    "port",
    [
        Port("a", 16),
        Port("b", 9, lanes=3),
        Port("c", 12, signed=True),
        Port("d", 16, encoding="f16"),
        Port("e", 8, lanes=2, least=3, most=77),
    ],
)
def test_range_draws_what_its_seeds_draw_in_turn(port: Port) -> None:
    wanted = np.concatenate([port_values("unit", port, (2, 5), seed) for seed in (7, 8, 9)])
    drawn = port_values("unit", port, (2, 5), range(7, 10))

    assert drawn.dtype == np.int64 and np.array_equal(wanted, drawn)
    assert np.array_equal(port_values("unit", port, (6,), 7)[4:], port_values("unit", port, (2,), 7, first=4))


@pytest.mark.parametrize(
    ("unit", "config"),
    [
        pytest.param(unit, config, id=f"{unit.name}-{config}")
        for unit in map(units.find, units.names())
        for config in unit.configs
    ],
)
def test_units_draw_range_as_seeds_in_turn(unit: Unit, config: str) -> None:
    one = [list(unit.cases(unit.configs[config], "random", seed)) for seed in (5, 6, 7)]
    for block, *wanted in zip(unit.cases(unit.configs[config], "random", range(5, 8)), *one, strict=True):
        assert {(block.why, block.decision)} == {(each.why, each.decision) for each in wanted}
        for name, array in block.inputs.items():
            assert np.array_equal(np.concatenate([each.inputs[name] for each in wanted]), array)


def test_columns_stretch_scalars() -> None:
    assert {k: v.tolist() for k, v in columns(pair=range(2, 4), bias=7).items()} == {"pair": [2, 3], "bias": [7, 7]}


def test_sequences_split_events_by_name() -> None:
    inputs = sequences(("a", "b"), [[(1, 2), (3, 4)], [(5, 6), (7, 8)]])

    assert {k: v.tolist() for k, v in inputs.items()} == {"a": [[1, 3], [5, 7]], "b": [[2, 4], [6, 8]]}


@pytest.mark.parametrize(("rare", "share"), [(1, 1 / 2), (2, 1 / 4), (4, 1 / 16)])
def test_streamed_operations_start_in_share_of_rows(rare: int, share: float) -> None:
    start = streamed("unit", 0, {"a": np.arange(4096)}, 4096, rare)["start"]

    assert start.shape == (1, 4096) and abs(start.mean() - share) < 0.02


FEW = 2  #: operations that the random cases of every seed complete


@pytest.mark.parametrize(
    ("unit", "config"),
    [
        pytest.param(unit, config, id=f"{unit.name}-{config}")
        for unit in map(units.find, units.names())
        for config in unit.configs
        if unit.timing == "event"
    ],
)
def test_random_cases_of_each_seed_complete_operations(unit: Unit, config: str) -> None:
    chosen = unit.configs[config]
    for seed in range(4):
        blocks = [block.inputs for block in unit.cases(chosen, "random", seed)]
        rows = [unit.closing(chosen, inputs, unit.evaluate(chosen, inputs)) for inputs in blocks]
        completed = [np.count_nonzero(closing) for closing in rows if closing is not None]
        assert not completed or sum(completed) >= FEW, seed
