"""The 16-input unit at its ports: sorts of the available values, the array's unit register by register, 273 of them."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.units.kllm import orizuru16
from refemu.units.kllm.orizuru.array import Unit16, Value
from refemu.units.kllm.orizuru.trees import MAX, MIN
from refemu.units.kllm.orizuru16 import UNIT
from refemu.units.stepping import Result

IMPLEMENTATIONS = [pytest.param(orizuru16.run, id="unit"), pytest.param(UNIT.run_compiled, id="compiled")]
Run = Callable[..., Result]
WORDS = st.sampled_from([0x0000, 0x8000, 0x3C00, 0xBC00, 0x3C01, 0x7C00, 0xFC00, 0x0001])
ROW = st.lists(WORDS, min_size=16, max_size=16)
VALID = st.lists(st.integers(0, 1), min_size=16, max_size=16)


def value(word: int) -> float:
    """Of a word."""
    return float(np.uint16(word).view(np.float16))


def winner(words: list[int], valid: list[int], sign: int) -> int:
    """The input at a root: the first of the best available ones, by pairs from the left; without any, the first."""
    places = [(at, sign * value(word), ok) for at, (word, ok) in enumerate(zip(words, valid, strict=True))]
    while len(places) > 1:
        pairs = zip(places[::2], places[1::2], strict=True)
        places = [right if right[2] and (not left[2] or right[1] > left[1]) else left for left, right in pairs]
    return places[0][0]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=60)
@given(ROW, VALID, ROW, VALID)
def test_roots_are_the_best_available_values(
    run: Run, top: list[int], top_valid: list[int], low: list[int], low_valid: list[int]
) -> None:
    """[kllm §IV-C] above the leaves: both trees have inputs of their own, and compare all of them."""
    answer: Any = run([top], [top_valid], [low], [low_valid], min_leaf="compare")
    up, down = winner(top, top_valid, 1), winner(low, low_valid, -1)

    assert (answer.max_index.item(), answer.min_index.item()) == (up, down)
    assert (answer.root_max.item(), answer.root_min.item()) == (top[up], low[down])
    assert (answer.root_max_valid.item(), answer.root_min_valid.item()) == (top_valid[up], low_valid[down])
    assert answer.comparisons == 30


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=40)
@given(ROW, VALID, VALID)
def test_registers_are_those_of_the_array(
    run: Run, words: list[int], top_valid: list[int], low_valid: list[int]
) -> None:
    """D-kllm-21: among leaves the lowest level of the min tree has the inverted bits of the max tree."""
    unit = Unit16(16)
    for tree, valid in ((MAX, top_valid), (MIN, low_valid)):
        unit.inputs[tree] = [
            Value(ok, (word & 0x7FFF) * (-1 if word & 0x8000 else 1), word)
            for word, ok in zip(words, valid, strict=True)
        ]
    for tree, node in product((MAX, MIN), range(15, 0, -1)):
        if tree == MIN and node >= 8:
            unit.reverse(node)
        else:
            unit.compare(tree, node)
    answer: Any = run([words], [top_valid], [words], [low_valid])

    assert answer.p.ravel().tolist() == unit.bits[MAX][1:]
    assert answer.q.ravel().tolist() == unit.bits[MIN][1:]
    assert (answer.comparisons, answer.comparisons_live) == (unit.comparisons, unit.comparisons_live)
    assert (answer.max_index.item(), answer.min_index.item()) == (unit.winner(MAX), unit.winner(MIN))


@pytest.mark.long
def test_273_units_pop_the_largest_and_the_smallest() -> None:
    """[kllm Table I] three stages of units wired by their ports: 4,096 values, three pops of either tree."""
    x = ((np.arange(4096) * 1117) % 4096 - 2048).astype(np.float16).view(np.uint16).astype(np.int64)
    valid = np.ones((2, 4096), np.int64)
    popped: tuple[list[int], list[int]] = ([], [])
    for _ in range(3):
        words, masks, places = np.stack([x, x]), valid.copy(), np.stack([np.arange(4096)] * 2)
        units = 0
        for leaf in ("not_max", "compare", "compare"):
            sides = [array.reshape(2, -1, 16) for array in (words, masks, places)]
            one: Any = UNIT.run_compiled(sides[0][0], sides[1][0], sides[0][1], sides[1][1], min_leaf=leaf)
            at = np.stack([one.max_index, one.min_index]).reshape(2, -1, 1).astype(np.int64)
            words, masks, places = (np.take_along_axis(side, at, 2)[..., 0] for side in sides)
            units += at.shape[1]
        assert units == 273
        for tree in (MAX, MIN):
            popped[tree].append(int(places[tree, 0]))
            valid[tree, popped[tree][-1]] = 0
    order = np.argsort(x.astype(np.uint16).view(np.float16).astype(np.float64), kind="stable")
    assert popped[MAX] == order[::-1][:3].tolist() and popped[MIN] == order[:3].tolist()


def test_nan_is_rejected() -> None:
    row = [0] * 16
    with pytest.raises(Refused, match=r"orizuru16: low must not be NaN, got NaN at index \(0, 3\)"):
        orizuru16.run([row], [row], [[0, 0, 0, 0x7E00, *row[4:]]], [row])
