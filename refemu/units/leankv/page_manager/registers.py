"""Ports and states of page_manager, and the numbers of its operations. [leankv §5.3, Fig. 5]"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refemu.units.leankv.page_manager.requests import COUNTERS, Shape
from refemu.units.ports import Lanes, Port, Ports

PROMPT, RELEASE, STEP, FINISH = range(4)  #: operations
EVENTS = ("prompt_allocate", "prompt_release", "step_allocate", "finish")
INNER = ("plan", "level", "take", "give", "append", "split", "clear", "tokens")  #: events inside a call
TOTALS = ("allocated", "recycled", *COUNTERS)  #: counters of a Result
HELD = (1 << 31) - 1  #: largest id of a sequence, and largest length


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset", one of INNER, or one of EVENTS behind them
    index: int  #: number of the event, -1 for the reset
    op: int
    members: int
    sequences: Lanes
    prompts: Lanes
    high: Lanes
    low: Lanes
    counts: Lanes
    prefix: Lanes
    ids: Lanes
    lacking: Lanes
    list_start: int
    list_end: int
    free: int
    ring: Lanes
    head: int
    tail: int
    used: tuple[int, ...]
    tokens: tuple[int, ...]
    cells: Lanes
    requests: tuple[tuple[int, int, int, int, bool], ...]  #: sequence, slot, prompt, tokens so far, compressed
    slots: tuple[int, ...]  #: free ones, the next first
    allocated: int
    recycled: int
    levels: int
    adds: int
    shortfall: int
    step_pages: int
    pruned: int
    following: "State | None" = None  #: the next event of the call; None where it is done


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports of a manager.

    Parameters
    ----------
    config : mapping
        Parameters, as for `Shape`.

    Returns
    -------
    Ports
        Inputs, outputs and registers.

    References
    ----------
    [leankv §5.2]
    """
    return _ports(Shape(**config))


@functools.lru_cache(16)  # a State names its ports at every event
def _ports(shape: Shape) -> Ports:
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
