"""Paged attention: pages, and a bar for every token."""

import numpy as np

from refemu.units import paged_attention
from tests.draw.shapes import SVG, about, tree
from tests.draw.test_registry import states


def test_bars_are_the_values_of_the_stage() -> None:
    unit = paged_attention.UNIT
    config = unit.config("paper")
    seen = set()
    for state in states("paged_attention", "paper"):
        svg = unit.draw(config, state)
        name = {"key_page": "logits", "reset": "logits", "score": "p"}.get(state.event, "chances")
        lanes = len(state.score)
        count = state.n_high + state.n_low
        words = np.array(getattr(state, name), np.uint32).view(np.float32).reshape(-1, lanes)[:, :count].ravel()
        bars = about(svg, "token")
        assert [float(box.about.partition(": ")[2]) for box in bars] == [float(f"{word:.6g}") for word in words]
        assert [box.kind for box in bars[:count]] == ["high"] * state.n_high + ["low"] * state.n_low
        seen.add(state.event)

    assert {"key_page", "softmax", "value_page", "score"} <= seen


def test_heights_follow_the_values() -> None:
    state = next(each for each in states("paged_attention", "paper") if each.event == "softmax")
    svg = paged_attention.UNIT.draw(paged_attention.UNIT.config("paper"), state)
    bars = [each for each in tree(svg).iter(f"{SVG}rect") if (each.findtext(f"{SVG}title") or "").startswith("token")]
    heights = [float(each.get("height", 0)) for each in bars[: state.n_high + state.n_low]]
    values = [float((each.findtext(f"{SVG}title") or "").partition(": ")[2]) for each in bars[: len(heights)]]

    assert np.argmax(heights) == np.argmax(values) and max(heights) == 52


def test_the_page_just_read_is_marked() -> None:
    for state in states("paged_attention", "paper"):
        cells = about(paged_attention.UNIT.draw(paged_attention.UNIT.config("paper"), state), "cell")
        hot = [box.text for box in cells if box.kind == "hot"]
        assert len(hot) == (state.event in ("key_page", "value_page"))
        assert [box.text for box in cells if box.text != "·"] <= [f"page {page}" for page in state.entry]
