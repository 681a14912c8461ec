"""Orizuru of 16-input units has the registers of one tree after every event; broken arrays do not."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.units.declaration import Changes
from refemu.units.kllm.orizuru import Orizuru, OrizuruArray
from refemu.units.kllm.orizuru.array import Value
from refemu.units.kllm.orizuru.trees import MAX, Place, unit_of_node
from tests.oracles.kllm import units

OPTIONS = [pytest.param(*each, id="-".join(map(str, each))) for each in product((False, True), ("not_max", "compare"))]
SIZES = [(1, 1), (2, 2), (5, 5), (15, 4), (16, 16), (17, 17), (64, 10), (65, 3), (256, 6), (257, 3), (300, 4), (600, 2)]


def ties(n: int, seed: int = 0) -> np.ndarray:
    """Words of few values, zeros of both signs and infinities among them."""
    words = np.array([0, 0x8000, 0x3C00, 0xBC00, 0x4000, 0x7C00, 0xFC00], np.uint16)
    return words[np.random.default_rng(seed).integers(0, len(words), n)].view(np.float16)


def differs(array: type[OrizuruArray], n: int, k: int, **options: Any) -> str:
    """Event after which an array is not one tree; empty if there is none."""
    x = ties(n)
    single = Orizuru(n, k, **options).steps(x, k)
    try:
        return next((b.event for a, b in zip(array(n, k, **options).steps(x, k), single, strict=True) if a != b), "")
    except (IndexError, ValueError) as error:
        return type(error).__name__


@pytest.mark.parametrize(("total_order", "min_leaf"), OPTIONS)
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_every_event_is_that_of_one_tree(n: int, k: int, total_order: bool, min_leaf: str) -> None:
    """D-kllm-25: registers, masks, outputs and counters do not depend on the composition [kllm Table I]."""
    assert differs(OrizuruArray, n, k, total_order=total_order, min_leaf=min_leaf) == ""


@settings(deadline=None, max_examples=60)
@given(
    x=st.lists(st.integers(0, 0x7C00).flatmap(lambda word: st.sampled_from([word, word | 0x8000])), min_size=1),
    data=st.data(),
)
def test_any_values(x: list[int], data: st.DataObject) -> None:
    words, k = np.array(x, np.uint16), data.draw(st.integers(0, len(x)))

    assert list(OrizuruArray(len(x), k).steps(words)) == list(Orizuru(len(x), k).steps(words))


@pytest.mark.long
def test_273_units_are_one_tree() -> None:
    """[kllm Table I, §IV-C] 4096 values in 256 + 16 + 1 units, with the paper's 21 outliers per side."""
    x = (((np.arange(4096) * 1117) % 2003 - 1001) / 4).astype(np.float16)
    array, single = OrizuruArray(4096, 21), Orizuru(4096, 21)

    assert [len(stage) for stage in array.stages] == [1, 16, 256] and array.units == 273
    for a, b in zip(array.steps(x), single.steps(x), strict=True):
        assert a == b
    assert sum(unit.comparisons for stage in array.stages for unit in stage) == 1.5 * 4096 - 2 + 2 * 21 * 12


@pytest.mark.parametrize("n", [8, 40, 300])
def test_registers_are_the_oracles(n: int) -> None:
    """Register by register, read off the unit that holds it."""
    x, k = ties(n, 3), 4
    array = OrizuruArray(n, k)
    events = units.orizuru_events(x.view(np.uint16).tolist(), k)
    for _, (expected, _) in zip(array.steps(x), events, strict=True):
        bits = [[0] * (array.size - 1) for _ in range(2)]
        for tree, node in product(range(2), range(1, array.size)):
            stage, number, inside = unit_of_node(n, node)
            bits[tree][node - 1] = array.stages[stage][number].bits[tree][inside]
        assert bits == [expected["p"], expected["q"]]
        assert [array.state.root_max, array.state.root_min] == [expected["root_max"], expected["root_min"]]


def test_outputs_are_the_inputs_above() -> None:
    """[kllm Table I] only the lowest stage shares values between the trees."""
    array = OrizuruArray(300, 3)
    list(array.steps(ties(300, 5)))
    for above, below in zip(array.stages, array.stages[1:], strict=False):
        for tree in range(2):
            assert [value for unit in above for value in unit.inputs[tree]] == [unit.output(tree) for unit in below]
    for unit in array.stages[-1]:
        assert [value.word for value in unit.inputs[0]] == [value.word for value in unit.inputs[1]]


def test_array_resumes_from_any_state() -> None:
    states = list(OrizuruArray(40, 2).steps(ties(40)))
    for at in range(0, len(states), 5):
        device = OrizuruArray(40)
        device.restore(states[at])
        assert [device.step() for _ in states[at + 1 :]] == states[at + 1 :]


def test_array_rejects_invalid_inputs() -> None:
    array = OrizuruArray(2)
    before = array.snapshot()
    with pytest.raises(Refused, match=r"orizuru: x must not be NaN, got NaN at index \(0,\)"):
        array.load(np.array([np.nan, 1], np.float16))
    assert array.snapshot() == before


class Unplugged(OrizuruArray):
    """The output of one unit of the lowest stage never reaches the unit above."""

    def _drive(self, tree: int, stage: int, number: int, value: Value) -> None:
        if (stage, number) != (len(self.stages) - 1, 1):
            super()._drive(tree, stage, number, value)


class Stale(OrizuruArray):
    """A repair compares what the units below showed before the pop."""

    def _settle(self, tree: int, place: Place) -> None:
        if not self.state.event.startswith("maintain"):
            super()._settle(tree, place)


class Late(OrizuruArray):
    """The masks of the leaves reach the units above only when the lowest stage is repaired."""

    def _settle(self, tree: int, place: Place) -> None:
        if not self.state.event.startswith("init"):
            super()._settle(tree, place)


class OneTree(OrizuruArray):
    """Upper units have one set of inputs, which the max tree drives."""

    def _drive(self, tree: int, stage: int, number: int, value: Value) -> None:
        for each in (0, 1) if tree == MAX else ():
            super()._drive(each, stage, number, value)


class Crossed(OrizuruArray):
    """Two neighbours drive each other's inputs."""

    def _drive(self, tree: int, stage: int, number: int, value: Value) -> None:
        super()._drive(tree, stage, number ^ 1 if len(self.stages[stage]) > 1 else number, value)


class Wasteful(OrizuruArray):
    """The min tree compares its lowest level too, and then takes the reversed bits."""

    def _initialised(self, tree: int, level: int) -> Changes:
        if tree != MAX and level == self.levels:
            self.stages[-1][0].compare(tree, 8)
        return super()._initialised(tree, level)


@pytest.mark.parametrize("broken", [Unplugged, Stale, Late, OneTree, Crossed, Wasteful])
@pytest.mark.parametrize("n", [64, 300])
def test_a_broken_array_is_another_tree(broken: type[OrizuruArray], n: int) -> None:
    assert differs(broken, n, 8) != ""
