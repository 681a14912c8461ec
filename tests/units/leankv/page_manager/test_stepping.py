"""Events inside the calls of the memory manager, by [leankv Fig. 5]."""

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.units.leankv.page_manager import PageManager
from tests.oracles.leankv import memory

UNIT = units.find("page_manager")
PAPER = UNIT.configs["paper"]


def figure() -> dict[str, np.ndarray]:
    """The calls of Fig. 5, then a step."""
    (block,) = UNIT.cases(PAPER, "paper", 0)
    return {name: array[0] for name, array in block.inputs.items()}


def test_a_call_is_plan_levels_pointers_and_table() -> None:
    """D-leankv-66."""
    states = list(UNIT.trace(PAPER, figure()))
    events = [[state.event for state in states if state.index == call] for call in range(4)]

    assert events == [
        ["plan", "level", "take", "append", "tokens", "append", "tokens", "prompt_allocate"],
        ["split", "split", "plan", "level", "give", "tokens", "tokens", "prompt_release"],
        ["plan", "level", "level", "take", "append", "tokens", "tokens", "step_allocate"],
        ["clear", "clear", "plan", "level", "level", "give", "finish"],
    ]


def test_levels_follow_network_and_end_with_prefix() -> None:
    for state in UNIT.trace(PAPER, figure()):
        if state.event in ("take", "give"):
            counts, prefix = state.counts, state.prefix
            members = len([count for count in counts if count])
            assert list(prefix[:members]) == memory.prefix(counts[:members], prefix[0] - counts[0])[0]


def test_only_the_last_event_has_all_registers() -> None:
    """Pointers before the table, entries one by one."""
    states = [state for state in UNIT.trace(PAPER, figure()) if state.index == 0]

    assert [state.free for state in states] == [32, 32, 24, 24, 24, 24, 24, 24]
    assert [state.used[:4:2] for state in states[3:]] == [(4, 0), (4, 0), (4, 4), (4, 4), (4, 4)]


def test_rejected_call_has_no_event() -> None:
    device = PageManager(**PAPER)
    none = {"sequences": (0, 0), "prompts": (0, 0), "high": (0,) * 4, "low": (0,) * 4}
    before = device.snapshot()
    with pytest.raises(Refused, match="sequence 0 is unknown"):
        device.step(op=3, members=1, **none)
    assert device.snapshot() == before and not device.busy
    device.step(op=0, members=1, **{**none, "prompts": (2, 0)})
    with pytest.raises(Refused, match="step takes no inputs after event plan"):
        device.step(op=3, members=1, **none)


def test_rejected_pages_change_nothing() -> None:
    device = PageManager(**PAPER)
    device.prompt_allocate({1: 4})
    before = device.snapshot()
    for ids, message in (
        ([32], r"page must be in \[0, 32\), got 32"),
        ([0, 0], "page 0 is already free"),
        ([9], "page 9"),
    ):
        with pytest.raises(Refused, match=message):
            device.list.recycle(ids)
        assert device.snapshot() == before
