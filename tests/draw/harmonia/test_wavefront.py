"""The clocked array: slots, waiting operands and accumulators are those of the registers."""

import dataclasses

import numpy as np
import pytest

from refemu import units
from tests.draw.shapes import about
from tests.draw.test_registry import states

UNIT = units.find("bfp_pe_array_clocked")


@pytest.mark.parametrize("config", UNIT.configs)
def test_every_column_and_accumulator_is_drawn(config: str) -> None:
    seen = set()
    for state in states("bfp_pe_array_clocked", config):
        svg = UNIT.draw(UNIT.config(config), state)
        rows, columns = len(state.valid), len(state.left)
        cells = about(svg, "row")
        wanted = [
            np.uint32(state.sums[row * columns + column]).view(np.float32)
            for column in range(columns)
            for row in range(rows)
        ]
        assert [box.about.partition("accumulator ")[2].partition(",")[0] for box in cells] == [
            f"{value:.4g}" for value in wanted
        ]
        for column in range(columns):
            slots, waits = about(svg, f"column {column}: ")[0], about(svg, f"column {column} waits")[0]
            assert slots.text == str(state.left[column])
            assert (slots.kind == "hot") == bool(state.left[column] or state.sub_pes[column])
            assert ("A" in waits.text, "B" in waits.text) == (
                bool(state.waiting[column]),
                bool(state.b_waiting[column]),
            )
            seen |= {"waits"} if waits.text else set()
        out = {box.about.split(":")[0] for box in cells if box.kind == "low"}
        assert out == {f"row {row}, column {state.col}" for row in range(rows) if state.valid[row]}
        seen |= {box.kind for box in cells}

    assert "hot" in seen


def test_sums_of_eight_rows_keep_their_exponents() -> None:
    config = UNIT.config("rows=8,columns=16,partial=fp16,product=fp32,activity=by_slot")
    values = np.array([(-1) ** place * 1.2345 * 10.0 ** (place % 40 - 20) for place in range(128)], np.float32)
    state = dataclasses.replace(UNIT.unit_class(**config).state, sums=tuple(values.view(np.uint32).tolist()))
    for box in about(UNIT.draw(config, state), "row"):
        value = float(box.about.partition("accumulator ")[2].partition(",")[0])
        assert float(box.text) == pytest.approx(value, rel=0.2)


def test_columns_begin_one_after_the_other() -> None:
    config = UNIT.config("columns")
    inputs = next(iter(UNIT.stimuli(config, "random", 0))).inputs
    first: dict[int, int] = {}
    for state in UNIT.trace(config, {port: array[0] for port, array in inputs.items()}):
        svg = UNIT.draw(config, state)
        for column, box in enumerate(about(svg, "column")[::2]):
            if box.kind == "hot":
                first.setdefault(column, state.index)
        if len(first) > 3:
            break

    begun = [first[column] for column in sorted(first)]
    assert (
        len(first) > 3
        and sorted(first) == list(range(len(first)))
        and begun == sorted(begun)
        and len(set(begun)) == len(begun)
    )
