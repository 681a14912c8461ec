"""Orizuru made of its 16-input units, which pops what one tree pops: 273 units for 4096 values.

Paper: [kllm §IV-C, Fig. 7; Table I]. The outputs of a unit are an input of the unit above in either tree. Units of the
lowest stage share their leaves between the trees, the others have separate inputs for the two. The order of events is
that of `Orizuru`; registers, roots and comparisons are read off the units.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units.kllm.orizuru.trees import (
    INPUTS,
    MAX,
    MIN,
    PART_LEVELS,
    TREES,
    Place,
    depth,
    levels,
    stages,
    unit_of_node,
)
from refemu.units.kllm.orizuru.unit import Orizuru, State
from refemu.units.kllm.orizuru.unit16 import NOTHING, Unit16, Value
from refemu.units.ports import Lanes, fields, lanes


class OrizuruArray(Orizuru):
    """Orizuru as an array of 16-input units in stages; constructor, events and States are those of `Orizuru`.

    References
    ----------
    [kllm §IV-C, Table I]
    """

    stages: list[list[Unit16]]  #: the root's unit first; units over padding alone are there, and never have a value

    def _enter(self, state: State) -> None:
        """Commit `state`: its words and masks to the leaves, its bits to the units, and outputs to the units above."""
        super()._enter(state)
        top = levels(self.n) - PART_LEVELS * (stages(self.n) - 1)
        widths = [1 << top, *[INPUTS] * (stages(self.n) - 1)]
        self.stages = [[Unit16(width) for _ in range(1 << depth(self.n, t))] for t, width in enumerate(widths)]
        self._before = state  # what was counted before the units were
        for tree in (MAX, MIN):
            self._latch(tree, state)
            self._set_bits(tree, state.trees[tree].bits[1:])
            for stage in reversed(range(len(self.stages))):
                self._connect(tree, stage)

    def _latch(self, tree: int, state: State) -> None:
        """Leaves of one tree."""
        words, alive = self._words_of(tree, state), state.trees[tree].alive
        values = [Value(alive[i], key, word) for i, (key, word) in enumerate(words)]
        values += [NOTHING] * (self.size - self.n)
        for number, unit in enumerate(self.stages[-1]):
            unit.inputs[tree] = values[number * unit.width : (number + 1) * unit.width]

    def _words_of(self, tree: int, state: State) -> list[tuple[int, int]]:
        """Key and word of every leaf; both trees have the same."""
        return list(zip(self._keys, fields(state.x), strict=False))

    def _set_bits(self, tree: int, bits: bytes) -> None:
        """Registers of a tree from the bits of nodes 1, 2, ...: the inverse of `_bits`."""
        left = iter(bits)
        for stage, first in self._levels():
            for unit in stage:
                unit.bits[tree][first : 2 * first] = islice(left, first)

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

    def _initialised(self, before: State, tree: int, level: int) -> State:
        """Every unit of a stage sets one level of its registers; the outputs ripple up."""
        first = 1 << (level - 1)
        reuse = tree == MIN and level == self.levels and self.min_leaf == "not_max"
        place = unit_of_node(self.n, first)
        for unit in self.stages[place.stage]:
            for node in range(place.node, 2 * place.node):
                if reuse:
                    unit.reverse(node)
                else:
                    unit.compare(tree, node)
        for stage in reversed(range(place.stage + 1)):
            self._connect(tree, stage)
        return self._gathered(before, f"init_{TREES[tree]}", first)

    def _popped(self, before: State, tree: int, slot: int) -> State:
        """The units from the root to a leaf name it; the lowest one clears its mask bit."""
        number = at = 0
        for stage in self.stages:
            unit, owner = stage[number], number
            at = unit.winner(tree)
            number = number * unit.width + at
        unit.pop(tree, at)
        self._settle(tree, Place(len(self.stages) - 1, owner, 1))
        after = self._gathered(before, f"pop_{TREES[tree]}", self.size + number)
        return self._listed(after, tree, slot, number)

    def _maintained(self, before: State, tree: int) -> State:
        """The unit that holds the parent of what changed last repairs it."""
        node = before.node >> 1
        place = unit_of_node(self.n, node)
        self.stages[place.stage][place.unit].compare(tree, place.node)
        self._settle(tree, place)
        return self._gathered(before, f"maintain_{TREES[tree]}", node)

    def _gathered(self, before: State, event: str, node: int) -> State:
        """Registers and counts of all units as those of the tree."""
        whole, used, live = self._before, 0, 0
        for unit in chain(*self.stages):
            used, live = used + unit.comparisons, live + unit.comparisons_live
        registers: dict[str, Any] = {}
        for tree, name in enumerate("pq"):
            registers[name] = lanes(self._bits(tree))
            registers[f"{name}_mask"] = lanes(self._mask(tree))
        return replace(
            before,
            event=event,
            node=node,
            comparisons=whole.comparisons + used,
            comparisons_live=whole.comparisons_live + live,
            **registers,
        )

    def _bits(self, tree: int) -> tuple[int, ...]:
        """Bits of nodes 1, 2, ...: level by level, unit by unit."""
        units = ((unit.bits[tree], first) for stage, first in self._levels() for unit in stage)
        return tuple(bit for bits, first in units for bit in bits[first : 2 * first])

    def _mask(self, tree: int) -> tuple[int, ...]:
        """Availability of every element."""
        return tuple(value.available for unit in self.stages[-1] for value in unit.inputs[tree])[: self.n]

    def _with_roots(self, state: State) -> State:
        top, low = (self.stages[0][0].output(tree) for tree in (MAX, MIN))
        return replace(
            state,
            root_max=top.word,
            root_min=low.word,
            root_max_valid=top.available,
            root_min_valid=low.available,
        )

    def leaf(self, tree: int) -> int:
        """Element at the root of a tree.

        Parameters
        ----------
        tree : int
            0 for the max tree, 1 for the min tree.

        Returns
        -------
        int
            Index of the element that a pop would take.
        """
        number = 0
        for stage in self.stages:
            number = number * stage[number].width + stage[number].winner(tree)
        return number


class CandidateArray(OrizuruArray):
    """The array where the leaves of the min tree are not those of the max tree: candidates of several passes.

    References
    ----------
    [kllm §IV-C, Table I]
    """

    _low: tuple[tuple[int, int], ...] = ()  #: key and word of the min tree's leaves, once they are loaded

    def load_apart(self, top: Lanes, low: Lanes) -> State:
        """Latch the leaves of both trees.

        Parameters
        ----------
        top : int or tuple of int
            Words of the max tree; the State shows them as `x`.
        low : int or tuple of int
            Words of the min tree.

        Returns
        -------
        State
            Registers after the load.

        Raises
        ------
        Refused
            A NaN without a total order.
        RefusedType
            Another number of words.
        """
        words = fields(self.accept(low)[0])
        keys = fp16.order_key(np.array(words, np.uint16), self.total_order)
        self._low = tuple(zip(keys.tolist(), words, strict=True))
        return self.load(top)

    def _words_of(self, tree: int, state: State) -> list[tuple[int, int]]:
        return list(self._low) if tree == MIN and self._low else super()._words_of(tree, state)
