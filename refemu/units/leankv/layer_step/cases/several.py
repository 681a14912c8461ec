"""Golden cases of layer_step with several requests: they come, grow and end at different times. [leankv §5.3, §6.1]"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from refemu.units.leankv.layer_step.cases.history import (
    ADMIT,
    EVERYTHING,
    FINISH,
    HIGH,
    KEEP_LOW,
    LARGE,
    LOAD,
    LOW,
    NONE,
    NOTHING,
    SMALL,
    STEP,
    History,
    Prompt,
    Thresholds,
)
from refemu.units.stimuli import Blocks, patterns16, patterns32
from refemu.units.unit import Config

#: prompts whose two sections need a page more than the prompt had, where a page has two tokens
LACKING = (Prompt(4, (3, 2, 1), (0,)), Prompt(2, (1,), (0,)), Prompt(6, (5, 4, 3, 2, 1), (0,)))
ROUNDS = 3  #: times that they come, so that the last ones get pages that others had
#: values of the tokens of a prompt: those that a sum loses singly, but not in pairs, in other accumulators
ORDERS = (
    (LARGE, SMALL, -LARGE, 0, 0, SMALL, 0, 0),  # a pair for two rows of two warps, not for four warps or one row
    (LARGE, SMALL, -LARGE, 0, 0, 0, 0, 0),  # for a tree
    (LARGE, 0, -LARGE, 0, SMALL, SMALL, 0, 0),
)
TURNS = 9  #: requests after which the list of free pages has come around, in other orders than it began


def joining(config: Config) -> Blocks:
    """Requests that begin at different times; a configuration has at least three requests and two precisions."""
    why = "[leankv §5.3] two requests begin in one call, a third one joins them, and a step serves all or some"
    yield why, _joining(config), "D-leankv-75"


def several_requests(config: Config) -> Blocks:
    """Edge cases of a configuration with at least three requests and two precisions."""
    why = "prompts of one call that lack pages at their release: their regions follow each other"
    yield why, _lacking(config), "D-leankv-75"
    why = "requests end and begin in turn while others generate, so that their pages mix in the list"
    yield why, _mixed(config), "D-leankv-38"
    why = "requests of different lengths with all bits of records: pages of other warps, sums of other threads"
    yield why, _rough(config), "D-leankv-56"
    why = "values that a sum loses singly, but not in pairs, in accumulators of other warps and rows"
    yield why, _ordered(config), "D-leankv-56"


class Batch(History):
    """Events of one device whose requests differ; the heads of a request retain the same positions."""

    def admit(self, prompts: Mapping[int, Prompt]) -> None:
        """Admit prompts by request, and load their retained tokens."""
        lengths, keep = np.zeros(self.requests, np.int64), np.zeros((2, self.requests), np.int64)
        for name, prompt in prompts.items():
            lengths[name], keep[:, name] = prompt.tokens, (len(prompt.high), len(prompt.low))
        high, low = (self.spread(counts) for counts in keep)
        self.event(ADMIT, members=self.named(prompts), prompt=lengths, keep_high=high, keep_low=low)
        for number in range(max(len(prompt.high) + len(prompt.low) for prompt in prompts.values())):
            section, position, count = np.zeros((3, self.requests), np.int64)
            for name, prompt in prompts.items():
                kept = [(HIGH, p) for p in prompt.high] + [(LOW, p) for p in prompt.low]
                if number < len(kept):
                    section[name], position[name] = kept[number]
                    count[name] = prompt.tokens - 1 - position[name]
            each = self.words(self.kv_heads) % 32767 + 1
            score = patterns32(self.spread(count) * each / 32768)
            places = {"section": self.spread(section), "position": self.spread(position)}
            self.event(LOAD, score=score, **places, **self.tokens())

    def step_of(self, names: Iterable[int], thresholds: Thresholds) -> None:
        """A generation step of some requests."""
        self.step(thresholds)
        self.rows[-1]["members"] = self.named(names)

    def end(self, *names: int) -> None:
        """Some requests end."""
        self.event(FINISH, members=self.named(names))

    def named(self, names: Iterable[int]) -> np.ndarray:
        """Value of the port `members`."""
        return np.isin(np.arange(self.requests), list(names)).astype(np.int64)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """A value of each request for each of its heads."""
        return np.repeat(values, self.kv_heads // self.requests)


def _joining(config: Config) -> dict[str, np.ndarray]:
    batch = Batch(config, 20, 2)
    batch.admit({0: Prompt(5, (4, 1), (0, 2)), 2: Prompt(3, (2, 1), (0,))})
    batch.step_of([0, 2], NOTHING)
    batch.step_of([0, 2], KEEP_LOW)
    batch.admit({1: Prompt(4, (3,), (0,))})
    batch.step_of([0, 1, 2], KEEP_LOW)
    batch.step_of([1], EVERYTHING)
    batch.end(0)
    batch.step_of([1, 2], NOTHING)
    batch.admit({0: Prompt(2, (1,))})
    batch.step_of([0, 1], (0.05, 0.2))
    batch.end(2, 1)
    batch.step_of([0], NOTHING)
    return batch.inputs()


def _lacking(config: Config) -> dict[str, np.ndarray]:
    batch = Batch(config, 21, 1)
    for _ in range(ROUNDS):
        batch.admit(dict(enumerate(LACKING)))
        batch.step_of(range(3), NOTHING)
        batch.end(1)
        batch.step_of([0, 2], KEEP_LOW)
        batch.admit({1: LACKING[0]})
        batch.step_of(range(3), NOTHING)
        batch.end(0, 1, 2)
    return batch.inputs()


def _mixed(config: Config) -> dict[str, np.ndarray]:
    batch, prompts = Batch(config, 22, 2), (Prompt(6, (5, 4), (0,)), Prompt(3, (2, 0, 1)), Prompt(7, (6,), (1, 2)))
    for turn in range(TURNS):
        name = turn % batch.requests
        if turn >= batch.requests:
            batch.end(name)
        batch.admit({name: prompts[turn // 2 % 3]})
        running = range(min(turn + 1, batch.requests))
        batch.step_of(running, (NOTHING, KEEP_LOW)[turn % 2])
    batch.end(*range(batch.requests))
    batch.admit({1: prompts[0], 2: prompts[1]})
    batch.step_of([1, 2], NOTHING)
    batch.step_of([2], NOTHING)
    return batch.inputs()


def _rough(config: Config) -> dict[str, np.ndarray]:
    batch = Batch(config, 23, 2, rough=(1, 1), fresh=True)
    batch.admit({name: Prompt(8 - name, tuple(range(1, 8 - name)), (0,)) for name in range(batch.requests)})
    for names in ([0, 1, 2], [1, 2], [2]):
        batch.step_of(names, NOTHING)
    return batch.inputs()


def _ordered(config: Config) -> dict[str, np.ndarray]:
    """Queries of zeros, so that all tokens weigh the same; a request for each of ORDERS."""
    batch = Batch(config, 24, 2)
    batch.admit({name: Prompt(len(values), tuple(range(len(values)))) for name, values in enumerate(ORDERS)})
    for row, values in zip(batch.rows[1:], np.array(ORDERS).T, strict=True):
        words = patterns16(values)
        row["value"] = np.repeat(words, batch.kv_heads // batch.requests * batch.size)
    for _ in range(2):
        batch.step_of(range(batch.requests), NOTHING)
        batch.rows[-1] |= {"value": batch.rows[-1]["value"] * 0, "q": batch.rows[-1]["q"] * 0}
    return batch.inputs()


def legal_requests(config: Mapping[str, Any], most: int, rows: Mapping[str, np.ndarray]) -> None:
    """Change the events of one device, (events, lanes), in place; a request has `most` tokens."""
    alone = "members" not in rows
    rows = {"members": np.ones((len(rows["op"]), 1), np.int64), **rows}
    heads, requests = int(config["kv_heads"]), rows["members"].shape[1]
    if not len(rows["op"]) or most == 0:
        rows["op"][:], rows["section"][:] = LOAD, NONE
        return
    window, seen = 1 + int(rows["window"][0, 0]) % 4, np.zeros(requests, np.int64)
    due = [list[tuple[int, int]]() for _ in range(requests * heads)]  # section and position, by entry
    for event in range(len(rows["op"])):
        row = {name: array[event] for name, array in rows.items()}
        row["window"][0] = window
        named = row["members"] != 0
        entropy = int(row["op"][0]) + int(row["prompt"][0])
        op, chosen = _drawn(entropy, seen, named, most)
        if any(due) or not chosen.any():
            row["op"][0] = LOAD
            for entry, kept in enumerate(due):
                row["section"][entry], row["position"][entry] = kept.pop(0) if kept else (NONE, 0)
            continue
        row["op"][0], row["members"][:] = op, chosen
        if op == STEP:
            seen += chosen
            continue
        seen[chosen] = 0
        for name in np.flatnonzero(chosen).tolist() if op == ADMIT else ():
            tokens = 1 + (entropy if alone else int(row["prompt"][name])) % max(most - 1, 1)
            row["prompt"][name] = seen[name] = tokens
            for entry in range(name * heads, (name + 1) * heads):
                low = int(row["keep_low"][entry]) % (max(tokens - window, 0) + 1) if config["low"] is not None else 0
                high = int(row["keep_high"][entry]) % (tokens - low + 1)
                row["keep_high"][entry], row["keep_low"][entry] = high, low
                due[entry] = [(HIGH, low + i) for i in range(high)] + [(LOW, i) for i in range(low)]


def _drawn(entropy: int, seen: np.ndarray, named: np.ndarray, most: int) -> tuple[int, np.ndarray]:
    """Operation of an event, and its requests among the `named` ones; none if it has to be another one."""
    free, growing = named & (seen == 0), named & (seen > 0) & (seen < most)
    if free.any() and (entropy % 3 == 0 or not growing.any()):
        return ADMIT, free
    if growing.any() and entropy % 8 != 7:
        return STEP, growing
    return FINISH, named & (seen > 0)
