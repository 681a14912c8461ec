"""Diagnosis of a faulty device: a few explanations, each counted over all rows, or none."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
from refemu.golden.faults.fault import Fault, Kind, short
from refemu.golden.files.sets import Golden
from refemu.golden.pages import decisions

MOST = 5  #: most explanations of a diagnosis
PIECE = 1 << 22  #: values compared with the set at a time
PACE = 0.15  #: seconds of a readable device for all rows of the sample, about
TICK = 1e-6  #: least seconds of a case, since clocks are coarse
CASES = 16  #: least cases of a sample, if there are as many
SLOW = 1 << 9  #: the same for a device without a compiled form
SECONDS = 8.0  #: for the best story on rows beyond the sample; the diagnosis says how many it reached
OTHERS = 0.3  #: seconds for any other story
ALONE = 10.0  #: processor seconds for devices without a compiled form, in a search of the differing arrays alone


@dataclass(frozen=True)
class Explanation:
    """One of the changes that describe a device, and the rows that support it."""

    kind: Kind  #: variant of a decision, or structural change
    id: str  #: id of the decision, or name of the structural class
    detail: str  #: "right if ..."
    parameters: Mapping[str, Any]  #: parameters that reproduce it
    rows_explained: int  #: wrong rows that become right
    rows_distinguishing: int  #: rows in which it differs from the answers of the set
    refused_rows: int  #: rows that are invalid for such a device
    lanes: tuple[int, ...]  #: lanes concerned; () for all
    equivalent: tuple[str, ...]  #: ids that no row distinguishes from this one
    together: tuple[str, ...]  #: the other ids of the composition
    title: str = ""  #: title of the decision
    ports: tuple[str, ...] = ()  #: ports to which it is limited; () for all
    agreeing: tuple[str, ...] = ()  #: other ports that it would change, and in which the device is right

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
    """Result of a search for an explanation."""

    hypotheses: int = 0  #: number of hypotheses tried
    rows: int = 0  #: rows of the trials
    verified: int = 0  #: rows on which the explanations were verified
    stories: tuple[tuple[Explanation, ...], ...] = ()  #: best first; a composition has several parts
    rivals: tuple[Story, ...] = field(default=(), repr=False)  #: stories that no row distinguishes from the best
    possible: tuple[str, ...] = ()  #: without stories, single guesses that fit although too few rows differ
    refusal: str = ""  #: why the stimulus is invalid for the unit, so that nothing was tried

    @property
    def explanations(self) -> tuple[Explanation, ...]:
        """All parts of all stories, the best story first."""
        return tuple(part for story in self.stories for part in story)


@dataclass(eq=False)
class _Counted:
    """A story compared with rows, piece by piece."""

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
        """Count the rows of a table. wrong: bool, rows that differ from the set; scored: the score, if known."""
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
        """Whether every run of the unit uses its compiled form."""
        runs = [guess for guess in self.scored.story.guesses if guess.runs]
        device = unit_runs.device(table, runs)
        return device is None or not unit_runs.is_slow(runs, device)

    @property
    def share(self) -> float:
        """Share of the examined wrong rows that become right."""
        return self.explained / max(1, self.wrong)

    @property
    def holds(self) -> bool:
        """Whether it may be printed: it explains most wrong rows, even if each case counts once.

        Rows of a case depend on each other: a story that fits one long case by chance fits hundreds of rows.
        """
        enough = self.explained >= max(1.0, RIGHT * self.wrong) and self.cases_explained >= RIGHT * self.cases_wrong
        return enough and self.put_right >= CHANGED * self.changed


def diagnosis(golden: Golden, answer: answer_files.Answer, wrong: np.ndarray) -> Diagnosis:
    """Explain a device. wrong: bool per row of the set, True if the device differs; at least one.

    If nothing explains all arrays, and some are right in every row, the others are explained alone: by what explains
    every wrong row.
    """
    try:
        table = _table(golden, answer, wrong)
        whole = _searched(Search(table), golden, wrong)
        differing = {name: array for name, array in answer.arrays.items() if answer.differing(golden, name).any()}
        if whole.stories or whole.possible or len(differing) == len(answer.arrays):
            return whole
        unknown = {name: bits for name, bits in answer.unknown.items() if name in differing}
        less = replace(table, answer=replace(answer, arrays=differing, unknown=unknown))
        some = _searched(Search(less, until=time.process_time() + ALONE), golden, wrong, table)
    except (Refused, RefusedType) as refusal:
        return Diagnosis(refusal=str(refusal))
    return replace(some if some.stories else whole, hypotheses=whole.hypotheses + some.hypotheses)


def _searched(search: Search, golden: Golden, wrong: np.ndarray, every: Table | None = None) -> Diagnosis:
    """The diagnosis of the arrays of a table. every: the same rows with all arrays, if the table lacks some."""
    table = search.table
    ranked = search.run()
    nothing = score(table, search.predicted(Story())).cost
    listed = min(nothing, tables.listed(table))
    saving = [each for each in ranked if (listed if _is_makeshift(each.story) else nothing) - each.total > GAIN]
    groups = _groups(table, saving)[:FINALISTS]
    counted = [_Counted(group[0]) for group in groups]
    verified = _count(counted, golden, table.answer, wrong, table)
    least = RIGHT if every is None else 1.0
    kept = [(each, group) for each, group in zip(counted, groups, strict=True) if each.holds and each.share >= least]
    if kept:
        best = min(each.scored.total for each, _ in kept)
        kept = [(each, group) for each, group in kept if each.scored.total <= best + GAIN]
        kept = sorted(kept, key=lambda pair: (-pair[0].share, pair[0].scored.total))
    kept = [(each, [*group, *search.alike(group[0])]) for each, group in kept[:MOST]]
    stories = tuple(
        tuple(_explanations(each, group, _agreeing(group[0].story, table, every), table)) for each, group in kept
    )
    rivals = tuple(scored.story for scored in kept[0][1]) if kept else ()
    if every is not None:
        rivals = tuple(story.limited(tuple(table.ports)) for story in rivals)
    possible = () if stories else _possible(ranked)
    return Diagnosis(search.tried, len(table.rows), verified, stories, rivals, possible)


def _is_makeshift(story: Story) -> bool:
    """Whether a story combines so many structural faults that they may fit a few words by chance."""
    return len(story.guesses) > 2 and all(guess.kind != "decision" for guess in story.guesses)


def _agreeing(story: Story, table: Table, every: Table | None) -> tuple[str, ...]:
    """Arrays that a story would change and that a table lacks, since the device is right in them."""
    if every is None:
        return ()
    words = Search(every).predicted(story).words
    lacking = [name for name in every.ports if name not in table.ports]
    return tuple(name for name in lacking if every.changed(name, words[name]).any())


def _table(golden: Golden, answer: answer_files.Answer, wrong: np.ndarray) -> Table:
    """Sample on which even readable devices end in time."""
    table = tables.sample(golden, answer, wrong)
    limit = max(CASES, int(PACE / max(unit_runs.pace(table), TICK)))
    return table if len(table.cases) <= limit else tables.sample(golden, answer, wrong, limit)


def _possible(ranked: Sequence[Scored]) -> tuple[str, ...]:
    """Details of every single guess that corrects all rows of the sample, decisions first."""
    fitting = [scored for scored in ranked if scored.score.perfect and len(scored.story.guesses) == 1]
    ordered = sorted(fitting, key=lambda scored: scored.story.order)
    return tuple(dict.fromkeys(f"right if {scored.story.guesses[0].says}" for scored in ordered))


def _groups(table: Table, ranked: Sequence[Scored]) -> list[list[Scored]]:
    """Stories with equal predictions and as few guesses as the first, decisions first."""
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
    """Verify the stories on as many rows as time allows; returns the number that the best one reached."""
    if not counted or len(table.rows) == golden.rows:
        for each in counted:
            each.add(table, wrong[table.rows], each.scored)
        return len(table.rows)
    for each, seconds in zip(counted, (SECONDS, *[OTHERS] * len(counted)), strict=False):
        start, fast = time.process_time(), each.is_fast(table)
        if not fast:
            each.add(table, wrong[table.rows], each.scored)
        values, done = (PIECE, table.cases[:0]) if fast else (SLOW, table.cases)
        for piece in tables.pieces(golden, answer, values, done):
            each.add(piece, wrong[piece.rows])
            if time.process_time() - start > seconds:
                break
    return counted[0].rows


def _explanations(
    counted: _Counted, group: Sequence[Scored], agreeing: tuple[str, ...], table: Table
) -> Iterator[Explanation]:
    """The parts of a story. agreeing: arrays that it would change, and in which the device is right."""
    guesses = counted.scored.story.guesses
    ports = tuple(map(short, table.ports)) if agreeing else ()
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
            title(table.unit.key, guess.name),
            ports if guess.runs else (),
            tuple(map(short, agreeing)) if guess.runs else (),
        )


def title(unit: str, id: str) -> str:
    """Title of a decision of a unit, to be read after its id; "" if it has no entry."""
    entry = decisions.of_unit(unit, id)
    if entry is None:
        return ""
    first = entry.title.partition(" ")[0]
    return entry.title[0].lower() + entry.title[1:] if first[1:].islower() or first == "A" else entry.title


def _matching(guesses: Sequence[Fault], place: int, guess: Fault) -> Fault | None:
    """The guess at the same place of a story with equal predictions."""
    return guesses[place] if place < len(guesses) else None
