"""Drawings of units: every event of a case of the paper, in every configuration."""

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from refemu import draw, formats, units
from refemu.arith.checks import Refused
from refemu.draw import registry
from refemu.draw.svg import FONT, SMALL, letters
from refemu.units import orizuru
from refemu.units.ports import Ports
from tests.draw.shapes import SVG, tree

EVENTS = 12  #: of a case that are drawn
CONFIGS = [(name, config) for name in registry.UNITS for config in units.find(name).configs]


def states(name: str, config: str) -> list[Any]:
    unit = units.find(name)
    kinds: tuple[Any, ...] = ("paper", "edge", "random")
    cases = next(block for kind in kinds for block in unit.stimuli(unit.config(config), kind, 0))
    held = {port: array[0] if unit.timing == "event" else array[:1] for port, array in cases.inputs.items()}
    every = list(unit.trace(unit.config(config), held))
    return every[:: max(1, len(every) // EVENTS)]


def cut(svg: str) -> list[str]:
    """Texts that the edge of the drawing cuts, by the width of the fixed font."""
    root, cut = tree(svg), []
    for each in root.iter(f"{SVG}text"):
        text = each.text or ""
        wide = letters(text, SMALL if "small" in each.get("class", "") else FONT)
        left = float(each.get("x", 0)) - {"middle": wide / 2, "end": wide}.get(each.get("text-anchor", ""), 0.0)
        if left < 0 or left + wide > float(root.get("width", 0)):
            cut.append(text)
    return cut


@pytest.mark.parametrize(("name", "config"), CONFIGS)
def test_every_configuration_is_drawn(name: str, config: str) -> None:
    unit = units.find(name)
    for state in states(name, config):
        svg = unit.draw(unit.config(config), state)
        assert svg == draw.state(unit, config, state)  # the same bytes again
        if svg or name not in ("ovp_decoder", "ovp_encoder"):  # of formats without a name there is none
            root = tree(svg)
            assert float(root.get("width", 0)) <= 480
            assert len(svg) < 100_000
            assert cut(svg) == []


def test_ready_pairs_are_drawn() -> None:
    for config in ("int4", "flint4", "int8"):
        assert units.find("ovp_decoder").draw(
            units.find("ovp_decoder").config(config), states("ovp_decoder", config)[0]
        )


def test_a_unit_without_a_drawing_has_none() -> None:
    unit = units.find("concat")
    device = unit.unit_class(**next(iter(unit.configs.values())))

    assert unit.draw(next(iter(unit.configs.values())), device.snapshot()) == ""
    assert registry.of(unit) is None


def own(ports: Ports, state: Any) -> str:
    """A drawing of a unit outside refemu."""
    return f"<svg>{state.event} {len(ports.inputs)}</svg>"


def test_unit_outside_refemu_has_its_own_drawing() -> None:
    unit = dataclasses.replace(orizuru.UNIT, drawing=f"{__name__}:own")
    try:
        assert unit.draw({"n": 8, "k": 2}, orizuru.Orizuru(8, 2).state) == "<svg>reset 1</svg>"
    finally:
        dataclasses.replace(orizuru.UNIT)  # the class shows its states by the last descriptor made


def test_unknown_configuration_is_rejected() -> None:
    with pytest.raises(Refused, match="n9"):
        draw.state(orizuru.UNIT, "n9", orizuru.Orizuru(8, 2).state)


def test_tensors_draw_their_first_group() -> None:
    pairs = formats.OVP_INT4.encode(np.array([48.0, 0, 5, -3]))._repr_html_()
    group = formats.BFP8.encode(np.linspace(-1, 1, 64, dtype=np.float16))._repr_html_()

    assert "left 0 10 1 = 3 &lt;&lt; 4 = 48" in pairs and "right 1101 = -3" in pairs
    assert "exponent 15" in group and "-1</text>" in group


def test_import_of_refemu_loads_no_drawing() -> None:
    code = (
        "import sys, refemu; from refemu.units import orizuru; from refemu.formats import OVP_INT4;"
        "print([name for name in sys.modules if name.startswith('refemu.draw')])"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
