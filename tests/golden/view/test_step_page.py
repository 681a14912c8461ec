"""The stepper's page of every unit: all registers of all events read back, and bytes are reproducible."""

from typing import Any

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.view import step_page, trace
from refemu.golden.view.members import flat
from refemu.units.value_text import values_of
from tests.golden.view import reader


def shown(name: str, config: str | None = None, **changed: Any) -> step_page.Shown:
    unit, config = units.choose(name, config)
    kinds: tuple[Any, ...] = ("paper", "edge", "random")
    block = next(block for kind in kinds for block in unit.stimuli(unit.config(config), kind, 0))
    inputs = {port: array[0] if unit.timing == "event" else array[:1] for port, array in block.inputs.items()}
    events = trace.trace(unit, unit.config(config), inputs)
    states, operations, total, _ = trace.cut(events, 0, None, step_page.MOST, lambda state: False)
    given = step_page.Shown(unit, config, inputs, "A case.", block.decision, states, operations, 0, total)
    return given._replace(**changed)


@pytest.mark.parametrize("name", units.names())
def test_page_has_every_register_of_every_event(name: str) -> None:
    given = shown(name)
    written = step_page.written(given)
    data = reader.checked(written.data)
    found = reader.states(data)

    assert len(written.data) <= 5_000_000 and written.events == len(found) == len(given.states)
    for state, got in zip(given.states, found, strict=True):
        assert got["event"] == state.event
        for field, value in vars(state).items():
            if field in ("event", "index") or field not in got:
                assert field in ("event", "index") or all(vars(each)[field] is None for each in given.states)
                continue
            lanes = list(values_of(flat(value)))
            text = " ".join(str(lane) for lane in lanes) or "-"
            assert got[field] in (lanes, [text])


@pytest.mark.parametrize("name", ["orizuru", "page_table"])
def test_drawings_are_those_of_the_states(name: str) -> None:
    given = shown(name)
    data = reader.checked(step_page.written(given).data)
    config = given.unit.config(given.config)

    assert reader.pictures(data) == [given.unit.draw(config, state) for state in given.states]
    assert data["drawings"] == "every event is drawn"
    assert reader.checked(step_page.written(shown("concat")).data)["drawings"] == "no drawing"


def test_equal_events_give_equal_bytes() -> None:
    assert step_page.written(shown("page_table")) == step_page.written(shown("page_table"))


def test_full_page_names_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    given = multiplier()
    decisions = reader.checked(step_page.written(given).data)["decisions"]
    monkeypatch.setattr(step_page, "LIMIT", step_page.SPARE + len(str(decisions)) + 50_000)
    written = step_page.written(given)
    data = reader.checked(written.data)

    assert 0 < written.events < 10_000 and data["total"] == 10_001
    assert [state["acc"] for state in reader.states(data)] == [[state.acc] for state in given.states[: written.events]]

    monkeypatch.setattr(step_page, "LIMIT", step_page.SPARE + len(str(decisions)) + 10)
    with pytest.raises(Refused, match="leave out --html"):
        step_page.written(given)


def test_codes_have_meanings() -> None:
    ports = units.find("ovp_decoder").ports(units.find("ovp_decoder").config("int4"))
    codes = step_page.codes(ports.all)["ovp_int4"]

    assert codes[0x85] == ["O-V, left 0 10 1 = 3 << 4 = 48, right victim", "48,0"]
    assert codes[0x88][1] == "illegal" and codes[0xD5][1] == "5,-3" and len(codes) == 256
    wide = units.find("ovp_decoder").ports(units.find("ovp_decoder").config("int8"))
    assert step_page.codes(wide.all) == {}, "65,536 codes are no table"


def multiplier() -> step_page.Shown:
    """10,001 events of olive_mac with random operands; a page takes 10,000."""
    unit = units.find("olive_mac")
    config = unit.config("wrap")
    chance = np.random.default_rng(0)
    inputs = {
        port.name: chance.integers(max(port.limits[0], -(1 << 20)), min(port.limits[1], 1 << 20), 10_001, endpoint=True)
        for port in unit.ports(config).inputs
    }
    inputs["load"][:] = 1
    events = trace.trace(unit, config, inputs)
    states, operations, total, _ = trace.cut(events, 0, None, step_page.MOST, lambda state: False)
    return step_page.Shown(unit, "wrap", inputs, "", "", states, operations, 0, total)


def test_ten_thousand_events_fit() -> None:
    written = step_page.written(multiplier())

    assert (written.events, written.total) == (10_000, 10_001) and len(written.data) < 5_000_000
