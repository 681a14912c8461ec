"""The dot product unit: elements, products, terms and sums are those of the registers."""

from collections.abc import Iterator
from typing import Any

import pytest

from refemu import units
from refemu.draw.olive.dot import EVENTS, short
from refemu.units.olive.olive_edp.olive_edp import terms
from tests.draw.shapes import about, boxes, texts, tree

UNITS = [("olive_edp", "int4_flint4"), ("olive_edp", "int8_int8"), ("olive_edp_clocked", "int4_flint4")]


def run(name: str, config: str) -> Iterator[tuple[Any, int, str]]:
    """States with the last event of their operation, and their drawings."""
    unit = units.find(name)
    chosen = unit.config(config)
    for kind in ("paper", "edge", "random"):
        for cases in list(unit.stimuli(chosen, kind, 0))[:3]:
            stage = -1
            only = slice(0, 3) if unit.timing != "event" else 0
            for state in unit.trace(chosen, {port: array[only] for port, array in cases.inputs.items()}):
                stage = EVENTS.index(state.event) if state.event in EVENTS else stage
                yield state, stage, unit.draw(chosen, state)


def cells(svg: str, name: str) -> list[tuple[str, str]]:
    """Kind and exact value of a column, element by element."""
    boxes = [box for box in about(svg, "element") if box.about.split(",")[1].startswith(f" {name}:")]
    assert [int(box.about.split()[1].rstrip(",")) for box in boxes] == list(range(len(boxes)))
    return [(box.kind, box.about.partition(": ")[2]) for box in boxes]


@pytest.mark.parametrize(("name", "config"), UNITS)
def test_rows_are_the_registers(name: str, config: str) -> None:
    seen = set()
    for state, stage, svg in run(name, config):
        for column, kind, since, values in (
            ("a", "code", 0, list(map("{}<<{}".format, state.a_int, state.a_exponent))),
            ("b", "code", 0, list(map("{}<<{}".format, state.b_int, state.b_exponent))),
            ("product", "mantissa", 1, list(map(str, state.products))),
            ("shift", "exponent", 1, list(map(str, state.shifts))),
            ("term", "score", 2, list(map(str, terms(state)))),
        ):
            assert cells(svg, column) == [(kind if stage >= since else "gone", value) for value in values]
            seen |= {column} if len(set(values)) > 2 else set()

    assert {"a", "b", "product", "term"} <= seen


@pytest.mark.parametrize(("name", "config"), UNITS)
def test_the_tree_adds_the_terms(name: str, config: str) -> None:
    finished = 0
    for state, stage, svg in run(name, config):
        sums = about(svg, "level")
        if stage < 3:
            assert {(box.kind, box.text) for box in sums} == {("empty", "")}
            continue
        level, at = list(terms(state)), 0
        while len(level) > 1:
            level = [left + right for left, right in zip(level[::2], level[1::2], strict=True)]
            exact = [box.about.partition(": ")[2] for box in sums[at : at + len(level)]]
            assert exact == [str(value) for value in level]
            at += len(level)
        total = level[0] + (state.c_held if name.endswith("clocked") else state.c)
        shown = next(box for box in boxes(svg) if box.about.startswith("= d"))
        assert shown.text == str(state.d) and (state.overflow or state.d == total)
        assert shown.kind == ("bad" if state.overflow else "hot" if state.event == "reduce" else "free")
        finished += 1

    assert finished > 2


@pytest.mark.parametrize(("name", "config"), UNITS)
def test_the_event_is_marked(name: str, config: str) -> None:
    for state, _, svg in run(name, config):
        hot = [box.text for box in about(svg, "event") if box.kind == "hot"]
        assert hot == ([state.event] if state.event in EVENTS else [])


def test_before_first_operation_nothing_is_drawn() -> None:
    unit = units.find("olive_edp")
    config = unit.config("int4_int4")
    svg = unit.draw(config, unit.unit_class(**config).state)

    assert tree(svg)[1].text == "no operation yet" and texts(svg)[0] == "reset"


def test_long_integers_are_powers_of_ten() -> None:
    assert (short(-1234, 70), short(-12345678901234, 50), short(1 << 40, 36)) == ("-1234", "-1.2e13", "1e12")
    assert short((1 << 60) + 1, 150) == str((1 << 60) + 1)  # in full, not through a float
