"""The KV quantizer: features, codes and the registers of the step."""

from typing import Any

import numpy as np
import pytest

from refemu import units
from tests.draw.shapes import about, boxes, texts

UNIT = units.find("kv_quantizer")
X = np.linspace(-2, 3, 32).astype(np.float16)


def run(bits: int, x: np.ndarray = X, config: str = "paper") -> list[tuple[Any, str]]:
    chosen = UNIT.config(config)
    device = UNIT.unit_class(**chosen)
    states = [device.step(x.view(np.uint16).tolist(), bits)]
    while device.busy:
        states.append(device.step())
    return [(state, UNIT.draw(chosen, state)) for state in states]


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_codes_are_those_of_the_words(bits: int) -> None:
    for state, svg in run(bits):
        codes = about(svg, "code")
        packed = 16 // bits
        for place, box in enumerate(codes):
            if place < packed * state.written:
                word = state.words[place // packed]
                assert int(box.text) == word >> place % packed * bits & (1 << bits) - 1
            else:
                assert (box.kind, box.text) == ("empty", "")
        hot = [place for place, box in enumerate(codes) if box.kind == "hot"]
        assert hot == (
            list(range(packed * (state.written - 1), packed * state.written)) if state.event == "word" else []
        )

    assert [int(box.text) for box in codes] == [round(place / 31 * ((1 << bits) - 1)) for place in range(32)]


def test_features_and_range_are_the_registers() -> None:
    for state, svg in run(4):
        features = about(svg, "feature")
        assert [box.about.partition(": ")[2] for box in features] == [f"{value:.4g}" for value in X]
        known = [box.kind for box in features]
        if state.event == "minmax":
            wanted = ["key"] * (state.element - 1) + ["hot"] + ["plain"] * (32 - state.element)
        else:
            wanted = ["key"] * 32
        assert known == wanted
        named = {box.about: box.text for box in boxes(svg)}
        assert named["smallest"] == f"{np.uint32(state.mn).view(np.float32):.4g}"
        assert named["largest"] == f"{np.uint32(state.mx).view(np.float32):.4g}"
        assert named["stored step"] == f"{np.uint16(state.scale).view(np.float16):.4g}"


def test_status_is_named() -> None:
    state, svg = run(2, np.full(32, 1.5, np.float16))[-1]

    assert state.status == 8 and "status: constant group" in texts(svg)
    assert {box.kind for box in boxes(svg) if box.about == "step"} == {"bad"}
