"""The rows of a set for explanations: stimulus, expected answers, and the device's answers."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from refemu import units
from refemu.golden.compare import answer_files
from refemu.golden.faults.fault import Words
from refemu.golden.files import fields, masks, sets
from refemu.golden.files.sets import Golden
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Config

ROWS, CELLS, VALUES = 4096, 1 << 19, 1 << 21  #: of a sample, at most: rows, lanes of outputs, values of the stimulus
SCREEN = 1 << 11  #: values of the stimulus on which a slow device is tried first
PIECE = 1 << 20  #: cases of which numbers are found at a time
PART = 8  #: share of the cases of a table that such a device is tried on at most: one of so many
NEIGHBOURS = 3  #: consecutive rows of a unit without registers in a sample, to show late rows


@dataclass(frozen=True, eq=False)
class Group:
    """Cases of one length."""

    rows: np.ndarray  #: rows of the set: (cases, rows of a case)
    inputs: Mapping[str, np.ndarray]  #: inputs of the unit, by port

    def pick(self, cases: slice | np.ndarray) -> "Group":
        """Some of the cases."""
        return Group(self.rows[cases], {name: array[cases] for name, array in self.inputs.items()})


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a set, grouped by the length of their cases."""

    golden: Golden
    answer: answer_files.Answer
    cases: np.ndarray  #: first row of every case of the table, ascending

    @cached_property
    def unit(self) -> AnyUnit:
        """Unit of the set."""
        unit: AnyUnit = units.find(self.golden.manifest["unit"])
        return unit

    @cached_property
    def config(self) -> Config:
        """Configuration of the set."""
        return self.unit.config(self.golden.config)

    @cached_property
    def ports(self) -> dict[str, Port]:
        """Arrays of the device's answer."""
        names = [entry["name"] for entry in self.golden.manifest["arrays"]]
        return {name: sets.port_of(self.golden.array(name)) for name in names if name in self.answer.arrays}

    @cached_property
    def groups(self) -> list[Group]:
        """Cases by length, with their stimulus."""
        lengths = _lengths(self.golden, self.cases)
        return [_group(self, self.cases[lengths == length], int(length)) for length in np.unique(lengths).tolist()]

    @cached_property
    def rows(self) -> np.ndarray:
        """Row of the set for each row of the table."""
        return np.concatenate([group.rows.reshape(-1) for group in self.groups])

    def place(self, rows: np.ndarray) -> np.ndarray:
        """Row of the table for each of these rows of the set; -1 if missing."""
        at = np.minimum(np.searchsorted(self.rows, rows, sorter=self._order), len(self.rows) - 1)
        place = self._order[at]
        return np.where(self.rows[place] == rows, place, -1)

    @property
    def numbers(self) -> np.ndarray:
        """Row of the set of each row here."""
        return self.rows

    def span(self, within: bool) -> tuple[np.ndarray, np.ndarray]:
        """First and last row of the case of each row; of the set, where not `within` a case or without registers."""
        if not within or self.unit.timing != "event":
            return np.zeros(len(self.rows), np.int64), np.full(len(self.rows), self.golden.rows - 1)
        first = self.first(self.rows)
        return first, first + _lengths(self.golden, first) - 1

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.rows, kind="stable")

    @cached_property
    def want(self) -> Words:
        """Answers of the set."""
        return {name: self._flat(self.golden.arrays[name], port) for name, port in self.ports.items()}

    @cached_property
    def got(self) -> Words:
        """Answers of the device."""
        return {name: self._flat(self.answer.arrays[name], port) for name, port in self.ports.items()}

    @cached_property
    def _care(self) -> Words:
        care = self.golden.arrays
        return {
            name: self._flat(care[f"{name}.care"], port) for name, port in self.ports.items() if f"{name}.care" in care
        }

    @cached_property
    def _unknown(self) -> Words:
        return {name: self._flat(bits, self.ports[name]) for name, bits in self.answer.unknown.items()}

    def unlike(self, name: str, words: np.ndarray) -> np.ndarray:
        """Bits that count in which the device differs from `words`, in their shape; 0 if equal."""
        return self._differing(name, words, self.got[name], self._unknown.get(name))

    def changed(self, name: str, words: np.ndarray) -> np.ndarray:
        """Bits that count in which `words` differ from the answers of the set."""
        return self._differing(name, self.want[name], words, None)

    def _differing(self, name: str, want: np.ndarray, got: np.ndarray, unknown: np.ndarray | None) -> np.ndarray:
        loose = name in self.answer.any_nan
        return masks.differing(want, got, self.ports[name], self._care.get(name), unknown, loose)

    def wrong(self, words: Words) -> np.ndarray:
        """Rows in which the device does not give `words`: bool."""
        rows = [(self.unlike(name, words[name]) != 0).any(axis=1) for name in self.ports]
        return np.asarray(np.any(rows, axis=0))

    def first(self, rows: np.ndarray) -> np.ndarray:
        """First row of the case of each of these rows of the set."""
        return self.cases[np.searchsorted(self.cases, rows, side="right") - 1]

    def by_case(self, rows: np.ndarray) -> np.ndarray:
        """Number of marked rows in each case. rows: bool per row of the table."""
        cases = np.searchsorted(self.cases, self.first(self.rows[rows]))
        return np.bincount(cases, minlength=len(self.cases))

    def _flat(self, array: np.ndarray, port: Port) -> np.ndarray:
        return np.asarray(array.reshape(self.golden.rows, port.count)[self.rows])


def listed(table: Table) -> float:
    """Bits of a list of wrong words and of what the device has in their place; infinite if that varies."""
    bits = 0
    for name, port in table.ports.items():
        want, got = table.want[name].ravel(), table.got[name].ravel()
        pairs = np.unique(np.stack([want, got]), axis=1)
        if pairs.shape[1] > len(np.unique(want)):
            return math.inf
        bits += 2 * port.bits * int(np.count_nonzero(pairs[0] != pairs[1]))
    return bits


def whole(golden: Golden, answer: answer_files.Answer) -> Table:
    """All rows of a set."""
    return Table(golden, answer, _starts(golden, 0, _count(golden)))


def sample(golden: Golden, answer: answer_files.Answer, wrong: np.ndarray, limit: int | None = None) -> Table:
    """A sample of cases for a search, wrong ones first, spread over the set.

    wrong: bool per row of the set. limit: most cases.
    """
    every = _count(golden)
    most = min(max(2, int(every * _share(golden))), limit or every)
    if most >= every:
        return whole(golden, answer)
    together = 2 if golden.manifest["timing"] == "event" else NEIGHBOURS
    bad = np.concatenate(
        [
            wrong[entry["first"] : entry["first"] + entry["cases"] * entry["rows"]]
            .reshape(-1, entry["rows"])
            .any(axis=1)
            for entry in golden.manifest["cases"]
        ]
    )
    room = max(1, most // together)
    chosen = _spread(bad, max(room - (every - int(np.count_nonzero(bad))), room * 3 // 4))
    chosen = np.concatenate([chosen, _spread(~bad, room - len(chosen))])
    near = np.unique((chosen[:, None] + np.arange(1 - together, 1)).reshape(-1))
    return Table(golden, answer, _first_rows(golden, near[near >= 0]))


def screen(table: Table, wrong: np.ndarray) -> Table:
    """A few cases of a table for slow devices, wrong ones first. wrong: bool per row of the table."""
    starts = table.cases
    by_case = np.zeros(len(starts), np.bool_)
    by_case[np.searchsorted(starts, table.first(table.rows[wrong]))] = True
    room = max(3, min(len(starts) // PART, SCREEN // max(1, _values(table.golden) * _length(table))))
    if room >= len(starts):
        return table
    chosen = _spread(by_case, room * 3 // 4)
    chosen = np.concatenate([chosen, _spread(~by_case, room - len(chosen))])
    return Table(table.golden, table.answer, starts[np.sort(chosen, kind="stable")])


def pieces(golden: Golden, answer: answer_files.Answer, values: int, without: np.ndarray) -> Iterator[Table]:
    """The cases of a set in parts of about `values` values of stimulus and answers.

    without: first rows of cases to leave out, ascending.
    """
    every = _count(golden)
    each = max(1, (_values(golden) + _answers(golden)) * -(-golden.rows // every))
    count = max(1, values // each)
    for start in range(0, every, count):
        cases = _starts(golden, start, min(start + count, every))
        cases = cases[np.searchsorted(without, cases) == np.searchsorted(without, cases, side="right")]
        if len(cases):
            yield Table(golden, answer, cases)


def _count(golden: Golden) -> int:
    """Number of cases."""
    count = 0
    for entry in golden.manifest["cases"]:
        count += entry["cases"]
    return count


def _starts(golden: Golden, start: int, stop: int) -> np.ndarray:
    """First rows of the cases from number `start` to before `stop`."""
    return _first_rows(golden, np.arange(start, stop))


def _first_rows(golden: Golden, numbers: np.ndarray) -> np.ndarray:
    """First rows of the cases with these numbers."""
    first, cases, rows = (
        np.array([entry[name] for entry in golden.manifest["cases"]]) for name in ("first", "cases", "rows")
    )
    before = np.cumsum(cases) - cases
    entry = np.searchsorted(before, numbers, side="right") - 1
    return np.asarray(first[entry] + (numbers - before[entry]) * rows[entry])


def _lengths(golden: Golden, cases: np.ndarray) -> np.ndarray:
    """Rows of each case."""
    firsts = np.array([entry["first"] for entry in golden.manifest["cases"]])
    rows = np.array([entry["rows"] for entry in golden.manifest["cases"]])
    return np.asarray(rows[np.searchsorted(firsts, cases, side="right") - 1])


def _group(table: Table, cases: np.ndarray, length: int) -> Group:
    rows = cases[:, None] + np.arange(length)
    inputs = {}
    for port in table.unit.ports(table.config).inputs:
        values = fields.decode(table.golden.arrays[f"in.{port.name}"][rows], port)
        inputs[port.name] = values if table.unit.timing == "event" else values[:, 0]
    return Group(rows, inputs)


def _spread(marked: np.ndarray, count: int) -> np.ndarray:
    """Numbers of at most `count` of the marked cases, evenly spaced, ascending."""
    every = int(np.count_nonzero(marked))
    wanted = np.arange(every) if every <= count else np.linspace(0, every - 1, max(0, count)).astype(np.int64)
    chosen, seen = [wanted[:0]], 0
    for start in range(0, len(marked), PIECE):
        here = np.flatnonzero(marked[start : start + PIECE]) + start
        chosen.append(here[wanted[(wanted >= seen) & (wanted < seen + len(here))] - seen])
        seen += len(here)
    return np.concatenate(chosen)


def _share(golden: Golden) -> float:
    """Share of the rows in a sample."""
    rows, answers, values = golden.rows, _answers(golden), _values(golden)
    return min(1.0, ROWS / rows, CELLS / (rows * answers), VALUES / (rows * values))


def _length(table: Table) -> int:
    """Average rows of a case, without decoding the stimulus."""
    return int(-(-_lengths(table.golden, table.cases).sum(dtype=np.int64) // len(table.cases)))


def _values(golden: Golden) -> int:
    """Lanes of the stimulus of a row."""
    return _lanes(golden, "stimulus")


def _answers(golden: Golden) -> int:
    """Lanes of the answers to a row."""
    return _lanes(golden, "expected")


def _lanes(golden: Golden, role: str) -> int:
    count = 0
    for entry in golden.manifest["arrays"]:
        count += entry["lanes"] if entry["role"] == role else 0
    return max(1, count)
