"""The multiply-accumulate unit: bits of every word, their values and flags."""

import numpy as np
import pytest

from refemu import units
from tests.draw.shapes import boxes, texts
from tests.draw.test_registry import states

UNIT = units.find("fp16_mac")
ORDER = ("a", "b", "product", "acc", "y")
FLAGS = {"NV": 16, "DZ": 8, "OF": 4, "UF": 2, "NX": 1}


@pytest.mark.parametrize("config", UNIT.configs)
def test_words_are_drawn_bit_by_bit(config: str) -> None:
    for state in states("fp16_mac", config):
        svg = UNIT.draw(UNIT.config(config), state)
        bits = [box for box in boxes(svg) if box.text]
        for place, name in enumerate(ORDER):
            word = bits[16 * place : 16 * place + 16]
            assert "".join(box.text for box in word) == f"{getattr(state, name):016b}"
            assert [box.kind for box in word] == ["sign"] + ["exponent"] * 5 + ["mantissa"] * 10
            value = np.uint16(getattr(state, name)).view(np.float16)
            shown = "a * b rounded" if name == "product" else name
            assert f"{shown} = {value:.4g}" in texts(svg)


def test_flags_are_named() -> None:
    config = {"rounding": "fp16", "ieee_flags": True}
    device = UNIT.unit_class(**config)
    raised = set()
    for a, b, acc in ((0x7C00, 0, 0x3C00), (0x7BFF, 0x7BFF, 0), (0x0001, 0x3555, 0), (0x3C00, 0x3C00, 0x3C00)):
        state = device.step(a, b, acc)
        line = next(text for text in texts(UNIT.draw(config, state)) if text.startswith("flags: "))
        names = set(line.removeprefix("flags: ").split()) - {"none"}
        assert state.fflags == sum(FLAGS[name] for name in names)
        raised |= names

    assert {"NV", "OF", "NX"} <= raised
