"""Orizuru composed of 16-input units, which pops what one tree pops: 273 units for 4096 values.

Paper: [kllm §IV-C, Fig. 7; Table I]. The outputs of a unit are an input of the unit above in either tree. Units of the
lowest stage share their leaves between the trees, the others have separate inputs for the two. The order of events is
that of `Orizuru`; registers, roots and comparisons are read from the units.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from refemu.arith import fp16
from refemu.units.declaration import Changes, DeclaredState, decides
from refemu.units.kllm.orizuru import trees
from refemu.units.kllm.orizuru.orizuru import Orizuru
from refemu.units.kllm.orizuru.trees import INPUTS, MAX, MIN, PART_LEVELS, TREES, Place, Tree, better, depth, stages
from refemu.units.ports import Lanes, put


class Value(NamedTuple):
    """Value at an input or an output of a unit."""

    available: int  #: 0 once popped, of padding, and of a subtree without an available leaf
    key: int  #: integer in the order of the values
    word: int  #: fp16


NOTHING = Value(0, 0, 0)


class Unit16:
    """Two trees of up to 16 inputs: bits P of the max tree, Q of the min tree."""

    def __init__(self, width: int) -> None:
        """width: inputs, 16, or fewer in the unit of the root."""
        self.width = width
        self.inputs: list[list[Value]] = [[NOTHING] * width for _ in TREES]
        self.bits: list[list[int]] = [[0] * width for _ in TREES]  #: node h at [h]; [0] is not used
        self.comparisons = 0  #: uses of the comparators
        self.comparisons_live = 0  #: uses with an available value on both sides

    def winner(self, tree: int, node: int = 1) -> int:
        """The input that the multiplexers of `node` pass on [kllm Eq. (4)]."""
        while 0 < node < self.width:  # it is never 0
            node = 2 * node + self.bits[tree][node]
        return node - self.width

    def output(self, tree: int) -> Value:
        """The value at the root of a tree: an input of the unit above."""
        return self.inputs[tree][self.winner(tree)]

    @decides("D-kllm-22")
    def pop(self, tree: int, at: int) -> None:
        """Clear the mask bit of an input; the value stays."""
        self.inputs[tree][at] = self.inputs[tree][at]._replace(available=0)

    def compare(self, tree: int, node: int) -> None:
        """Set one register by a comparison."""
        self.bits[tree][node], both = better(tree, *self._sides(tree, node))
        self.comparisons += 1
        self.comparisons_live += both

    @decides("D-kllm-21")
    def reverse(self, node: int) -> None:
        """Set a register of the min tree above two inputs by that of the max tree, without comparing."""
        left, right = self._sides(MIN, node)
        both = left[0] and right[0]
        self.bits[MIN][node] = 1 - self.bits[MAX][node] if both else right[0]

    def _sides(self, tree: int, node: int) -> tuple[tuple[int, int], tuple[int, int]]:
        left, right = (self.inputs[tree][self.winner(tree, child)] for child in (2 * node, 2 * node + 1))
        return left[:2], right[:2]


class OrizuruArray(Orizuru):
    """Orizuru as an array of 16-input units in stages; constructor, events and States are those of `Orizuru`.

    The root's unit is the first of `stages`; units over padding exist, and never have a value.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._enter()

    def _enter(self) -> None:
        """Give words and masks to the leaves, bits to the units, and outputs to the units above."""
        super()._enter()
        top = trees.levels(self.n) - PART_LEVELS * (stages(self.n) - 1)
        widths = [1 << top, *[INPUTS] * (stages(self.n) - 1)]
        self.stages: list[list[Unit16]] = [
            [Unit16(width) for _ in range(1 << depth(self.n, t))] for t, width in enumerate(widths)
        ]
        self._before: DeclaredState = self.state  # the State before the units counted
        for tree, registers in enumerate(trees.trees_of(self.state)):
            self._latch(tree, self._keys[: self.n], self.state.x, registers)

    def _latch(self, tree: int, keys: Sequence[int], words: Sequence[int], registers: Tree) -> None:
        """Leaves and registers of one tree; both trees have the same leaves."""
        values = [Value(*leaf) for leaf in zip(registers.alive, keys, words, strict=False)]
        values += [NOTHING] * (self.size - self.n)
        for number, unit in enumerate(self.stages[-1]):
            unit.inputs[tree] = values[number * unit.width : (number + 1) * unit.width]
        bits = iter(registers.bits)
        for stage, first in self._levels():
            for unit in stage:
                unit.bits[tree][first : 2 * first] = islice(bits, first)
        for at in reversed(range(len(self.stages))):
            self._connect(tree, at)

    def _levels(self) -> Iterator[tuple[list[Unit16], int]]:
        """Stage of every level of the tree, and the first register of the level in each of its units."""
        for stage in self.stages:
            first = 1
            while first < stage[0].width:
                yield stage, first
                first *= 2

    def _connect(self, tree: int, stage: int) -> None:
        """Pass the outputs of a stage on to the inputs above."""
        for number, unit in enumerate(self.stages[stage]):
            self._drive(tree, stage, number, unit.output(tree))

    def _drive(self, tree: int, stage: int, number: int, value: Value) -> None:
        """The wire from unit `number` of a stage to the unit above."""
        if stage:
            above = self.stages[stage - 1]
            above[number // above[0].width].inputs[tree][number % above[0].width] = value

    def _settle(self, tree: int, place: Place) -> None:
        """Pass the output of a unit on, and so on up to the root."""
        number = place.unit
        for stage in range(place.stage, 0, -1):
            self._drive(tree, stage, number, self.stages[stage][number].output(tree))
            number //= self.stages[stage - 1][0].width

    def _initialised(self, tree: int, level: int) -> Changes:
        """Set one level of registers in every unit of a stage; the outputs ripple up."""
        first = 1 << (level - 1)
        reuse = tree == MIN and level == self.levels and self.min_leaf == "not_max"
        place = trees.unit_of_node(self.n, first)
        for unit in self.stages[place.stage]:
            for node in range(place.node, 2 * place.node):
                if reuse:
                    unit.reverse(node)
                else:
                    unit.compare(tree, node)
        for stage in reversed(range(place.stage + 1)):
            self._connect(tree, stage)
        return self._gathered(tree, first)

    def _popped(self, tree: int, slot: int) -> Changes:
        """Follow the units from the root to a leaf; the lowest one clears its mask bit."""
        number = at = 0
        for stage in self.stages:
            unit, owner = stage[number], number
            at = unit.winner(tree)
            number = number * unit.width + at
        unit.pop(tree, at)
        self._settle(tree, Place(len(self.stages) - 1, owner, 1))
        popped = put(trees.trees_of(self.state)[tree].popped, slot, number)
        return {**self._gathered(tree, self.size + number, popped), **self._masked(number)}

    def _maintained(self, tree: int) -> Changes:
        """Repair the parent of the last change in its unit."""
        node = self.state.node >> 1
        place = trees.unit_of_node(self.n, node)
        self.stages[place.stage][place.unit].compare(tree, place.node)
        self._settle(tree, place)
        return self._gathered(tree, node)

    def _gathered(self, tree: int, node: int, popped: tuple[int, ...] | None = None) -> Changes:
        """Registers of a tree, level by level and unit by unit, and what its units counted in the event."""
        levels = ((unit.bits[tree], first) for stage, first in self._levels() for unit in stage)
        bits = tuple(bit for registers, first in levels for bit in registers[first : 2 * first])
        alive = tuple(value.available for unit in self.stages[-1] for value in unit.inputs[tree])
        popped = trees.trees_of(self.state)[tree].popped if popped is None else popped
        used = self._before.comparisons - self.state.comparisons
        live = self._before.comparisons_live - self.state.comparisons_live
        for unit in chain(*self.stages):
            used, live = used + unit.comparisons, live + unit.comparisons_live
        return self._changed(tree, node, Tree(bits, alive, popped), used, live)

    def _root(self, tree: int, registers: Tree) -> tuple[int, int]:
        value = self.stages[0][0].output(tree)
        return value.word, value.available

    def leaf(self, tree: int) -> int:
        """Element at the root of a tree."""
        number = 0
        for stage in self.stages:
            number = number * stage[number].width + stage[number].winner(tree)
        return number


class CandidateArray(OrizuruArray):
    """The array with separate leaves of the min tree and the max tree: candidates of several passes."""

    def load_apart(self, top: Lanes, low: Lanes) -> DeclaredState:
        """Load the leaves of both trees."""
        words = self.validate_event(low)[0]
        state = self.load(top)
        keys = fp16.order_key(np.array(words, np.uint16), self.total_order).tolist()
        self._latch(MIN, keys, words, trees.trees_of(state)[MIN])
        return state
