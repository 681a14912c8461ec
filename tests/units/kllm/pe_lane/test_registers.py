"""Ports of the lane: a width and a number of lanes for each size."""

from typing import Any

import pytest

from refemu.units.kllm.pe_lane import PHASES, UNIT, PeLane, State

PAPER: dict[str, Any] = {
    "concat": 4096,
    "counters": 32,
    "inputs": 16,
    "macs": 32,
    "a_bits": 4,
    "b_bits": 4,
    "counter_bits": 13,
}


def test_sizes_of_the_paper() -> None:
    """[kllm Table I] 4,096 Concat units, 32 counters of 256 registers, 32 MACs; eight counting edges a slab."""
    every = {port.name: port for port in PeLane(**PAPER).ports.all}

    assert (every["a"].lanes, every["b"].lanes, every["q"].lanes, every["q"].bits) == (4096, 4096, 4096, 8)
    assert (every["turns"].limits, every["address"].bits) == ((1, 8), 8)
    assert (every["count"].lanes, every["counted"].lanes, every["count"].bits) == (32 * 256, 32 * 256, 13)
    assert (every["y"].lanes, every["columns"].bits) == (32, 6)


@pytest.mark.parametrize(("mapping", "along"), [("column", 24), ("counter", 12)])
def test_positions_of_a_slab(mapping: Any, along: int) -> None:
    assert PeLane(concat=24, macs=2, lane_mapping=mapping).positions == along


@pytest.mark.parametrize(("integer", "size"), [(False, 32), (True, 4)])
def test_entries_of_a_counter(integer: bool, size: int) -> None:
    assert PeLane(a_bits=3, b_bits=2, integer=integer).entries == size


@pytest.mark.parametrize("name", UNIT.configs)
def test_every_port_is_a_field_of_the_state(name: str) -> None:
    lane = PeLane(**UNIT.configs[name])
    names = [port.name for port in lane.ports.all]

    assert set(names) <= {*State.__dataclass_fields__} and len(names) == len(set(names))
    assert ("amount" in names) == lane.integer
    assert next(port for port in lane.ports.outputs if port.name == "phase").limits[1] >= len(PHASES) - 1
