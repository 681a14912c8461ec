"""The PE and the array: register files, sums and accumulators are those of the state."""

import numpy as np

from refemu.units import bfp_pe, bfp_pe_array
from tests.draw.shapes import about, boxes, texts
from tests.draw.test_registry import states


def test_the_pe_shows_its_registers() -> None:
    seen = set()
    for config in bfp_pe.UNIT.configs:
        for state in states("bfp_pe", config):
            svg = bfp_pe.UNIT.draw(bfp_pe.UNIT.config(config), state)
            values = [box.text for box in boxes(svg) if box.text]
            current = [-m if s else m for s, m in zip(state.current_sign, state.current_mag, strict=True)]
            assert values[34:66] == [str(value) for value in current]
            assert [box.text for box in about(svg, "wrapper")] == [str(value) for value in state.latched]
            assert values[-2] == f"{np.uint32(state.value).view(np.float32):.4g}"
            assert values[-1] == f"{np.uint32(state.acc).view(np.float32):.4g}"
            seen |= {state.event} if any(box.kind == "hot" and box.text for box in boxes(svg)) else set()

    assert {"psum", "scale", "accumulate"} <= seen


def test_the_array_shows_every_accumulator() -> None:
    for state in states(
        "bfp_pe_array", "paper" if "paper" in bfp_pe_array.UNIT.configs else next(iter(bfp_pe_array.UNIT.configs))
    ):
        config = next(iter(bfp_pe_array.UNIT.configs.values()))
        svg = bfp_pe_array.UNIT.draw(config, state)
        cells = about(svg, "row")
        sums = [
            np.uint32(state.pes[row * 16 + column].acc).view(np.float32) for column in range(16) for row in range(8)
        ]
        assert [box.about.split()[-1] for box in cells] == [f"{value:.4g}" for value in sums]
        busy = [column for column, work in enumerate(state.work) if work.group >= 0]
        hot = {int(box.about.split("column ")[1].partition(":")[0]) for box in cells if box.kind == "hot"}
        assert hot <= set(busy)
        assert f"columns at work: {' '.join(map(str, busy)) or 'none'};" in svg.replace(", ", " ")
        assert f"cycle {state.cycle}: {state.event}" in " ".join(texts(svg))
