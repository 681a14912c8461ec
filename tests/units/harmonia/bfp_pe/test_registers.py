"""State of the PE: fields by ports, and copies with some of them changed."""

import dataclasses

import pytest

from refemu.units.harmonia.bfp_pe import UNIT, BfpPe
from refemu.units.harmonia.bfp_pe.registers import COUNTERS, EVENTS, changed, ports


def test_a_changed_state_is_a_new_one() -> None:
    state = BfpPe().state
    after = changed(state, acc=5, event="load")

    assert (after.acc, after.event, state.acc, state.event) == (5, "load", 0, "reset")
    assert after == dataclasses.replace(state, acc=5, event="load")
    with pytest.raises(dataclasses.FrozenInstanceError):
        after.acc = 6  # type: ignore[misc]


def test_every_field_is_a_port_a_counter_or_the_event() -> None:
    named = {port.name for port in ports({}).all}

    assert set(vars(BfpPe().state)) - named == {"event", "index", *COUNTERS}
    assert UNIT.counters == COUNTERS and max(map(len, EVENTS)) == 4
