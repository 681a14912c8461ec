"""The Clustering Unit: marks at the places of their values, and a table of what was compared."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refemu import units
from tests.draw.shapes import SVG, about, boxes, tree

UNIT = units.find("clustering")
CONFIGS = ["paper", "exact", "paper_3", "bits=2,preset=exact,lanes=1"]


def half(word: int) -> float:
    return float(np.uint16(word).view(np.float16))


def run(config: str) -> Iterator[tuple[Any, str]]:
    chosen = UNIT.config(config)
    for kind in ("paper", "edge", "random"):
        for cases in UNIT.stimuli(chosen, kind, 0):
            inputs = {port: array[:12] for port, array in cases.inputs.items()}
            for state in UNIT.trace(chosen, inputs):
                yield state, UNIT.draw(chosen, state)


def places(svg: str, begin: str) -> list[float]:
    """Middles of the marks whose text has this beginning."""
    marks = [each for each in tree(svg).iter(f"{SVG}rect") if (each.findtext(f"{SVG}title") or "").startswith(begin)]
    return [float(each.get("x", 0)) + float(each.get("width", 0)) / 2 for each in marks]


@pytest.mark.parametrize("config", CONFIGS)
def test_value_is_between_midpoints_of_its_index(config: str) -> None:
    inside = 0
    for state, svg in run(config):
        (value,), centroids, midpoints = (places(svg, name) for name in ("value ", "centroid ", "midpoint of"))
        assert centroids == sorted(centroids) and len(centroids) == len(state.codebook)
        words = [half(word) for word in state.codebook]
        if words[0] == words[-1]:
            continue
        span, far = words[-1] - words[0], centroids[-1] - centroids[0]
        for place, word in zip(centroids, words, strict=True):
            assert place - centroids[0] == pytest.approx((word - words[0]) / span * far, abs=0.2)
        tie = config.startswith("paper") and state.compared.count(min(state.compared)) > 1
        if tie or not np.isfinite(half(state.x_hat)):  # far away all distances round to one number
            continue
        if state.index and words[state.index - 1] < words[state.index]:
            assert value >= midpoints[state.index - 1] - 0.2
            inside += 1
        if state.index < len(midpoints):
            following = [at for at in range(state.index + 1, len(words)) if words[at] > words[state.index]]
            assert not following or value <= midpoints[following[0] - 1] + 0.2

    assert inside


@pytest.mark.parametrize("config", CONFIGS)
def test_the_table_has_what_was_compared(config: str) -> None:
    for state, svg in run(config):
        table = about(svg, "entry")
        assert [box.about.partition(": ")[2] for box in table] == [f"{half(word):.4g}" for word in state.codebook]
        assert [place for place, box in enumerate(table) if box.kind == "hot"] == [state.index]
        if config.startswith("paper"):
            shown = [box.about.partition(": ")[2] for box in about(svg, "distance to")]
            assert shown == [f"{half(word):.4g}" for word in state.compared]
        else:
            shown = [box.about.partition(": ")[2] for box in about(svg, "midpoint after")]
            assert shown == [f"{'' if below else 'not '}below the value" for below in state.compared]
        assert [box.text for box in boxes(svg) if box.about == "index"] == [str(state.index)]


def test_undivided_value_is_compared_with_scaled_midpoints() -> None:
    """With normalize="none" the unit compares x with s * (c_i + c_j) / 2."""
    config = UNIT.config("bits=2,preset=exact,lanes=1")
    words = np.array([-1, 0, 1, 2], np.float16).view(np.uint16).tolist()
    device = UNIT.unit_class(**config)
    state = device.step(int(np.float16(3.5).view(np.uint16)), int(np.float16(2).view(np.uint16)), words)
    svg = UNIT.draw(config, state)

    assert state.index == 3 and half(state.x_hat) == 3.5
    assert [float(box.about.partition(": ")[2]) for box in about(svg, "midpoint of")] == [-1, 1, 3]
    assert places(svg, "midpoint of")[2] < places(svg, "value ")[0] < places(svg, "centroid 3")[0]
