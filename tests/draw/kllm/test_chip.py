"""The chip: token, units, lanes and outputs are those of the registers, at every event."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.draw.kllm.chip import MOST, UNITS
from refemu.units.kllm.pe_lane import PHASES
from tests.draw.shapes import about, texts

UNIT = units.find("kllm_chip")


def run(config: str) -> Iterator[tuple[Any, str]]:
    chosen = UNIT.config(config)
    cases = next(iter(UNIT.stimuli(chosen, "paper", 0)))
    for state in UNIT.trace(chosen, {port: array[0] for port, array in cases.inputs.items()}):
        yield state, UNIT.draw(chosen, state)


def value(words: Any) -> list[float]:
    values: list[float] = np.array(words[:MOST], np.uint16).view(np.float16).tolist()
    return values


@pytest.mark.long
@pytest.mark.parametrize("config", UNIT.configs)
def test_words_and_units_are_the_registers(config: str) -> None:
    """Values to the digits that six letters have; the unit of the event alone is marked."""
    events = set()
    for state, svg in run(config):
        for name, words in (("value", state.x), ("output", state.y)):
            shown = [float(box.text) for box in about(svg, f"{name} ")]
            assert shown == pytest.approx(value(words), rel=0.01, abs=1e-4)
        outliers = [box.kind == "exponent" for box in about(svg, "value ")]
        assert outliers == [bool(bit) for bit in state.a_mask[:MOST]]
        inliers = [place for place, out in enumerate(state.a_mask) if not out][: state.clustered]
        due = [str(state.a_index[place]) if place in inliers else "" for place in range(len(state.x))]
        assert [box.text for box in about(svg, "index ")] == due[:MOST]
        boxes = {name: about(svg, f"{name}: ")[0] for name in UNITS.values()}
        assert [name for name, box in boxes.items() if box.kind == "hot"] == [UNITS[state.event]]
        assert f"{state.event}, cycle {state.cycles_taken} of the token" in texts(svg)
        events.add(state.event)

    assert events == {"search", "cluster", "edge"} | ({"function"} if config == "softmax" else set())


@pytest.mark.long
@pytest.mark.parametrize("config", UNIT.configs)
def test_lanes_are_their_registers(config: str) -> None:
    seen = set()
    for state, svg in run(config):
        for number, registers in enumerate(state.lanes):
            macs = about(svg, f"MACs of lane {number}:")[0]
            counters = about(svg, f"counters of lane {number}:")[0]
            assert macs.text == PHASES[registers.phase] and (macs.kind == "gone") is (registers.phase == 0)
            turns = registers.left_turns
            assert counters.text == (f"{turns} turns left" if turns else "wait")
            assert about(svg, f"slabs of lane {number}:")[0].text == str(state.taken[number])
            seen |= {macs.text, bool(turns)}
        bad = [box.kind == "bad" for box in about(svg, "output ")]
        assert bad == [bool(flag) for flag in state.overflow[:MOST]]

    assert {"idle", "reduce", "scale", True, False} <= seen
