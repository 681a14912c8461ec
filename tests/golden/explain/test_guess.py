"""Stories and their costs."""

import numpy as np
import pytest

from refemu.golden.explain.guess import Guess, Story, bits_of, restricted


@pytest.mark.parametrize(("count", "bits"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (256, 8), (257, 9)])
def test_bits_select_one_of_many(count: int, bits: int) -> None:
    assert bits_of(count) == bits


def guess(id: str, runs: bool, price: int = 0) -> Guess:
    return Guess(
        "decision" if runs else "structure", id, "", {}, price, change=None if runs else lambda table, words: words
    )


def test_running_guesses_precede_changes_of_answers() -> None:
    swap, decision, late = guess("port_swap", False, 2), guess("D-kllm-3", True), guess("row_shift", False, 3)
    story = Story().with_(swap).with_(decision).with_(late)

    assert [each.id for each in story.guesses] == ["D-kllm-3", "port_swap", "row_shift"]
    assert story.price == 5 and story.order == (3, 2)


def test_other_lanes_and_arrays_are_unchanged() -> None:
    old = {"out.a": np.zeros((2, 3), np.uint8), "out.b": np.zeros((2, 1), np.uint8)}
    new = {name: array + 1 for name, array in old.items()}
    words = restricted(new, old, [2], 3)
    assert words["out.a"].tolist() == [[0, 0, 1]] * 2 and words["out.b"].tolist() == [[1]] * 2
