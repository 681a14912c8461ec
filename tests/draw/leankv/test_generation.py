"""The generation compressor: means, shares, candidates and the victim are those of the registers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.draw.leankv.generation import CHOICES
from tests.draw.shapes import about, boxes, texts, tree

UNIT = units.find("generation_compressor")


def run(config: str) -> Iterator[tuple[Any, str]]:
    """States of the first cases of every kind, and their drawings."""
    chosen = UNIT.config(config)
    for kind in ("paper", "edge", "random"):
        for cases in UNIT.stimuli(chosen, kind, 0):
            for state in UNIT.trace(chosen, {port: array[:1] for port, array in cases.inputs.items()}):
                yield state, UNIT.draw(chosen, state)


@pytest.mark.parametrize("config", ["paper", "cumulative", "diffkv", "static"])
def test_bars_are_means_then_shares(config: str) -> None:
    for state, svg in run(config):
        name, words = ("mean", state.means) if state.event == "mean" else ("share", state.shares)
        bars = [box for box in about(svg, "slot") if not box.text]
        for box in bars:
            slot = int(box.about.split()[1].rstrip(":"))
            value = np.uint32(words[slot]).view(np.float32)
            there = name == "share" or slot < state.done
            assert box.about.endswith(f"{name} {value:.4g}" if there else "no mean yet")
            assert f"token {state.position[slot]}," in box.about
            inside = slot < state.n_high and state.n - state.position[slot] < state.window
            section = "pos" if inside else "high" if slot < state.n_high else "low"
            assert box.kind == (section if there else "plain")
        assert 0 <= min(state.n_high + state.n_low, 96) - len(bars) < 16  # the last row may be a short one


@pytest.mark.parametrize("config", ["paper", "diffkv", "static"])
def test_candidates_and_the_victim_are_marked(config: str) -> None:
    choices = set()
    for state, svg in run(config):
        cells = {int(box.text): box.kind for box in about(svg, "slot") if box.text}
        hot = {slot for slot, kind in cells.items() if kind == "hot"}
        least = {slot for slot, kind in cells.items() if kind == "score"}
        if state.event == "mean":
            assert hot == {state.done - 1} and not least
            continue
        found = {slot for slot in state.slots if slot >= 0}
        assert least == found - hot
        if state.event == "argmin":
            assert not hot
            continue
        leaves = set() if state.delta_high else {state.victim}
        if 0 <= state.low_slot < state.n_low:
            leaves.add(state.n_high + state.low_slot)
        assert hot == leaves
        line = next(text for text in texts(svg) if text.startswith(f"{CHOICES[state.choice]}: token {state.n} "))
        assert str(state.victim) in line
        choices.add(CHOICES[state.choice])

    assert len(choices) >= {"paper": 5, "diffkv": 3, "static": 2}[config]


def test_registers_and_description_agree() -> None:
    for state, svg in run("paper"):
        total = np.uint32(state.total).view(np.float32)
        assert [box.text for box in boxes(svg) if box.about == "sum of means"] == [f"{total:.4g}"]
        best = [box.text for box in boxes(svg) if box.about in ("least high", "least low")]
        assert best == ["none" if slot < 0 else f"slot {slot}" for slot in state.slots]
        assert ("no decision yet" in (tree(svg)[1].text or "")) == (state.event != "case")
