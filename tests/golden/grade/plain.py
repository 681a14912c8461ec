"""A set as plain lists, and the rows that a device gets wrong: testbench and device without NumPy."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from refemu import golden
from refemu.golden.faults.fault import Fault
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade.answers import Answers

Row = dict[str, list[int]]  #: words of an output by lane
Device = Callable[[list[Row]], list[Row]]  #: the right answers of a case -> the device's answers


def committed(name: str) -> Answers:
    """The rows of a committed set."""
    return answers_of.of_set(golden.load(Path(__file__).resolve().parents[3] / "vectors" / name))


def rows(answers: Answers, arrays: Mapping[str, Any]) -> list[Row]:
    """A dictionary for each row."""
    return [{name: [int(word) for word in arrays[name][row]] for name in arrays} for row in range(answers.rows)]


def streams(answers: Answers) -> list[list[int]]:
    """Rows of each case; all rows of a combinational unit."""
    if answers.unit.timing != "event":
        return [list(range(answers.rows))]
    cases: dict[int, list[int]] = {}
    for row, case in enumerate(answers.cases.tolist()):
        cases.setdefault(case, []).append(row)
    return list(cases.values())


def wrong(answers: Answers, device: Device) -> list[bool]:
    """Rows in which a bit that counts is wrong."""
    right, care = rows(answers, answers.outputs), rows(answers, answers.care)
    outcome = [False] * answers.rows
    for stream in streams(answers):
        got = device([{name: list(words) for name, words in right[row].items()} for row in stream])
        for row, given in zip(stream, got, strict=True):
            outcome[row] = any(
                (want ^ word) & mask
                for name in right[row]
                for want, word, mask in zip(right[row][name], given[name], care[row][name], strict=True)
            )
    return outcome


def each(change: Callable[[Row], None]) -> Device:
    """A device that changes every row independently."""

    def device(case: list[Row]) -> list[Row]:
        for row in case:
            change(row)
        return case

    return device


def by_id(faults: Any, answers: Answers) -> dict[str, Fault]:
    """Faults by their ids, which must be unique."""
    listed = list(faults(answers))
    table = {fault.id: fault for fault in listed}
    assert len(table) == len(listed) and all(fault.says for fault in listed)
    return table
