"""A lane: Concat registers, counters, histograms and sums are those of the registers, in every edge."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.units.kllm.pe_lane import PHASES
from tests.draw.shapes import Box, about, texts, tree

UNIT = units.find("pe_lane")
SUMS = {"weighted": "acc", "sparse": "outside", "scales": "joint", "y": "y"}


def run(config: str) -> Iterator[tuple[Any, str]]:
    chosen = UNIT.config(config)
    for kind in ("paper", "edge", "random"):
        cases = next(iter(UNIT.stimuli(chosen, kind, 0)), None)
        if cases:
            for state in UNIT.trace(chosen, {port: array[0] for port, array in cases.inputs.items()}):
                yield state, UNIT.draw(chosen, state)


def rows(svg: str, name: str) -> list[Box]:
    return [box for box in about(svg, f"{name} ") if ", entry " in box.about]


@pytest.mark.parametrize("config", UNIT.configs)
def test_histograms_are_the_registers(config: str) -> None:
    seen = set()
    for state, svg in run(config):
        for name, values in (("counter", state.count), ("counted", state.counted), ("reduced", state.reducing)):
            assert [int(box.about.rpartition(" ")[2]) for box in rows(svg, name)] == list(values)
            assert [box.text for box in rows(svg, name)] == [str(count) for count in values]
            seen |= {name} if any(values) else set()
        reads = {
            int(box.about.split("entry ")[1].partition(":")[0])
            for box in rows(svg, "reduced")
            if box.kind == "exponent"
        }
        reducing = PHASES[state.phase] == "reduce" and state.working
        assert reads == ({state.address} if reducing else set())
        seen |= {"read"} if reads else set()
        used = {int(box.about.split()[1].rstrip(",")) for box in rows(svg, "counted") if box.kind == "mantissa"}
        assert used <= set(range(state.columns))

    assert seen == {"counter", "counted", "reduced", "read"}


@pytest.mark.parametrize("config", UNIT.configs)
def test_positions_and_sums_are_the_registers(config: str) -> None:
    events = set()
    for state, svg in run(config):
        positions = about(svg, "position")
        assert [int(box.text) for box in positions] == list(state.q)
        assert [box.kind == "code" for box in positions] == [bool(there) for there in state.q_valid]
        for name, register in SUMS.items():
            sums = about(svg, f"{name} of column")
            values = np.array(getattr(state, register), np.uint16).view(np.float16)
            assert [box.text for box in sums] == [f"{value:.4g}" for value in values]
        hot = {box.about.split()[0] for name in SUMS for box in about(svg, f"{name} of column") if box.kind == "hot"}
        marked = {"reduce": {"weighted"}, "sparse": {"sparse"}, "scale": {"scales"}}.get(state.event, set())
        assert hot == marked | ({"y"} if state.y_valid and not all(state.overflow) else set())
        assert f"edge {state.index}: {state.event}; the MACs do next: {PHASES[state.phase]}" in texts(svg)
        events.add(state.event)

    assert {"count", "reduce", "sparse", "scale"} <= events


def test_large_lane_says_how_much_is_omitted() -> None:
    config = UNIT.config("concat=64,counters=16,inputs=4,macs=12,a_bits=4,b_bits=4,counter_bits=13")
    state = UNIT.unit_class(**config).state
    svg = UNIT.draw(config, state)
    shown = set(texts(svg))

    assert "8 of 16 histograms, 16 of 256 entries from 0 on" in shown
    assert {"the first 16 of 64 positions", "the first 8 of 12 columns"} <= shown
    assert len(svg) < 100_000 and "indices none" in (tree(svg)[1].text or "")
    reading = dataclasses.replace(state, phase=PHASES.index("reduce"), working=12, address=100)
    read = [box.about for box in rows(UNIT.draw(config, reading), "reduced") if box.kind == "exponent"]
    assert read == [f"reduced {row}, entry 100: 0" for row in range(8)]
