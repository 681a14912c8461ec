"""Offsets of K, groups of V and widths: values and regions are those of the State."""

import numpy as np
import pytest

from refemu import units
from tests.draw.shapes import about
from tests.draw.test_registry import states


def half(word: int) -> str:
    """A word of float16."""
    return f"{float(np.uint16(word).view(np.float16)):.4g}"


@pytest.mark.parametrize("config", ["small", "head"])
def test_offsets_and_choices_are_drawn(config: str) -> None:
    unit, chosen = units.find("k_offset"), 0
    for state in states("k_offset", config):
        svg = unit.draw(unit.config(config), state)
        for channel, box in enumerate(about(svg, "offset of channel")):
            assert box.about == f"offset of channel {channel}: {half(state.offset[channel])}"
            assert (box.kind == "hot") == bool(state.selected[channel])
            chosen += box.kind == "hot"
        for channel, box in enumerate(about(svg, "key of channel")):
            assert box.about == f"key of channel {channel}: {half(state.k_out[channel])}"

    assert chosen


def test_codes_of_open_group_are_drawn() -> None:
    unit, seen = units.find("v_grouper"), set()
    for state in states("v_grouper", "paper"):
        svg = unit.draw(unit.config("paper"), state)
        channels = len(state.exponent)
        for box in about(svg, "token"):
            token, channel = (int(each.split()[-1]) for each in box.about.partition(":")[0].split(","))
            place = token * channels + channel
            code = ("-" if state.sign[place] else "") + str(state.mantissa[place])
            assert box.text == (code if token < state.count else "")
            seen.add(box.kind)
        assert [box.text for box in about(svg, "exponent")] == [str(each) for each in state.exponent]

    assert {"hot", "mantissa", "empty"} <= seen


def test_low_tokens_and_groups_are_drawn() -> None:
    unit, fallen = units.find("bit_allocator"), set()
    for config in unit.configs:
        for state in states("bit_allocator", config):
            svg = unit.draw(unit.config(config), state)
            for name, low in (("K, tokens", state.low_tokens), ("V, groups", state.low_groups)):
                drawn = [box.about for box in about(svg, f"{name} with low")]
                assert drawn == ([f"{name} with low bits: {low}"] if low else [])
            assert about(svg, "K: ")[0].text == (f"token {state.k_token} falls" if state.demote_k else "none falls")
            assert about(svg, "V: ")[0].text == (f"group {state.v_group} falls" if state.demote_v else "none falls")
            fallen |= {("K", state.demote_k), ("V", state.demote_v)}

    assert ("K", 1) in fallen
