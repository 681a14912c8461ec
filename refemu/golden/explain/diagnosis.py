"""Verdict on a wrong device: few explanations of what it did, each counted over all rows, or none."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.arith.integers import total
from refemu.golden.compare import answer_files
from refemu.golden.explain import table as tables
from refemu.golden.explain import unit_runs
from refemu.golden.explain.guess import Story
from refemu.golden.explain.scoring import CHANGED, GAIN, RIGHT, score
from refemu.golden.explain.search import FINALISTS, Scored, Search, fingerprint
from refemu.golden.explain.table import Table
from refemu.golden.faults.fault import Fault, Kind
from refemu.golden.files.sets import Golden

MOST = 5  #: explanations of which a verdict tells
PIECE = 1 << 22  #: values that are held against the set at a time
PACE = 0.15  #: seconds that a readable device takes for all rows of the sample, about
TICK = 1e-6  #: seconds that a case takes at least: clocks are coarse
CASES = 16  #: that a sample has at least, where there are so many
SLOW = 1 << 9  #: the same of a device that has no compiled twin
SECONDS = 8.0  #: for the rows beyond the sample, of the best story; the verdict says how many it reached
OTHERS = 0.3  #: of any other


@dataclass(frozen=True)
class Explanation:
    """One of the mistakes of which a device is made, and the rows that speak for it."""

    kind: Kind  #: other answer to a decision, or a structural mistake
    id: str  #: of the decision, or name of the structural class
    detail: str  #: "right if ..."
    parameters: Mapping[str, Any]  #: what is needed to repeat it
    rows_explained: int  #: wrong rows that become right
    rows_distinguishing: int  #: rows that tell it from the answers of the set
    refused_rows: int  #: rows that such a device cannot take
    lanes: tuple[int, ...]  #: lanes that are concerned; () for all
    equivalent: tuple[str, ...]  #: ids that no row tells from this one
    together: tuple[str, ...]  #: the other ids of the same composition

    def plain(self) -> dict[str, Any]:
        """Item of `explanations` in the JSON of `refemu diff`.

        Returns
        -------
        dict
            The fields by name; `together` is named `with`.
        """
        document = asdict(self)
        document["with"] = document.pop("together")
        return document


@dataclass(frozen=True)
class Diagnosis:
    """Outcome of a search for what a device did."""

    hypotheses: int = 0  #: number that were tried
    rows: int = 0  #: rows on which they were tried
    verified: int = 0  #: rows that the explanations were held against
    stories: tuple[tuple[Explanation, ...], ...] = ()  #: best first; several parts of one that is composed
    rivals: tuple[Story, ...] = field(default=(), repr=False)  #: of the best, those that no row tells apart
    possible: tuple[str, ...] = ()  #: without stories: single guesses that fit, but too few rows differ to say so
    refusal: str = ""  #: why the unit does not take the stimulus of the set, so that nothing could be tried

    @property
    def explanations(self) -> tuple[Explanation, ...]:
        """All parts of all stories, the best story first."""
        return tuple(part for story in self.stories for part in story)


@dataclass(eq=False)
class _Counted:
    """A story held against rows, piece by piece."""

    scored: Scored
    rows: int = 0
    wrong: int = 0
    explained: int = 0
    cases_wrong: int = 0
    cases_explained: int = 0
    distinguishing: int = 0
    refused: int = 0
    changed: int = 0
    put_right: int = 0

    def add(self, table: Table, wrong: np.ndarray, scored: Scored | None = None) -> None:
        """Count the rows of a table. wrong: bool, those of them that differ from the set; scored: if that is known."""
        prediction = scored.prediction if scored else Search(table).predicted(self.scored.story)
        rated = scored.score if scored else score(table, prediction)
        reached = np.ones(len(wrong), np.bool_) if prediction.reached is None else prediction.reached
        wrong = wrong & reached
        wrong_by_case, explained_by_case = table.by_case(wrong), table.by_case(wrong & ~rated.rows_wrong)
        explained = (wrong_by_case > 0) & (explained_by_case >= RIGHT * wrong_by_case)
        self.rows += int(np.count_nonzero(reached))
        self.wrong += int(total(wrong_by_case))
        self.explained += int(total(explained_by_case))
        self.cases_wrong += int(np.count_nonzero(wrong_by_case))
        self.cases_explained += int(np.count_nonzero(explained))
        self.distinguishing += int(np.count_nonzero(rated.rows_changed))
        self.refused += int(np.count_nonzero(~prediction.known & reached))
        self.changed += rated.changed
        self.put_right += rated.put_right

    def is_fast(self, table: Table) -> bool:
        """Whether every run of the unit is one of its compiled twin."""
        runs = [guess for guess in self.scored.story.guesses if guess.runs]
        device = unit_runs.device(table, runs)
        return device is None or not unit_runs.is_slow(runs, device)

    @property
    def share(self) -> float:
        """Share of the wrong rows that come out right, of those that were looked at."""
        return self.explained / max(1, self.wrong)

    @property
    def holds(self) -> bool:
        """Whether it may be printed: it explains most wrong rows, also where each case counts once.

        The rows of a case depend on each other: what fits one long case by chance fits hundreds of rows.
        """
        enough = self.explained >= max(1.0, RIGHT * self.wrong) and self.cases_explained >= RIGHT * self.cases_wrong
        return enough and self.put_right >= CHANGED * self.changed


def diagnosis(golden: Golden, answer: answer_files.Answer, wrong: np.ndarray) -> Diagnosis:
    """What the device did. wrong: bool per row of the set, those in which the device differs; at least one."""
    try:
        table = _table(golden, answer, wrong)
    except (Refused, RefusedType) as refusal:
        return Diagnosis(refusal=str(refusal))
    search = Search(table)
    every = search.run()
    nothing = score(table, search.predicted(Story())).cost
    ranked = [scored for scored in every if nothing - scored.total > GAIN]
    groups = _groups(table, ranked)[:FINALISTS]
    counted = [_Counted(group[0]) for group in groups]
    verified = _count(counted, golden, answer, wrong, table)
    kept = [(each, group) for each, group in zip(counted, groups, strict=True) if each.holds]
    if kept:
        best = min(each.scored.total for each, _ in kept)
        kept = [(each, group) for each, group in kept if each.scored.total <= best + GAIN]
        kept = sorted(kept, key=lambda pair: (-pair[0].share, pair[0].scored.total))
    kept = [(each, [*group, *search.alike(group[0])]) for each, group in kept[:MOST]]
    stories = tuple(tuple(_explanations(each, group)) for each, group in kept)
    rivals = tuple(scored.story for scored in kept[0][1]) if kept else ()
    possible = () if stories else _possible(every)
    return Diagnosis(search.tried, len(table.rows), verified, stories, rivals, possible)


def _table(golden: Golden, answer: answer_files.Answer, wrong: np.ndarray) -> Table:
    """Sample on which also readable devices end in time."""
    table = tables.sample(golden, answer, wrong)
    limit = max(CASES, int(PACE / max(unit_runs.pace(table), TICK)))
    return table if len(table.cases) <= limit else tables.sample(golden, answer, wrong, limit)


def _possible(ranked: Sequence[Scored]) -> tuple[str, ...]:
    """What each single guess says that puts all rows of the sample right, decisions first."""
    fitting = [scored for scored in ranked if scored.score.perfect and len(scored.story.guesses) == 1]
    ordered = sorted(fitting, key=lambda scored: scored.story.order)
    return tuple(dict.fromkeys(f"right if {scored.story.guesses[0].says}" for scored in ordered))


def _groups(table: Table, ranked: Sequence[Scored]) -> list[list[Scored]]:
    """Stories of equal prediction, of as few guesses as the first of them, decisions first."""
    groups: dict[tuple[bytes, ...], list[Scored]] = {}
    for scored in ranked[: 8 * FINALISTS]:
        groups.setdefault(fingerprint(table, scored.prediction), []).append(scored)
    result = []
    for group in groups.values():
        ordered = sorted(group, key=lambda scored: scored.story.order)
        few = len(ordered[0].story.guesses)
        result.append([scored for scored in ordered if len(scored.story.guesses) == few])
    return result


def _count(
    counted: Sequence[_Counted], golden: Golden, answer: answer_files.Answer, wrong: np.ndarray, table: Table
) -> int:
    """Hold the stories against all rows, as many as the time allows; returns how many the best one reached."""
    if not counted or len(table.rows) == golden.rows:
        for each in counted:
            each.add(table, wrong[table.rows], each.scored)
        return len(table.rows)
    whole = tables.whole(golden, answer)
    rest = Table(golden, answer, whole.cases[~np.isin(whole.cases, table.cases)])
    for each, seconds in zip(counted, (SECONDS, *[OTHERS] * len(counted)), strict=False):
        start, fast = time.process_time(), each.is_fast(table)
        if not fast:
            each.add(table, wrong[table.rows], each.scored)
        for piece in tables.pieces(whole, PIECE) if fast else tables.pieces(rest, SLOW):
            each.add(piece, wrong[piece.rows])
            if time.process_time() - start > seconds:
                break
    return counted[0].rows


def _explanations(counted: _Counted, group: Sequence[Scored]) -> Iterator[Explanation]:
    """The parts of a story."""
    guesses = counted.scored.story.guesses
    for place, guess in enumerate(guesses):
        same = [_matching(scored.story.guesses, place, guess) for scored in group[1:]]
        equivalent = dict.fromkeys(each.name for each in same if each is not None and each.name != guess.name)
        yield Explanation(
            guess.kind,
            guess.name,
            f"right if {guess.says}",
            dict(guess.parameters),
            counted.explained,
            counted.distinguishing,
            counted.refused,
            guess.lanes,
            tuple(equivalent),
            tuple(each.name for each in guesses if each is not guess),
        )


def _matching(guesses: Sequence[Fault], place: int, guess: Fault) -> Fault | None:
    """The guess that stands in the place of another in a story that predicts the same."""
    return guesses[place] if place < len(guesses) else None
