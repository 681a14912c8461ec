"""The array: sums and the wavefront are those of the registers."""

import re
from typing import Any

import pytest

from refemu import units
from tests.draw.shapes import about, boxes
from tests.draw.test_registry import states


@pytest.mark.parametrize("name", ["olive_systolic", "olive_systolic_clocked"])
def test_elements_show_their_registers(name: str) -> None:
    unit = units.find(name)
    config = next(iter(unit.configs))
    seen = set()
    for state in states(name, config):
        shown = about(unit.draw(unit.config(config), state), "element")
        for box, (a, b, acc, overflow) in zip(shown, registers(state), strict=True):
            assert box.text.split()[0] == str(acc) and box.about.endswith(f"accumulator {acc}")
            assert box.kind == ("bad" if overflow else ("gone", "low", "high", "hot")[2 * a + b])
            seen.add(box.kind)

    assert {"hot", "gone"} <= seen


@pytest.mark.parametrize(("name", "config"), [("olive_systolic", "int4"), ("olive_systolic_clocked", "rows=4,cols=4")])
def test_elements_at_work_are_those_that_multiply(name: str, config: str) -> None:
    """The description counts the edge's products as the unit does: four elements for each product of 8 bits."""
    unit, seen = units.find(name), set()
    chosen = unit.config(config)
    for block in unit.stimuli(chosen, "edge", 0):
        rows = {port: array[0] if unit.timing == "event" else array[:1] for port, array in block.inputs.items()}
        before = 0
        for state in unit.trace(chosen, rows):
            wide, worked = getattr(state, "mode", 0), state.macs - before
            before = state.macs
            said = re.search(r"(\d+) of (\d+) elements have both operands", unit.draw(chosen, state))
            assert said and int(said[1]) == worked * (4 if wide else 1), (state.event, state.index)
            seen.add((wide, worked > 0))

    assert {(0, True), (0, False)} <= seen
    assert name == "olive_systolic" or (1, True) in seen


def registers(state: Any) -> list[tuple[int, int, int, int]]:
    """Valid bits of both operands, accumulator and overflow of every element."""
    if hasattr(state, "pes"):
        return [(pe.a.valid, pe.b.valid, pe.acc, pe.overflow) for pe in state.pes]
    return list(zip(state.a_valid, state.b_valid, state.acc, state.acc_overflow, strict=True))


def test_large_array_shows_its_first_elements() -> None:
    unit = units.find("olive_systolic")
    config = unit.config("rows=32,cols=32,m=2,n=2,k=2")
    device = unit.unit_class(**config)
    svg = unit.draw(config, device.state)

    assert len(about(svg, "element")) == 256 and "the first 16 of 32 rows and 16 of 32 columns" in svg
    assert len(boxes(svg)) < 400
