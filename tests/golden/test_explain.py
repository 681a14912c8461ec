"""Another value of a parameter under which the device would be right."""

from pathlib import Path

import numpy as np
import pytest

from refemu.golden import sets
from refemu.golden.explain import explanations


@pytest.fixture
def pair(made: Path) -> tuple[sets.Golden, dict[str, np.ndarray]]:
    golden, other = sets.load(made / "blender-wrap"), sets.load(made / "blender-saturate")
    return golden, {
        name: array.copy() for name, array in other.arrays.items() if name in ("out.both", "out.ratio", "out.odd")
    }


def told(golden: sets.Golden, answers: dict[str, np.ndarray]) -> tuple[str, ...]:
    """The explanations for all rows that differ in a bit that counts."""
    unlike = {
        name: (golden.arrays[name] ^ array) & golden.arrays.get(f"{name}.care", ~(array & 0))
        for name, array in answers.items()
    }
    wrong = np.any([(bits != 0).reshape(golden.rows, -1).any(axis=1) for bits in unlike.values()], axis=0)
    return explanations(golden, answers, wrong, int(np.argmax(wrong)))


def test_a_parameter_that_explains_every_row(pair: tuple[sets.Golden, dict[str, np.ndarray]]) -> None:
    assert told(*pair) == (
        "the device is right in every row if overflow is 'saturate' (here 'wrap')",
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

    assert (
        told(golden, answers)[0]
        == "the device is right in every row if overflow is 'saturate' (here 'wrap')"
    )


def test_nothing_explains_a_broken_device(pair: tuple[sets.Golden, dict[str, np.ndarray]]) -> None:
    golden, answers = pair
    answers["out.odd"] ^= 1

    assert told(golden, answers) == ()


def test_the_decisions_behind_a_case_and_its_flags_are_named(pair: tuple[sets.Golden, dict[str, np.ndarray]]) -> None:
    golden, _ = pair
    flags = {**golden.manifest["flags"], "OVERFLOW": {"bit": 0, "why": "a sum left 5 bits (D-fake-2)"}}
    marked = sets.Golden({**golden.manifest, "flags": flags}, golden.arrays)
    wrong = np.arange(golden.rows) == 2

    assert explanations(marked, {"out.odd": 1 - golden.arrays["out.odd"]}, wrong, 2) == (
        "the expected answer follows D-fake-1; see docs/decisions.md",
        "row 2 is OVERFLOW: a sum left 5 bits (D-fake-2)",
    )
