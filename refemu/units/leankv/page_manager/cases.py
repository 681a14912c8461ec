"""Golden cases of page_manager: [leankv Fig. 5] first, then prompts that lack a page, full pools and tables, finishes.
Valid histories are those that a manager admits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.units import Config, find
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, uniform

if TYPE_CHECKING:
    from refemu.units.leankv.page_manager.requests import Shape

PROMPT, RELEASE, STEP, FINISH = range(4)
NAMES = ("op", "members", "sequences", "prompts", "high", "low")
TURNS = 14  #: turns of the long history, after which ids have been in every lane
Call = tuple[int, Sequence[int], Sequence[int], Sequence[int], Sequence[int]]  #: op, sequences, prompts, high, low


def paper(config: Config) -> Blocks:
    shape = _shape(config)
    history: list[Call] = [
        (PROMPT, [7], [8], [], []),
        (RELEASE, [7], [], [2, 4], [4, 3]),
        (STEP, [7], [], [1, 0], [0, 1]),
        (FINISH, [7], [], [], []),
    ]
    why = "[leankv Fig. 5] eight tokens, two heads: 2 high and 4 low, 4 high and 3 low; a step"
    yield _block(why, shape, [history])


def edge(config: Config) -> Blocks:
    shape = _shape(config)
    top = shape.max_len
    history: list[Call] = [
        (PROMPT, [1, 2], [2, 2], [], []),
        (RELEASE, [2], [], [1, 2], [1, 0]),
        (RELEASE, [1], [], [0, 1], [2, 1]),
        (FINISH, [2, 1], [], [], []),
    ]
    why = "two high tokens, one of which becomes low: one page more than the prompt had"
    yield _block(why, shape, [history], "D-leankv-35")
    history = [
        (PROMPT, [1], [4], [], []),
        (RELEASE, [1], [], [4, 2], [0, 2]),
        *[(STEP, [1], [], [1, 0], [0, 1])] * 3,
        (STEP, [1], [], [0, 0], [0, 0]),
    ]
    why = "sections that fill up: a page when the next token needs it, or as soon as they are full"
    yield _block(why, shape, [history], "D-leankv-34")
    history = [
        (PROMPT, [1, 2], [top, top], [], []),
        (RELEASE, [2, 1], [], [top, top - 1, 1, 0], [0, 1, 0, 1]),
        *[(STEP, [2], [], [1, 0], [0, 0])] * 2,
        (FINISH, [1, 2], [], [], []),
        (PROMPT, [3], [1], [], []),
        (FINISH, [3], [], [], []),
    ]
    why = "the longest prompts fill the pool; all tokens stay, or all but one are pruned; one more step; both finish"
    yield _block(why, shape, [history])
    history = [
        (PROMPT, [5], [3], [], []),
        (PROMPT, [6], [5], [], []),
        (FINISH, [6], [], [], []),
        (PROMPT, [7], [1], [], []),
        (FINISH, [5], [], [], []),
        (PROMPT, [8], [2], [], []),
        (RELEASE, [8, 7], [], [1, 2, 0, 1], [1, 0, 1, 0]),
    ]
    yield _block("slots are reused first in, first out; a prompt may finish uncompressed", shape, [history])
    why = "two sequences in every call: most pages at once, tokens for one more page, ids in many orders"
    yield _block(why, shape, [[call for turn in range(TURNS) for call in _turn(top, turn)]], "D-leankv-38")
    more: list[Call] = [(PROMPT, [1], [shape.high_tokens + 1], [], []), (RELEASE, [1], [], [1, 0], [0, 1])]
    yield _block(
        "a prompt of one token more than a page has: a head retains one high token, the other a low one", shape, [more]
    )


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("page_manager", config, (2, 20), seed)
    yield "any history of calls", legal(config, drawn)


def _shape(config: Mapping[str, Any]) -> "Shape":
    from refemu.units.leankv.page_manager.requests import Shape

    return Shape(**config)


def _turn(top: int, turn: int) -> list[Call]:
    """Two sequences are admitted and finish; retained tokens depend on the number of the turn."""
    first = [1, 2] if turn % 2 else [2, 1]
    if turn % 3 == 0:  # whole pages of high tokens and one low token: one page more than the prompt had
        kept, shorter, lows = [top - 1] * 4, top, [1, 1, turn & 1, 1]
    elif turn % 3 == 1:  # surplus pages of every head
        kept, shorter, lows = [top - 2 - turn % 4, 0, 2, turn % 5], top - turn % 4, [0, 1, 0, 2]
    else:
        kept, shorter, lows = [1, 0, top - 1, top - 3], 1, [0, 1, 0, 0]
    names = [first[0], first[1]] if turn % 3 else [1, 2]
    return [
        (PROMPT, names, [shorter, top], [], []),
        (RELEASE, names, [], kept, lows),
        (STEP, first[::-1], [], [turn & 1, 0, 0, turn >> 1 & 1], [0, turn >> 2 & 1, 0, 0]),
        (FINISH, first, [], [], []),
    ]


def _block(why: str, shape: "Shape", histories: Sequence[Sequence[Call]], decision: str = "") -> Block:
    """One case per history, all equally long."""
    inputs, config, unit = _inputs(shape, histories), asdict(shape), find("page_manager")
    try:  # histories have two heads and two slots, which other shapes may not admit
        unit.evaluate(config, inputs)
    except Refused:
        if config in unit.configs.values():
            raise
        return f"as far as this manager admits: {why}", legal(Config(**config), inputs), decision
    return why, inputs, decision


def _inputs(shape: "Shape", histories: Sequence[Sequence[Call]]) -> dict[str, np.ndarray]:
    """Words at every port; calls with too many sequences are skipped."""
    lanes = (shape.slots, shape.slots, shape.entries, shape.entries)  # of the ports after `members`

    def words(call: Call) -> list[Any]:
        cut = [[*values, *[0] * count][:count] for values, count in zip(call[1:], lanes, strict=True)]
        return [call[0], min(len(call[1]), shape.slots), *cut]

    columns = zip(*(words(call) for history in histories for call in history), strict=True)
    rows = len(histories), len(histories[0])
    table = (np.array(column, np.int64) for column in columns)
    return {name: words.reshape(*rows, *words.shape[1:]) for name, words in zip(NAMES, table, strict=True)}


class History:
    """Calls that a manager admits; words are their entropy."""

    def __init__(self, shape: "Shape") -> None:
        self.shape: Shape = shape
        self.manager: Any = find("page_manager").unit_class(**asdict(shape))
        self.heads: int = shape.layers * shape.heads

    def call(
        self, op: int, members: int, sequences: list[int], prompts: list[int], high: list[int], low: list[int]
    ) -> Call:
        """The first possible operation from `op` on, with these values as entropy; else one without sequences."""
        wanted = list(dict.fromkeys(sequences))[: max(1, members)]
        calls = (
            lambda: self.prompt(wanted, prompts),
            lambda: self.release(members, high, low),
            lambda: self.step(members, high, low),
            lambda: self.finish(sequences),
        )
        return next(filter(None, (calls[(op + turn) % 4]() for turn in range(4))), (op, [], [], [], []))

    def _made(self, call: str, names: Any, *pairs: Sequence[tuple[int, int]]) -> bool:
        """Whether the manager admits a call; pairs: high and low tokens of every head."""
        lanes = len(names), self.shape.layers, self.shape.heads
        columns = (np.array(column).reshape(lanes) for each in pairs for column in zip(*each, strict=True))
        try:
            getattr(self.manager, call)(names, *columns)
        except Refused:
            return False
        return True

    def _live(self, members: int, running: bool) -> list[int]:
        """The first sequences whose prompts are compressed, or are not."""
        names = [name for name, request in self.manager.requests.table.items() if request.running == running]
        return names[: max(1, members)]

    def prompt(self, names: list[int], lengths: list[int]) -> Call | None:
        """New sequences, while slots and pages last."""
        drawn = [(name, length % self.shape.max_len + 1) for name, length in zip(names, lengths, strict=False)]
        new = [(name, n) for name, n in drawn if self._made("prompt_allocate", {name: n})]
        return (PROMPT, [name for name, _ in new], [n for _, n in new], [], []) if new else None

    def release(self, members: int, high: list[int], low: list[int]) -> Call | None:
        """The first waiting prompts; without low tokens if pages do not suffice."""
        names = self._live(members, False)
        tokens = self.manager.lengths(names)[..., 0].ravel().tolist()
        pairs = [
            (a % (n + 1), b % (n - a % (n + 1) + 1) if self.shape.low_tokens else 0)
            for n, a, b in zip(tokens, high, low, strict=False)
        ]
        return self._grown(RELEASE, "prompt_release", names, [pairs, [(a, 0) for a, _ in pairs]])

    def step(self, members: int, high: list[int], low: list[int]) -> Call | None:
        """The first running sequences; a head that cannot grow does not."""
        names = self._live(members, True)
        pairs = [
            (int(a % 3 == 0), int(a % 3 == 1 and b % 2 == 1 and self.shape.low_tokens is not None))
            for a, b in zip(high, low, strict=False)
        ][: len(names) * self.heads]
        return self._grown(STEP, "step_allocate", names, [pairs, [(0, 0)] * len(pairs)])

    def _grown(self, op: int, call: str, names: list[int], choices: list[list[tuple[int, int]]]) -> Call | None:
        """A call with the first of `choices` that the manager admits."""
        for pairs in choices if names else ():
            if self._made(call, names, pairs):
                return op, names, [], [a for a, _ in pairs], [b for _, b in pairs]
        return None

    def finish(self, sequences: list[int]) -> Call | None:
        """One live sequence."""
        live = list(self.manager.requests.table)
        if not live:
            return None
        name = live[sequences[0] % len(live)]
        self.manager.finish([name])
        return FINISH, [name], [], [], []


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` as valid calls: the words are the entropy of a history."""
    shape, op, histories = _shape(config), np.asarray(inputs["op"]), []
    rows = op.size // max(op.shape[-1], 1), op.shape[-1], -1
    devices = zip(*(np.reshape(inputs[name], rows).tolist() for name in NAMES), strict=True)
    for columns in devices:
        history = History(shape)
        events = zip(*columns, strict=True)
        histories.append([history.call(op[0], members[0], *lists) for op, members, *lists in events])
    changed = _inputs(shape, histories) if op.size else inputs
    return {
        name: np.asarray(changed[name]).reshape(np.shape(inputs[name])).astype(np.asarray(inputs[name]).dtype)
        for name in NAMES
    }
