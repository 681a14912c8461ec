"""A beam search: single guesses and compositions of up to three, scored over the rows of a table."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from refemu.golden.explain import reruns, unit_runs
from refemu.golden.explain.guess import Prediction, Story, restricted
from refemu.golden.explain.scoring import Score, crooked, lanes_better, score
from refemu.golden.explain.table import Table, screen
from refemu.golden.faults import library
from refemu.golden.faults.fault import Fault, Words, bits_of, short

DEPTH, WIDTH = 3, 4
CLOSE = 2  #: stories to extend although they correct no cell, since most cells have the same wrong bits
SECONDS = 30.0  #: of processor time; afterwards no device without a compiled form starts
FINALISTS = 8  #: stories that are verified on all rows
PROMISING = 12  #: slow devices that run on the full sample after the screen


@dataclass(frozen=True, eq=False)
class Scored:
    """A prediction and its score."""

    prediction: Prediction
    score: Score
    price: int  #: bits of the search and of the parameters

    @property
    def total(self) -> int:
        """Total bits; fewer are better."""
        return self.score.cost + self.price

    @property
    def story(self) -> Story:
        """The story of the prediction."""
        return self.prediction.story


@dataclass(eq=False)
class Search:
    """A search on one table. `tried`: number of hypotheses so far."""

    table: Table
    tried: int = 0
    until: float = field(
        default_factory=lambda: time.process_time() + SECONDS
    )  #: limit for devices without a compiled form
    scored: list[Scored] = field(default_factory=list)  #: every prediction that saves bits
    single: list[Scored] = field(default_factory=list)  #: every single guess
    _run: dict[object, tuple[Words, np.ndarray]] = field(default_factory=dict)  #: answers of devices that ran

    def run(self) -> list[Scored]:
        """Stories, the best first, grouped by equal predictions."""
        none = self.predicted(Story())
        beam = [Scored(none, score(self.table, none), 0)]
        nothing = beam[0]
        for _ in range(DEPTH):
            better: list[Scored] = []
            others: list[Scored] = []
            for place, start in enumerate(beam):
                for scored in self._grown(start, place == 0):
                    self.single += [scored] if not start.story.guesses else []
                    (better if scored.total < min(start.total, nothing.total) else others).append(scored)
            self.scored += better
            beam = _distinct(self.table, sorted(better, key=_rank))[:WIDTH]
            beam += self._close(others, nothing)
            if not beam or any(scored.score.perfect for scored in self.scored):
                break
        return sorted(self.scored, key=_rank)

    def alike(self, scored: Scored) -> Iterator[Scored]:
        """Equivalent stories, each with one guess replaced by a guess with the same prediction."""
        same = fingerprint(self.table, scored.prediction)
        for guess in scored.story.guesses:
            for other in self._like(guess):
                prediction = self.predicted(scored.story.replaced(guess, other))
                if fingerprint(self.table, prediction) == same:
                    yield replace(scored, prediction=prediction)

    def _like(self, guess: Fault) -> list[Fault]:
        """Guesses that alone predict the same as this one."""
        alone = next((each for each in self.single if each.story.guesses[0] is guess), None)
        if alone is None:
            return []
        same = (alone.score.cost, alone.score.changed)
        near = [each for each in self.single if each is not alone and (each.score.cost, each.score.changed) == same]
        key = fingerprint(self.table, alone.prediction) if near else ()
        return [each.story.guesses[0] for each in near if fingerprint(self.table, each.prediction) == key]

    def _grown(self, start: Scored, best: bool) -> Iterator[Scored]:
        """The story of `start` with each further guess; changed arithmetic only extends the best story so far."""
        words = start.prediction.words
        options = [guess for guess in library.suspected(self.table, words) if not _again(start.story, guess)]
        fast, slow = self._devices(start)
        self.tried += len(options) + len(fast) + len(slow)
        price = start.price + bits_of(len(options) + len(fast) + len(slow))
        grown = [self._one(start, guess, price) for guess in (*options, *fast)]
        grown += self._slow(start, slow, price)
        perfect = any(scored and scored.score.perfect for scored in grown)
        if best and not perfect and not self._is_inside(start):
            runs = any(guess.runs for guess in start.story.guesses)
            inside = [guess for guess in self._inside if guess.registers is None or not runs]
            self.tried += len(inside)
            grown += self._slow(start, inside, price)
        grown += [self._lane(start, price)]
        yield from (scored for scored in grown if scored is not None)

    def _close(self, scored: Sequence[Scored], nothing: Scored) -> list[Scored]:
        """Stories after which most cells are still wrong, but in the same bits."""
        before = crooked(self.table, nothing.prediction.words)
        after = [
            (crooked(self.table, each.prediction.words), each.story.order, place) for place, each in enumerate(scored)
        ]
        near = [scored[place] for count, _, place in sorted(after) if _is_closer(count, before)]
        return _distinct(self.table, near)[:CLOSE]

    def _devices(self, start: Scored) -> tuple[list[Fault], list[Fault]]:
        """Guesses for which the unit runs, compiled and readable ones."""
        fast: list[Fault] = []
        slow: list[Fault] = []
        running_now = [guess for guess in start.story.guesses if guess.runs]
        decisions = {guess.name for guess in running_now}
        for guess in self._choices if not any(each.registers for each in running_now) else ():
            clash = guess.kind == "decision" and guess.name in decisions and guess.name != "parameter"
            if clash or any(guess is each for each in running_now) or _again(start.story, guess):
                continue
            device = unit_runs.device(self.table, [*running_now, guess])
            if device is not None and self._same_ports(device.config):
                (slow if unit_runs.is_slow([*running_now, guess], device) else fast).append(guess)
        return fast, slow

    def _same_ports(self, config: object) -> bool:
        sizes = [
            [(port.name, port.bits, port.count) for port in (*ports.inputs, *ports.outputs)]
            for ports in (self.table.unit.ports(self.table.config), self.table.unit.ports(config))  # type: ignore[arg-type]
        ]
        return sizes[0] == sizes[1]

    @cached_property
    def _choices(self) -> list[Fault]:
        return [*reruns.decisions(self.table), *library.seen(self.table)]

    @cached_property
    def _inside(self) -> list[Fault]:
        """Faults of registers and arithmetic."""
        return list(library.computed(self.table))

    def _is_inside(self, start: Scored) -> bool:
        return any(guess.arithmetic or guess.registers for guess in start.story.guesses)

    def _slow(self, start: Scored, guesses: Sequence[Fault], price: int) -> list[Scored | None]:
        """Slow devices on the whole table, the most promising first; after a perfect one those that may equal it."""
        grown: list[Scored | None] = []
        least: float = math.inf
        for cost, guess in self._promising(start, guesses):
            if cost > least or time.process_time() > self.until:
                break
            scored = self._one(start, guess, price)
            grown.append(scored)
            if scored and scored.score.perfect:
                least = cost
        return grown

    def _promising(self, start: Scored, guesses: Sequence[Fault]) -> list[tuple[int, Fault]]:
        """Slow devices that put cells right on a few cases, and what is still wrong there, the best first."""
        few = screen(self.table, start.score.rows_wrong)
        if few is self.table:
            return [(0, guess) for guess in guesses]
        search = Search(few)
        base = search.predicted(start.story)
        before = score(few, base)
        gains: list[tuple[int, int, Fault]] = []
        for guess in guesses:
            if time.process_time() > self.until:
                break  # report what was found so far
            prediction = search.predicted(start.story.with_(guess))
            after = score(few, prediction)
            better = [change.min() < 0 for change in lanes_better(few, prediction.words, base.words).values()]
            closer = _is_closer(crooked(few, prediction.words), crooked(few, base.words))
            if after.cost < before.cost or any(better) or closer:
                gains.append((after.cost, len(gains), guess))
        return [(cost, guess) for cost, _, guess in sorted(gains, key=lambda gain: gain[:2])[:PROMISING]]

    def _one(self, start: Scored, guess: Fault, price: int) -> Scored | None:
        """The story with a guess more, in all lanes or in those that it makes better; None where it does nothing."""
        old = start.prediction.words
        prediction = self.predicted(start.story.with_(guess))
        whole = self._rated(prediction, price)
        if guess.lanes:
            return whole
        best = whole
        for count, change in lanes_better(self.table, prediction.words, old).items():
            better = np.flatnonzero(change < 0)
            if not len(better) or not (change > 0).any():
                continue
            price_of = guess.price + _choice(len(better), count)
            some = replace(guess, lanes=tuple(better.tolist()), only=count, price=price_of)
            rated = self._rated(self.predicted(start.story.with_(some)), price)
            best = rated if rated.total < best.total else best
        return best

    def _rated(self, prediction: Prediction, price: int) -> Scored:
        return Scored(prediction, score(self.table, prediction), price + prediction.story.price)

    def _lane(self, start: Scored, price: int) -> Scored | None:
        """A guess that all remaining differences are in one lane of one array, without a prediction."""
        bad = [name for name, wrong in start.score.wrong.items() if wrong.any()]
        if len(bad) != 1 or self.table.ports[bad[0]].count == 1:
            return None
        wrong = start.score.wrong[bad[0]]
        lanes = np.flatnonzero(wrong.any(axis=0))
        if len(lanes) != 1:
            return None
        lane, count = int(lanes[0]), int(np.count_nonzero(wrong))
        says = f"all that is left, {count} words, is a mistake of its own in lane {lane} of {bad[0]}"
        guess = Fault(f"lane/{bad[0]}/{lane}", says, "lane", {"port": short(bad[0])}, excuses=bad[0], lanes=(lane,))
        excused = {bad[0]: np.broadcast_to(np.arange(wrong.shape[1]) == lane, wrong.shape)}
        story = Story((*start.story.guesses, guess))
        prediction = replace(start.prediction, story=story, excused=excused)
        rated = score(self.table, prediction)
        saved = (count - 1) * (wrong.shape[1].bit_length() - 1)  # by chance they would be in any lane
        cost = start.score.cost - saved
        return Scored(prediction, replace(rated, cost=cost), price)

    def predicted(self, story: Story) -> Prediction:
        """Answers of a device if a story is true."""
        words, known = dict(self.table.want), np.ones(len(self.table.rows), np.bool_)
        runs: list[Fault] = []
        reached: np.ndarray | None = None
        excused: dict[str, np.ndarray] = {}
        for guess in story.guesses:
            if guess.excuses:
                lanes = np.arange(words[guess.excuses].shape[1])
                excused[guess.excuses] = np.broadcast_to(lanes == guess.lanes[0], words[guess.excuses].shape)
                continue
            new, taken = self._changed(guess, runs, words)
            known &= taken
            limit = unit_runs.reach(self.table, guess)
            reached = reached if limit is None else self.table.rows < limit
            new = restricted(new, words, guess.lanes, guess.only) if guess.only else new
            words = (
                {name: new[name] if name in guess.outputs else words[name] for name in words} if guess.outputs else new
            )
        return Prediction(story, words, known, reached, excused)

    def _changed(self, guess: Fault, runs: list[Fault], words: Words) -> tuple[Words, np.ndarray]:
        """Words after one guess more, and the rows that such a device can take. runs: earlier ones, which it joins."""
        if not guess.runs:
            return guess.applied(self.table, words), np.ones(len(self.table.rows), np.bool_)
        device = unit_runs.device(self.table, [*runs, guess])
        if device is None:
            return words, np.zeros(len(self.table.rows), np.bool_)
        runs.append(guess)
        key = tuple(each.id for each in runs)
        if key not in self._run:
            self._run[key] = unit_runs.words(self.table, runs, device)
        new, taken = self._run[key]
        if taken.all():
            return new, taken
        return {name: np.where(taken[:, None], new[name], words[name]) for name in words}, taken


def _is_closer(after: int, before: int) -> bool:
    """Whether far fewer wrong bits remain than before."""
    return 2 * after < before


def _again(story: Story, guess: Fault) -> bool:
    """Whether a story already has rows, or lanes, in another order: no design has two."""
    orders = ("row_shift", "row_swap"), ("lane_permutation",)
    return any(guess.name in some and any(each.name in some for each in story.guesses) for some in orders)


def _choice(some: int, count: int) -> int:
    """Bits that select lanes."""
    return bits_of(count) + bits_of(math.comb(count, some))


def _rank(scored: Scored) -> tuple[int, int, int]:
    return scored.total, *scored.story.order


def _distinct(table: Table, ranked: Sequence[Scored]) -> list[Scored]:
    """The first scored story of each prediction."""
    seen: set[tuple[bytes, ...]] = set()
    kept = []
    for scored in ranked:
        key = fingerprint(table, scored.prediction)
        if key not in seen:
            seen.add(key)
            kept.append(scored)
    return kept


def fingerprint(table: Table, prediction: Prediction) -> tuple[bytes, ...]:
    """A key that is equal for predictions with equal bits that count."""
    parts = [table.changed(name, words).tobytes() for name, words in prediction.words.items()]
    return (*parts, *(array.tobytes() for array in prediction.excused.values()))
