"""Prefix sums: levels are sums of more and more counts, the last one the register's."""

import dataclasses

import pytest

from refemu import units
from tests.draw.shapes import SVG, about, texts, tree

UNIT = units.find("prefix_sum")


@pytest.mark.parametrize("elements", [1, 8, 13, 20])
def test_level_k_sums_2_to_the_k_counts(elements: int) -> None:
    config = UNIT.config(f"elements={elements}")
    device = UNIT.unit_class(**config)
    counts = [(7 * place * place + 3) % 23 for place in range(elements)]
    states = [device.step(counts, 100)]
    while device.busy:
        states.append(device.step())
    loaded = [counts[0] + 100, *counts[1:]]
    for state in states:
        svg = UNIT.draw(config, state)
        assert tree(svg) is not None
        for box in about(svg, "level"):
            level, element = (int(word.rstrip(",:")) for word in box.about.split()[1:4:2])
            if level > state.level:
                assert box.kind == "empty" and box.text == ""
                continue
            first = max(element + 1 - (1 << level), 0)
            assert box.text == box.about.rpartition(" ")[2] == str(sum(loaded[first : element + 1]))
            if level == state.level:
                assert box.kind == "hot" and int(box.text) == states[level].inclusive[element]
        lines = len(list(tree(svg).iter(f"{SVG}line")))
        shown = min(elements, 16)
        reaches = [1 << level for level in range((elements - 1).bit_length())]
        assert lines == sum(shown + max(shown - reach, 0) for reach in reaches)
    assert ("the first 16 of 20 elements" in texts(svg)) == (elements == 20)


def test_a_wrong_sum_in_the_register_is_shown() -> None:
    """The row of the event is the register, not what it should be."""
    config = UNIT.config("elements=8")
    device = UNIT.unit_class(**config)
    device.step([1] * 8, 0)
    state = device.step()
    wrong = dataclasses.replace(state, inclusive=(9, *state.inclusive[1:]))

    assert [box.text for box in about(UNIT.draw(config, wrong), "level 1, element 0")] == ["9"]
