"""Ports, states and results of page_manager, and the numbers of its operations. [leankv §5.3, Fig. 5]"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.units import unit
from refemu.units.page_manager_parts import COUNTERS, Shape
from refemu.units.unit import Port, Ports

PROMPT, RELEASE, STEP, FINISH = range(4)  #: operations
EVENTS = ("prompt_allocate", "prompt_release", "step_allocate", "finish")
TOTALS = ("allocated", "recycled", *COUNTERS)  #: counters of a Result
HELD = (1 << 31) - 1  #: largest id of a sequence, and largest length


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset" or one of EVENTS
    index: int  #: number of the event, -1 for the reset
    op: int
    members: int
    sequences: Any
    prompts: Any
    high: Any
    low: Any
    counts: Any
    prefix: Any
    ids: Any
    lacking: Any
    list_start: int
    list_end: int
    free: int
    ring: Any
    head: int
    tail: int
    used: Any
    tokens: Any
    cells: Any
    requests: tuple[tuple[int, int, int, int, bool], ...]  #: sequence, slot, prompt, tokens so far, compressed
    slots: tuple[int, ...]  #: free ones, the next first
    allocated: int
    recycled: int
    levels: int
    adds: int
    shortfall: int
    step_pages: int
    pruned: int


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit and what it holds, one row per event; counters over all devices."""

    counts: np.ndarray
    prefix: np.ndarray
    ids: np.ndarray
    lacking: np.ndarray
    list_start: np.ndarray
    list_end: np.ndarray
    free: np.ndarray
    ring: np.ndarray
    head: np.ndarray
    tail: np.ndarray
    used: np.ndarray
    tokens: np.ndarray
    cells: np.ndarray
    allocated: int
    recycled: int
    levels: int
    adds: int
    shortfall: int
    step_pages: int  #: the largest of all devices
    pruned: int


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    shape = Shape(**config)
    entries = heads = shape.entries
    return Ports(
        inputs=(
            Port("op", 2, meaning="0 prompt_allocate, 1 prompt_release, 2 step_allocate, 3 finish"),
            Port("members", 16, most=shape.slots, meaning="sequences of the call"),
            Port("sequences", 32, shape.slots, most=HELD, meaning="their names"),
            Port("prompts", 32, shape.slots, most=shape.max_len, meaning="tokens of their prompts"),
            Port("high", 32, heads, most=HELD, meaning="high tokens kept, or 1 where the section grows"),
            Port("low", 32, heads, most=HELD, meaning="low tokens kept, or 1 where the section grows"),
        ),
        outputs=(
            Port("counts", 32, 2 * heads, meaning="pages of every head; of high and low in a step or a finish"),
            Port("prefix", 32, 2 * heads, meaning="where the regions of the ring end"),
            Port("ids", 32, shape.pages, signed=True, meaning="pages that moved; those a prompt lacked last"),
            Port("lacking", 32, heads, meaning="pages that a prompt lacked at its release"),
            Port("list_start", 32, meaning="place of the next free page"),
            Port("list_end", 32, meaning="place of the last free page"),
            Port("free", 32, meaning="free pages"),
        ),
        state=(
            Port("ring", 32, shape.pages, meaning="ids"),
            Port("head", 48, meaning="pages that left, ever"),
            Port("tail", 48, meaning="pages that came, ever"),
            Port("used", 16, 2 * entries, meaning="pages of every entry, high and low"),
            Port("tokens", 32, 2 * entries, meaning="tokens of every entry, high and low"),
            Port("cells", 32, entries * shape.length, signed=True, meaning="table of page ids"),
        ),
    )
