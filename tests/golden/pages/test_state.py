"""Fields of a State other than its ports, and their meanings."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from refemu import units
from refemu.golden.pages import state
from refemu.units.unit import AnyUnit

STEPS = 100  #: of every case that is stepped
SLOW = ("layer_step", "page_manager")  #: their cases take seconds
#: words that lean on another field, and so say nothing in a table of one unit's fields
LEANING = re.compile(r"\b(likewise|the following|like the|the same (as|for|of|with))\b|^(of|and|those|also) ")


def test_fields_have_kinds_and_totals() -> None:
    table = state.of_unit("page_manager")
    assert table["event"].kind == "event" and table["slots"].kind == "inner" and table["slots"].total == ""
    assert (table["allocated"].kind, table["allocated"].total) == ("counter", "sum")
    assert table["step_pages"].total == "largest"
    assert not set(table) & {port.name for port in units.find("page_manager").ready_ports[0].all}


def test_field_that_is_sometimes_a_port() -> None:
    unit = units.find("fp16_mac")
    assert "rm" in state.of_unit("fp16_mac")
    for name, config in unit.configs.items():
        shown = {field.name for field in state.of_config(unit, config)}
        assert not shown & {port.name for port in unit.ports(config).all}, name


def test_row_is_described() -> None:
    assert state.timing(units.find("orizuru")).startswith("combinational: a row is one call")
    assert state.timing(units.find("orizuru_clocked")).startswith("event: a row is one step")


def test_every_field_has_a_complete_meaning() -> None:
    fields = [(unit, *item) for unit in units.names() for item in state.of_unit(unit).items()]
    for unit, key, field in fields:
        others = set(re.findall(r"\w+", field.meaning.lower())) - set(key.split("_"))
        assert others, f"{unit}.{key}: a comment #: that says more than its name is needed, got {field.meaning!r}"
        assert not LEANING.search(field.meaning), f"{unit}.{key}: {field.meaning!r} is not understood alone"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in SLOW)) for name in units.names()]
)
def test_the_comment_of_the_event_names_every_event(name: str) -> None:
    unit = units.find(name)
    meaning = state.of_unit(name)["event"].meaning
    seen = {word for each in _states(unit) for word in each.event.split()}
    assert len(seen) > 1
    assert {event for event in seen if f'"{event}"' not in meaning} == set()


def _states(unit: AnyUnit) -> Iterator[Any]:
    """States at reset, and in cases of the paper of every configuration and edge cases of the first."""
    first = next(iter(unit.configs))
    for name, config in unit.configs.items():
        yield unit.unit_class(**config).state
        for kind in ("paper", "edge") if name == first else ("paper",):
            for block in unit.cases(config, kind, 0):  # type: ignore[arg-type]  # both are kinds
                case = 0 if unit.timing == "event" else slice(0, 1)
                yield from islice(
                    unit.trace(config, {port: array[case] for port, array in block.inputs.items()}), STEPS
                )
