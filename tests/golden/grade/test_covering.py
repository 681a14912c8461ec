"""A few cases that detect missed faults: rows, neighbours, reasons."""

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.faults.fault import Fault
from refemu.golden.grade import covering
from refemu.golden.grade.answers import Answers, of_cases
from refemu.golden.grade.grading import Missed


def test_the_cover_is_small_and_complete() -> None:
    tells = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0]], np.bool_)

    assert covering.cover(tells) == [0, 1, 3]
    assert covering.cover(np.zeros((0, 4), np.bool_)) == []
    with pytest.raises(Refused, match="some case must detect every fault"):
        covering.cover(np.zeros((1, 4), np.bool_))


def pool() -> Answers:
    unit = units.find("olive_mac")
    config = unit.configs["wrap"]
    block = next(case for case in unit.cases(config, "random", 0))
    return of_cases(unit, config, [block], spare=True)


def missed(answers: Answers, rows: list[int], name: str, remembers: bool = False) -> Missed:
    shown = np.zeros(answers.rows, np.bool_)
    shown[rows] = True
    return Missed(Fault(name, f"{name} is wrong", remembers=remembers), answers, shown)


def test_case_ends_at_last_needed_row() -> None:
    answers = pool()
    steps = answers.steps
    (block,) = covering.cases(
        [missed(answers, [steps + 2, steps + 5], "a"), missed(answers, [steps + 3], "b")], "fault"
    )

    assert block.inputs["load"].shape == (1, 4)
    assert np.array_equal(block.inputs["acc_in"], answers.blocks[0].cases.inputs["acc_in"][1:2, :4])
    assert block.why == "a is wrong; b is wrong; detected here" and block.source == {"faults": ["a", "b"]}
    assert block.kind == "fault"


def test_a_fault_is_named_once() -> None:
    answers = pool()
    steps = answers.steps
    some = [missed(answers, [0], "a"), missed(answers, [0, steps], "b"), missed(answers, [steps], "c")]
    named = [block.source["faults"] for block in covering.cases(some, "fault")]

    assert named == [["a", "b"], ["c"]]


def test_cases_around_come_whole() -> None:
    answers = pool()
    steps = answers.steps
    (remembered,) = covering.cases([missed(answers, [steps], "a", remembers=True)], "fault")
    (around,) = covering.cases([missed(answers, [steps], "a")], "fault", around=1)

    assert remembered.inputs["load"].shape == (3, 1) and around.inputs["load"].shape == (3, steps)


def test_rows_of_a_solver_are_shared() -> None:
    """Two faults with a row each, the first of which shows both."""
    unit = units.find("olive_mac")
    config = unit.configs["wrap"]
    one, other = (of_cases(unit, config, [next(iter(unit.cases(config, "paper", 0)))]) for _ in range(2))

    def wrong(answers: Answers) -> np.ndarray:
        return np.ones(answers.rows, np.bool_)

    some = [Missed(Fault(name, name, program=wrong), rows, wrong(rows)) for name, rows in (("a", one), ("b", other))]
    (block,) = covering.cases(some, "fault")

    assert block.source == {"faults": ["a", "b"]}


def test_long_reasons_are_counted() -> None:
    answers = pool()
    (block,) = covering.cases([missed(answers, [0], name) for name in "abcd"], "fault")

    assert block.why == "a is wrong; b is wrong; and 2 more, detected here"
