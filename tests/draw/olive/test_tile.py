"""The tile of mmaovp: elements of D, which one is at work, and the operation that it gets."""

from typing import Any

import pytest

from refemu import units
from tests.draw.shapes import about, boxes, tree

UNITS = [("mmaovp", "i4_f4"), ("mmaovp", "i8_i8"), ("mmaovp_clocked", "i4_i4")]


def run(name: str, config: str) -> list[tuple[Any, str]]:
    """Every ninth State of a tile of random pairs with the one before, and drawings."""
    unit = units.find(name)
    chosen = unit.config(config)
    inputs = next(iter(unit.stimuli(chosen, "random", 0))).inputs
    case = {port: array[0] if unit.timing == "event" else array[:1] for port, array in inputs.items()}
    return [(state, unit.draw(chosen, state)) for state in list(unit.trace(chosen, case))[:130:9]]


@pytest.mark.parametrize(("name", "config"), UNITS)
def test_elements_show_d(name: str, config: str) -> None:
    for state, svg in run(name, config):
        index = state.phase
        shown = about(svg, "row")
        assert [box.about.partition(": ")[2].partition(",")[0] for box in shown] == [str(value) for value in state.d]
        hot = [
            place for place, box in enumerate(shown) if box.kind == "hot" or (box.kind == "bad" and place == index // 2)
        ]
        assert hot == ([index // 2] if state.event == "edp" else [])
        for place, box in enumerate(shown):
            if box.kind in ("low", "plain"):
                assert (box.kind == "low") == (state.operations > 0 and place <= index // 2)
            assert (box.kind == "bad") == bool(state.overflow[place])


@pytest.mark.parametrize(("name", "config"), UNITS[:2])
def test_the_operation_is_what_d_grows_by(name: str, config: str) -> None:
    """Modulo 2**32, by the State before it."""
    unit = units.find(name)
    chosen = unit.config(config)
    inputs = next(iter(unit.stimuli(chosen, "random", 0))).inputs
    states = list(unit.trace(chosen, {port: array[:1] for port, array in inputs.items()}))
    grown = set()
    for before, state in zip(states[:40:3], states[1:41:3], strict=True):
        svg = unit.draw(chosen, state)
        place = state.phase // 2
        terms = [int(box.about.partition(": ")[2]) for box in about(svg, "element") if ", term:" in box.about]
        assert (state.d[place] - before.d[place] - sum(terms)) % (1 << 32) == 0
        assert [box.text for box in boxes(svg) if box.about == f"D of row {place // 8}, column {place % 8}"] == [
            str(state.d[place])
        ]
        grown.add(sum(terms))

    assert len(grown) > 5


def test_description_names_operation_and_elements() -> None:
    unit = units.find("mmaovp")
    config = unit.config("i4_i4")
    state, svg = run("mmaovp", "i4_i4")[3]
    words = tree(svg)[1].text or ""

    assert f"row 0: {', '.join(map(str, state.d[:8]))}" in words
    assert f"row {state.phase // 16} of A, column {state.phase // 2 % 8} of B, half {state.phase % 2} of K" in words
    assert tree(unit.draw(config, unit.unit_class(**config).state))[1].text == "no operation yet"
