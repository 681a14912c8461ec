"""Ports, events and counters of page_manager, and the numbers of its operations. [leankv §5.3, Fig. 5]"""

from refemu.units.leankv.page_manager.requests import Shape
from refemu.units.ports import Port, Ports

PROMPT, RELEASE, STEP, FINISH = range(4)  #: operations
HELD = (1 << 31) - 1  #: largest id of a sequence, and largest length

#: meanings of events: those inside a call, then those that complete one, by operation
DOES = {
    "plan": "the pages of every head enter a prefix sum",
    "level": "one level of the prefix sum",
    "take": "pages leave the list of free pages",
    "give": "pages join the list of free pages",
    "append": "an entry of the table gets pages",
    "split": "an entry of the table is divided into the high and low pages of a prompt",
    "clear": "an entry of the table is emptied",
    "tokens": "an entry of the table gets its number of tokens",
    "prompt_allocate": "sequences were admitted",
    "prompt_release": "pages of dropped tokens of prompts were recycled",
    "step_allocate": "sections grew by a token",
    "finish": "sequences finished",
}
CALLS = tuple(DOES)[-4:]  #: events that complete a call, by operation
REGISTERS = {
    "requests": (
        "admitted sequences, for each: name, slot, tokens of the prompt, tokens so far with pruned ones, whether the "
        "prompt is compressed"
    ),
    "slots": "free slots, the next one first",
    "following": "State after the next event of the call; None if the call is complete",
}
COUNTERS = {
    "allocated": "pages that left the list of free pages",
    "recycled": "pages that came back to the list of free pages",
    "levels": "levels of prefix sums executed",
    "adds": "additions in prefix sums",
    "shortfall": "pages allocated at the release of a prompt, for two sections that need more than the prompt had",
    "step_pages": "most pages of one head in one step",
    "pruned": "tokens pruned: dropped tokens of a prompt, and in a step one for each head that does not grow",
}


def ports_of(shape: Shape) -> Ports:
    """Widths for a manager of this size [leankv §5.2]."""
    entries = heads = shape.entries
    return Ports(
        inputs=(
            Port("op", 2, meaning="0 prompt_allocate, 1 prompt_release, 2 step_allocate, 3 finish"),
            Port("members", 16, most=shape.slots, meaning="sequences of the call"),
            Port("sequences", 32, shape.slots, most=HELD, meaning="ids of the sequences"),
            Port("prompts", 32, shape.slots, most=shape.max_len, meaning="tokens of the prompts"),
            Port("high", 32, heads, most=HELD, meaning="high tokens retained, or 1 if the section grows"),
            Port("low", 32, heads, most=HELD, meaning="low tokens retained, or 1 if the section grows"),
        ),
        outputs=(
            Port("counts", 32, 2 * heads, meaning="pages of every head; high and low in a step or a finish"),
            Port("prefix", 32, 2 * heads, meaning="ends of the regions of the ring"),
            Port(
                "ids", 32, shape.pages, signed=True, meaning="pages that moved; pages that a prompt lacked at the end"
            ),
            Port("lacking", 32, heads, meaning="pages that a prompt lacked at its release"),
            Port("list_start", 32, meaning="place of the next free page"),
            Port("list_end", 32, meaning="place of the last free page"),
            Port("free", 32, meaning="free pages"),
        ),
        state=(
            Port("ring", 32, shape.pages, meaning="ids"),
            Port("head", 48, meaning="pages that have left since reset"),
            Port("tail", 48, meaning="pages that have come since reset"),
            Port("used", 16, 2 * entries, meaning="pages of every entry, high and low"),
            Port("tokens", 32, 2 * entries, meaning="tokens of every entry, high and low"),
            Port("cells", 32, entries * shape.length, signed=True, meaning="table of page ids"),
        ),
    )
