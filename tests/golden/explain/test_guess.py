"""Stories and their costs."""

import numpy as np
import pytest

from refemu.golden.explain.guess import Story, restricted
from refemu.golden.faults.fault import Fault, bits_of
from refemu.units.variant import Variant


@pytest.mark.parametrize(("count", "bits"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (256, 8), (257, 9)])
def test_bits_select_one_of_many(count: int, bits: int) -> None:
    assert bits_of(count) == bits


def guess(name: str, runs: bool, price: int = 0) -> Fault:
    if runs:
        return Fault(name, "", name, price=price, variants=(Variant(name, ""),))
    return Fault(name, "", name, price=price, answers=lambda rows, words: words)


def test_running_guesses_precede_changes_of_answers() -> None:
    swap, decision, late = guess("port_swap", False, 2), guess("D-kllm-3", True), guess("row_shift", False, 3)
    story = Story().with_(swap).with_(decision).with_(late)

    assert [each.name for each in story.guesses] == ["D-kllm-3", "port_swap", "row_shift"]
    assert story.price == 5 and story.order == (3, 2)


def test_other_lanes_and_arrays_are_unchanged() -> None:
    old = {"out.a": np.zeros((2, 3), np.uint8), "out.b": np.zeros((2, 1), np.uint8)}
    new = {name: array + 1 for name, array in old.items()}
    words = restricted(new, old, [2], 3)
    assert words["out.a"].tolist() == [[0, 0, 1]] * 2 and words["out.b"].tolist() == [[1]] * 2
