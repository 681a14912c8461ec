"""The array: sums and the wavefront are those of the registers."""

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


def registers(state: Any) -> list[tuple[int, int, int, int]]:
    """Valid bits of both operands, accumulator and overflow of every element."""
    if hasattr(state, "pes"):
        return [(pe.a.valid, pe.b.valid, pe.acc, pe.overflow) for pe in state.pes]
    return list(zip(state.a_valid, state.b_valid, state.acc, state.acc_overflow, strict=True))


def test_the_first_elements_of_a_large_array_are_drawn() -> None:
    unit = units.find("olive_systolic")
    config = unit.config("rows=32,cols=32,m=2,n=2,k=2")
    device = unit.unit_class(**config)
    svg = unit.draw(config, device.state)

    assert len(about(svg, "element")) == 256 and "the first 16 of 32 rows and 16 of 32 columns" in svg
    assert len(boxes(svg)) < 400
