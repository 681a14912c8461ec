"""The index counter: one-hot rows, sums and registers."""

from typing import Any

import numpy as np

from refemu.units import index_counter
from tests.draw.shapes import about, boxes, texts


def state_of(bits: int, indices: list[int]) -> tuple[index_counter.State, Any]:
    config = index_counter.UNIT.config(f"bits={bits},lanes=4")
    device = index_counter.IndexCounter(**config)
    q = np.array([indices + [0] * (4 - len(indices))])
    *_, state = device.steps(clear=[1], q=q, valid=[[1] * len(indices) + [0] * (4 - len(indices))])
    return state, config


def test_rows_sums_and_counts_are_the_registers() -> None:
    state, config = state_of(2, [3, 1, 3])
    svg = index_counter.UNIT.draw(config, state)
    rows = [box for box in boxes(svg) if not box.about][:16]

    assert [box.kind == "hot" for box in rows] == [
        word >> index & 1 == 1 for word in state.one_hot for index in range(4)
    ]
    assert [box.kind for box in rows[12:]] == ["gone"] * 4
    assert [box.text for box in about(svg, "sum")] == ["0", "1", "0", "2"]
    assert [box.text for box in about(svg, "count")] == [str(count) for count in state.count]


def test_many_counters_show_those_above_zero() -> None:
    state, config = state_of(8, [200, 7, 200])
    svg = index_counter.UNIT.draw(config, state)

    assert [(box.text, box.kind) for box in about(svg, "index")] == [("1", "hot"), ("2", "hot")]
    assert "254 of 256 registers are 0" in texts(svg)
