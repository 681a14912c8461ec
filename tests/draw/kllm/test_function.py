"""The function unit: the table so far, the event's entry, outliers."""

import numpy as np
import pytest

from refemu import units
from tests.draw.shapes import about, boxes, texts, tree
from tests.draw.test_registry import states

UNIT = units.find("index_function")


def shown(word: int) -> str:
    return f"{np.uint16(word).view(np.float16):.4g}"


@pytest.mark.parametrize("config", UNIT.configs)
def test_entries_and_outliers_are_the_registers(config: str) -> None:
    seen = set()
    for state in states("index_function", config):
        svg = UNIT.draw(UNIT.config(config), state)
        size = len(state.codebook)
        outliers, values = (np.atleast_1d(part).tolist() for part in (state.outlier, state.value))
        for name, arguments, results, at in (
            ("centroid", state.codebook, state.entries, state.phase),
            ("outlier", outliers, values, state.phase - size),
        ):
            given = {box.about for box in about(svg, f"{name} ")}
            assert given <= {f"{name} {place}: {shown(word)}" for place, word in enumerate(arguments)}
            assert len(given) == min(len(arguments), 32)
            for box in about(svg, f"f of {name}"):
                place = int(box.about.split()[3].rstrip(":"))
                there = place <= at
                assert box.about.endswith(f": {shown(results[place]) if there else 'still to come'}")
                assert box.kind == ("hot" if place == at else "mantissa" if there else "empty")
        hot = [box.about for box in boxes(svg) if box.kind == "hot" and box.about]
        assert len(hot) == 1 and hot[0].startswith(f"f of {state.event}")
        assert any(text.startswith(f"{state.event} ") for text in texts(svg))
        seen.add(state.event)

    assert "centroid" in seen


def test_description_names_entries_and_outliers() -> None:
    config = next(iter(UNIT.configs))
    state = states("index_function", config)[3]
    words = tree(UNIT.draw(UNIT.config(config), state))[1].text or ""

    assert f"table {', '.join(shown(word) for word in state.entries[: state.phase + 1])}" in words
