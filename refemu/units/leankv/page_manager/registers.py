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

    #: "reset": all pages are free; inside a call "plan": the pages of every head enter a prefix sum; "level": one level
    #: of it; "take", "give": pages leave or join the list of free pages; "append", "split", "clear", "tokens": an entry
    #: of the table gets pages, is cut into the high and low pages of a prompt, is emptied, or gets its number of
    #: tokens; when the call is complete "prompt_allocate": sequences were admitted; "prompt_release": prompts gave back
    #: what they do not keep; "step_allocate": sections grew by a token; "finish": sequences left
    event: str
    index: int  #: number of the call since reset, from 0; all its events have it; -1 at reset
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
    #: admitted sequences, for each: name, slot, tokens of the prompt, tokens so far with pruned ones, whether the
    #: prompt is compressed
    requests: tuple[tuple[int, int, int, int, bool], ...]
    slots: tuple[int, ...]  #: free slots, the next one first
    allocated: int  #: pages that left the list of free pages
    recycled: int  #: pages that came back to the list of free pages
    levels: int  #: levels of prefix sums executed
    adds: int  #: additions in prefix sums
    shortfall: int  #: pages that heads got at the release of a prompt, whose two sections need more than the prompt had
    step_pages: int  #: most pages that one head took in one step
    #: tokens pruned: those of a prompt that are not kept, and in a step one for each head that does not grow
    pruned: int
    following: "State | None" = None  #: State after the next event of the call; None where the call is complete


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
