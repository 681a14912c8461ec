"""The prompt compressor: order, shares, classes and the compared pair are those of the registers."""

from typing import Any

import numpy as np
import pytest

from refemu.draw.leankv.prompt import CLASSES, KINDS, compared
from refemu.units import prompt_compressor
from tests.draw.shapes import Box, about, boxes, tree


def run(config: str, seed: int = 5) -> list[tuple[Any, str]]:
    """States of one prompt of uneven shares, some of them equal, and their drawings."""
    unit, chosen = prompt_compressor.UNIT, prompt_compressor.UNIT.config(config)
    device = unit.unit_class(**chosen)
    shares = np.random.default_rng(seed).integers(0, 9, device.tokens).astype(np.float32) / np.float32(64)
    thresholds = np.array([0.25, 0.75], np.float32)
    states = [device.step(shares.view(np.uint32).tolist(), 3, thresholds.view(np.uint32).tolist())]
    while device.busy:
        states.append(device.step())
    return [(state, unit.draw(chosen, state)) for state in states]


def cells(svg: str) -> list[Box]:
    return [box for box in about(svg, "place") if box.text]


@pytest.mark.parametrize("config", ["paper", "odd", "diffkv", "odd_diffkv", "static"])
def test_bars_are_in_order_of_the_sort(config: str) -> None:
    for state, svg in run(config):
        tokens = len(state.cls)
        assert [box.text for box in cells(svg)] == [str(t) if t < tokens else "·" for t in state.sorted]
        for token, box in zip(state.sorted, cells(svg), strict=True):
            if token < tokens - state.window:
                share = np.uint32(state.share[token]).view(np.float32)
                assert f"token {token}, share {share:.4g}," in box.about
            elif token < tokens:
                assert f"token {token}, in the window" in box.about


@pytest.mark.parametrize("config", ["paper", "diffkv", "static"])
def test_token_has_the_colour_of_its_class(config: str) -> None:
    seen = set()
    for state, svg in run(config):
        bars = [box for box in about(svg, "place") if not box.text]
        for rank, (token, bar) in enumerate(zip(state.sorted, bars, strict=True)):
            if rank < state.rank:
                assert bar.kind == KINDS[state.cls[token]] and bar.about.endswith(CLASSES[state.cls[token]])
                seen.add(bar.kind)
            elif token < len(state.cls) - state.window:
                assert bar.kind == "plain"
        counts = [box.text for box in boxes(svg) if box.about in ("pruned", "low", "high")]
        assert counts == [str(state.n_pruned), str(state.n_low), str(state.n_high)]

    assert {"high", "pos"} < seen


@pytest.mark.parametrize("config", ["diffkv", "odd_diffkv"])
def test_the_pair_just_compared_is_marked(config: str) -> None:
    """Only the pair changes in `sorted`, and it is in order: the larger share right if ascending."""
    exchanged, before = 0, None
    for state, svg in run(config):
        hot = [place for place, box in enumerate(cells(svg)) if box.kind == "hot"]
        if state.event == "compare_exchange":
            size, distance, lower = compared(state)
            assert hot == [lower, lower + distance]
            keys = [state.keys[state.sorted[place]] for place in hot]
            assert keys == sorted(keys, reverse=bool(lower & size))
            if before is not None:
                moved = {place for place in range(len(state.keys)) if state.sorted[place] != before.sorted[place]}
                assert moved in (set(), set(hot))
                exchanged += bool(moved)
                assert (size, distance, lower) == (before.size, before.distance, before.lower)
            before = state
        elif state.event == "classify":
            assert [state.sorted[place] for place in hot] == [state.order[state.rank - 1]]

    assert exchanged > 5


def test_stage_of_the_network_is_marked() -> None:
    stages = [(2, 1), (4, 2), (4, 1), (8, 4), (8, 2), (8, 1), (16, 8), (16, 4), (16, 2), (16, 1)]
    for state, svg in run("diffkv"):
        shown = about(svg, "stage")
        assert [box.about for box in shown] == [f"stage: blocks of {size}, distance {near}" for size, near in stages]
        hot = [stage for stage, box in zip(stages, shown, strict=True) if box.kind == "hot"]
        assert hot == ([compared(state)[:2]] if state.event == "compare_exchange" else [])


def test_description_names_classes_and_order() -> None:
    state, svg = run("paper")[-1]
    words = tree(svg)[1].text or ""

    assert f"{state.n_pruned} pruned, {state.n_low} low, {state.n_high} high" in words
    assert f"Order: token {state.order[0]} " in words and "thresholds 0.25 and 0.75" in words
    assert "no prompt yet" in prompt_compressor.UNIT.draw({"tokens": 4}, prompt_compressor.PromptCompressor(4).state)
