"""A device's answer compared with a set: the first difference, decoded, and the number of differences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from refemu.arguments import checked
from refemu.arith.checks import Refused
from refemu.golden.compare import answer_files, distance, waivers
from refemu.golden.compare.decode import Value, value
from refemu.golden.compare.distance import Distance
from refemu.golden.explain.diagnosis import Diagnosis, Explanation, diagnosis
from refemu.golden.explain.histograms import Where, where
from refemu.golden.files import sets
from refemu.golden.files.sets import Golden


@dataclass(frozen=True)
class Mismatch:
    """The first difference by row, then by port in the order of the set, then by lane."""

    array: str  #: `out.<port>` or `st.<register>`
    port: str  #: name of the port
    case: int  #: number of its first row, as `refemu step --case` takes it
    id: str  #: id of the case, "edge/ties/3", which `refemu step --case` takes too
    row: int  #: row of the set
    lane: int  #: lane of the port
    lanes: int  #: number of lanes of the port
    kind: str  #: kind of the case
    why: str  #: reason of the case
    decision: str  #: id of the decision that the expected answer follows, or ""
    flags: tuple[str, ...]  #: flags of the row
    stimulus: Mapping[str, tuple[Value, ...]]  #: input port -> its lanes in this row
    got: Value  #: answer of the device
    want: Value  #: answer of the set


@dataclass(frozen=True)
class Difference:
    """Outcome of `diff`."""

    set: str  #: name of the set
    unit: str  #: name of the unit
    config: str  #: name of the configuration
    rows: int  #: compared
    compared: tuple[str, ...]  #: arrays that were compared
    not_compared: tuple[str, ...]  #: arrays of the set that the answer lacks, or that `ports` excludes
    any_nan: tuple[str, ...]  #: arrays in which NaNs count as equal: floats, and with `any_nan` words too
    rows_differ: int  #: rows that differ
    ports: Mapping[str, int]  #: array -> rows in which it differs, only those with any
    flags: Mapping[str, int]  #: flag -> differing rows that carry it; "" for rows without any
    first: Mismatch | None  #: first difference, None where there is none
    where: Where = field(default_factory=Where)  #: where it differs
    distances: Mapping[str, Distance] = field(default_factory=dict)  #: array -> how far it is off, if it differs
    excluded: tuple[str, ...] = ()  #: those of `not_compared` that the answer has and `ports` excludes
    diagnosis: Diagnosis | None = None  #: with `explain`, what a device that differs did
    waived: tuple[str, ...] = ()  #: flags, decisions and cases whose rows or bits were not compared
    rows_waived: int = 0  #: rows that were not compared
    bits_masked: int = 0  #: bits of other rows that were not compared
    detected: int = 0  #: quick faults that the set detects without the waivers; 0 if there are none
    undetected: tuple[str, ...] = ()  #: ids of those that it misses under the waivers

    @property
    def equal(self) -> bool:
        """Whether every compared bit is as expected."""
        return self.rows_differ == 0

    @property
    def explanations(self) -> tuple[Explanation, ...]:
        """Changes that explain the device, the likeliest first; () if nothing does."""
        return self.diagnosis.explanations if self.diagnosis else ()

    @property
    def remark(self) -> str:
        """Remark `all 12 are TIE` if every differing row has one flag, else ""."""
        all_ = [name for name, count in self.flags.items() if name and count == self.rows_differ]
        return f"all {self.rows_differ} are {' and '.join(all_)}" if all_ and self.rows_differ > 0 else ""


@checked
def diff(
    golden_path: str | Path,
    dut_path: str | Path | Mapping[str, Any],
    explain: bool = False,
    ports: Sequence[str] | None = None,
    any_nan: bool = False,
    waive: Sequence[str] = (),
    force: bool = False,
) -> Difference:
    """Compare a device's answer with a set in every bit that counts.

    Parameters
    ----------
    golden_path : str or Path
        Directory of the set.
    dut_path : str, Path or mapping of str to array_like
        An .npz of `out.*` (and `st.*`) arrays, another set's directory, text like `gold.mem`, or the arrays or tensors
        themselves. Outputs that it lacks are not compared; at least one is needed.
    explain : bool
        Look for what the device did: variants of decisions, structural changes, and compositions of them.
    ports : sequence of str, optional
        Outputs that count, all of which the answer must have; by default those that it has.
    any_nan : bool
        Accept any NaN for any NaN in integer words too; in arrays of floats that is always so.
    waive : sequence of str
        What not to compare: rows with a flag, bits that a variant of a decision changes, rows of a case.
    force : bool
        Allow a flag to leave out more than a tenth of the rows.

    Returns
    -------
    Difference
        First difference, and the number of differences.

    Raises
    ------
    Refused
        A file cannot be read, nothing can be compared, or a waiver matches no row or too many.
    """
    golden = sets.load(golden_path)
    answer = answer_files.read(dut_path, golden, ports, any_nan)
    if not waive:
        return compare(golden, answer, explain)
    left = waivers.bits(golden, waive, force)
    difference = compare(waivers.without(golden, left), answer, explain)
    rows, masked = waivers.counts(golden, {name: left[name] for name in difference.compared})
    detected, undetected = waivers.coverage(golden, left)
    return replace(
        difference,
        waived=tuple(waive),
        rows_waived=golden.rows - rows,
        bits_masked=masked,
        detected=detected,
        undetected=tuple(undetected),
    )


def compare(golden: Golden, answer: answer_files.Answer, explain_: bool = False) -> Difference:
    """Compare a set with an answer that was read; see `diff`."""
    entries = {entry["name"]: entry for entry in golden.manifest["arrays"] if entry["role"] in ("expected", "state")}
    compared = [name for name in entries if name in answer.arrays]
    if not any(_cared(golden, name) for name in compared):
        raise Refused(f"{golden.name}: nothing was compared, since no array of the answer has a bit that counts")
    rows = {name: answer.wrong_rows(golden, name) for name in answer.compared(golden)}
    any_row = np.logical_or.reduce(list(rows.values()))
    flags = _flag_counts(golden, any_row)
    first = _mismatch(golden, answer, entries, int(np.argmax(any_row))) if any_row.any() else None
    return Difference(
        golden.name,
        golden.manifest["unit"],
        golden.config,
        golden.rows,
        tuple(compared),
        tuple(name for name in entries if name not in answer.arrays),
        tuple(name for name in compared if name in answer.any_nan),
        int(np.count_nonzero(any_row)),
        {name: int(np.count_nonzero(mask)) for name, mask in rows.items() if mask.any()},
        flags,
        first,
        where(golden, answer, any_row, flags),
        {name: _distance(golden, answer, name) for name, mask in rows.items() if mask.any()},
        answer.excluded,
        diagnosis(golden, answer, any_row) if explain_ and first else None,
    )


def _distance(golden: Golden, answer: answer_files.Answer, name: str) -> Distance:
    """How far an array is off that differs."""
    got, want, wrong = answer.arrays[name], golden.arrays[name], np.zeros(golden.arrays[name].shape, np.bool_)
    for rows, unlike in answer.pieces(golden, name):
        wrong[rows] = (unlike != 0).reshape(wrong[rows].shape)
    return distance.of_port(got, want, wrong, sets.port_of(golden.array(name)))


def differing(golden: Golden, answer: answer_files.Answer) -> dict[str, np.ndarray]:
    """Masks of the elements in which a bit that counts differs or is x: bool by array, in the order of the set."""
    return {name: answer.differing(golden, name) != 0 for name in answer.compared(golden)}


def _cared(golden: Golden, name: str) -> bool:
    mask = golden.arrays.get(f"{name}.care")
    return mask is None or bool(mask.any())


def _flag_counts(golden: Golden, rows: np.ndarray) -> dict[str, int]:
    words = golden.arrays["flags"][rows]
    named = {
        name: int(np.count_nonzero(words & words.dtype.type(1 << flag["bit"])))
        for name, flag in golden.manifest["flags"].items()
    }
    return {name: count for name, count in {**named, "": int(np.count_nonzero(words == 0))}.items() if count}


def _mismatch(
    golden: Golden,
    answer: answer_files.Answer,
    entries: Mapping[str, Mapping[str, Any]],
    row: int,
) -> Mismatch:
    here = slice(row, row + 1)
    wrong = {name: answer.differing(golden, name, rows=here) != 0 for name in answer.compared(golden)}
    name = next(name for name, mask in wrong.items() if mask.any())
    lane = int(np.argmax(wrong[name]))
    port, entry = sets.port_of(entries[name]), golden.entry(row)
    unknown = answer.unknown.get(name)
    flags = int(golden.arrays["flags"][row])
    return Mismatch(
        name,
        port.name,
        golden.case(row),
        golden.case_id(row),
        row,
        lane,
        port.count,
        entry["kind"],
        entry["why"],
        entry.get("decision", ""),
        tuple(flag for flag, item in golden.manifest["flags"].items() if flags >> item["bit"] & 1),
        _stimulus(golden, row),
        value(_code(answer.arrays[name], row, lane), port, _code(unknown, row, lane) if unknown is not None else 0),
        value(_code(golden.arrays[name], row, lane), port),
    )


def _code(array: np.ndarray, row: int, lane: int) -> int:
    return int(array[row].reshape(-1)[lane])


def _stimulus(golden: Golden, row: int) -> dict[str, tuple[Value, ...]]:
    values = {}
    for entry in golden.manifest["arrays"]:
        if entry["role"] == "stimulus":
            port = sets.port_of(entry)
            codes = golden.arrays[entry["name"]][row].reshape(-1).tolist()
            values[port.name] = tuple(value(code, port) for code in codes)
    return values
