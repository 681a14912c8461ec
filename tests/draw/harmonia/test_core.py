"""Accelerator and FDGF: parts at work, words of C and tiles are those of the State."""

import numpy as np
import pytest

from refemu import units
from tests.draw.shapes import about, boxes
from tests.draw.test_registry import states


@pytest.mark.parametrize("name", ["harmonia_core", "harmonia_core_clocked"])
def test_parts_and_words_are_drawn(name: str) -> None:
    unit, seen = units.find(name), set()
    for config in ("linear", "v"):
        for state in states(name, config):
            svg = unit.draw(unit.config(config), state)
            hot = [box.kind == "hot" for box in about(svg, "part")]
            if name == "harmonia_core":
                assert hot.count(True) == (state.event != "reset")
            else:
                assert hot == [bool(bit) for bit in state.working]
            columns = unit.config(config)["columns"]
            for box in about(svg, "row "):
                row, column = (int(each.split()[-1]) for each in box.about.partition(":")[0].split(","))
                word = np.uint16(state.y[row * columns + column])
                assert box.about.endswith(f": {float(word.view(np.float16)):.4g}")
                out = name == "harmonia_core_clocked" and box.kind == "score"
                assert not out or (column == state.column and row - state.row < sum(state.sent))
            seen |= {box.kind for box in boxes(svg)}

    assert {"hot", "mantissa", "empty"} <= seen


def test_column_that_leaves_is_drawn() -> None:
    unit = units.find("harmonia_core_clocked")
    inputs = next(iter(unit.stimuli(unit.config("linear"), "paper", 0))).inputs
    leaving = [
        s for s in unit.trace(unit.config("linear"), {port: each[0] for port, each in inputs.items()}) if any(s.sent)
    ]

    assert leaving
    for state in leaving:
        drawn = [box.about for box in about(unit.draw(unit.config("linear"), state), "row ") if box.kind == "score"]
        rows = range(state.row, state.row + sum(state.sent))
        assert [each.partition(":")[0] for each in drawn] == [f"row {row}, column {state.column}" for row in rows]


def test_tiles_and_fetches_are_drawn() -> None:
    unit, kinds = units.find("fdgf"), {}
    inputs = next(iter(unit.stimuli(unit.config("small"), "paper", 0))).inputs
    for state in unit.trace(unit.config("small"), {port: each[0] for port, each in inputs.items()}):
        svg = unit.draw(unit.config("small"), state)
        assert [box.about for box in about(svg, "tile of")] == [
            f"tile of A: {state.mt}",
            f"tile of B: {state.kt}",
            f"tile of C: {state.mt}, {state.kt}",
        ]
        kinds[state.event] = [box.kind == "hot" for box in about(svg, "tile of")]

    assert kinds["fetch_a"] == [True, False, False] and kinds["fetch_b"] == [False, True, False]
    assert kinds["compute"] == kinds["read"] == [False, False, True]
