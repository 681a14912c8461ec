"""Another value of a parameter under which the device would be right."""

from pathlib import Path

import numpy as np
import pytest

from refemu.golden.compare.diff import differing
from refemu.golden.compare.dut import Answer
from refemu.golden.compare.explain import explanations
from refemu.golden.files import sets


@pytest.fixture
def pair(made: Path) -> tuple[sets.Golden, dict[str, np.ndarray]]:
    golden, other = sets.load(made / "blender-wrap"), sets.load(made / "blender-saturate")
    return golden, {
        name: array.copy() for name, array in other.arrays.items() if name in ("out.both", "out.ratio", "out.odd")
    }


RIGHT = (
    "the device is right in every row if overflow is 'saturate' (here 'wrap'); "
    "8 of 28 rows can tell that from the set's answers"
)


def told(
    golden: sets.Golden,
    answers: dict[str, np.ndarray],
    unknown: dict[str, np.ndarray] | None = None,
    any_nan: frozenset[str] = frozenset(),
) -> tuple[str, ...]:
    """The explanations for all rows that differ in a bit that counts."""
    answer = Answer(answers, unknown or {}, any_nan)
    unlike = differing(golden, answer).values()
    wrong = np.any([bits.reshape(golden.rows, -1).any(axis=1) for bits in unlike], axis=0)
    return explanations(golden, answer, wrong, int(np.argmax(wrong)))


def test_a_parameter_that_explains_every_row(pair: tuple[sets.Golden, dict[str, np.ndarray]]) -> None:
    assert told(*pair) == (
        RIGHT,
        "the expected answer follows D-fake-1; see docs/decisions.md",
    )


def test_a_parameter_that_explains_the_first_row(pair: tuple[sets.Golden, dict[str, np.ndarray]]) -> None:
    golden, answers = pair
    answers["out.odd"][20] ^= 1

    assert told(golden, answers) == (
        "the expected answer follows D-fake-1; see docs/decisions.md",
        "the device is right in row 2 if overflow is 'saturate' (here 'wrap')",
    )


def test_bits_that_do_not_count_do_not_spoil_an_explanation(pair: tuple[sets.Golden, dict[str, np.ndarray]]) -> None:
    golden, answers = pair
    answers["out.ratio"][golden.arrays["out.ratio.care"] == 0] ^= 1

    assert told(golden, answers)[0] == RIGHT


def test_how_many_rows_can_tell_is_said(pair: tuple[sets.Golden, dict[str, np.ndarray]], made: Path) -> None:
    """Counted from both sets: rows in which the alternative's answers, where they count, are not those of the set."""
    golden, other = pair[0], sets.load(made / "blender-saturate")
    unlike = (golden.arrays["out.both"] != other.arrays["out.both"]).any(axis=1)

    assert f"; {np.count_nonzero(unlike)} of {golden.rows} rows can tell" in RIGHT
    assert told(*pair)[0] == RIGHT


def test_an_unknown_bit_is_right_under_no_alternative(pair: tuple[sets.Golden, dict[str, np.ndarray]]) -> None:
    """x reads as 0, which some alternative may have there."""
    golden, answers = pair
    unknown = {"out.odd": np.zeros(golden.rows, np.uint8)}
    assert told(golden, answers, unknown)[0] == RIGHT
    unknown["out.odd"][4] = 1

    assert not any("every row" in sentence for sentence in told(golden, answers, unknown))


def test_nothing_explains_a_broken_device(pair: tuple[sets.Golden, dict[str, np.ndarray]]) -> None:
    golden, answers = pair
    answers["out.odd"] ^= 1

    assert told(golden, answers) == ()


def test_the_decisions_behind_a_case_and_its_flags_are_named(pair: tuple[sets.Golden, dict[str, np.ndarray]]) -> None:
    golden, _ = pair
    flags = {**golden.manifest["flags"], "OVERFLOW": {"bit": 0, "why": "a sum left 5 bits (D-fake-2)"}}
    marked = sets.Golden({**golden.manifest, "flags": flags}, golden.arrays)
    wrong = np.arange(golden.rows) == 2

    assert explanations(marked, Answer({"out.odd": 1 - golden.arrays["out.odd"]}, {}), wrong, 2) == (
        "the expected answer follows D-fake-1; see docs/decisions.md",
        "row 2 is OVERFLOW: a sum left 5 bits (D-fake-2)",
    )
