"""Orizuru's 16-input units, edge by edge: both trees at once, a unit or a level of each path settles in an edge.

Paper: [kllm §IV-C, Fig. 7; Table I]. A pop takes one edge; how much of the tree settles in an edge is D-kllm-70.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from numpy.typing import ArrayLike

from refemu.arith.checks import require_choice
from refemu.units.declaration import decides
from refemu.units.kllm.orizuru.array import OrizuruArray, Unit16
from refemu.units.kllm.orizuru.orizuru import MinLeaf, require_input, require_ordered
from refemu.units.kllm.orizuru.trees import MAX, MIN, TREES

Settling = Literal["level", "unit"]  #: what of a path settles in an edge (D-kllm-70)


class Edge(NamedTuple):
    """What an edge did, and the pops so far."""

    event: str  #: "set", "pop" or "repair"
    stage: int  #: stage that settled, 0 at the root; -1 for a pop
    max_index: tuple[int, ...]
    min_index: tuple[int, ...]


class ClockedArray:
    """An array of 16-input units with a clock; a unit of the lowest stage shares its leaves between the trees."""

    def __init__(
        self, n: int, k: int, settling: Settling = "level", total_order: bool = False, min_leaf: MinLeaf = "not_max"
    ) -> None:
        """Make the array of `n` inputs and `k` pops a tree; raises Refused for an invalid size or option."""
        require_choice(settling, ("level", "unit"), "orizuru", "settling")
        self._array: OrizuruArray = OrizuruArray(n, k, total_order, min_leaf)
        self.settling: Settling = settling

    def __repr__(self) -> str:
        return f"ClockedArray({self._array.n}, {self._array.k}, {self.settling!r})"

    def edges(self, x: ArrayLike) -> Iterator[Edge]:
        """Yield every edge of the search of one row `x`, float16 (n,); raises Refused for a NaN without a total order.

        Both trees settle from the leaves to the roots; then come pops, each with the repair of its paths.
        """
        array = self._array
        words, _ = require_input(x, array.k, array.min_leaf)
        require_ordered(words, array.total_order)
        array.load(words)
        popped: list[list[int]] = [[], []]
        every = [[range(len(stage)) for stage in array.stages] for _ in TREES]
        for stage, level in self._settled():
            self._settle(stage, level, [units[stage] for units in every], None)
            yield self._shown("set", stage, popped)
        for _ in range(array.k):
            paths = [self._pop(tree, popped[tree]) for tree in (MAX, MIN)]
            yield self._shown("pop", -1, popped)
            for stage, level in self._settled():
                self._settle(stage, level, [range(path[stage][0], path[stage][0] + 1) for path in paths], paths)
                yield self._shown("repair", stage, popped)

    @decides("D-kllm-70")
    def _settled(self) -> list[tuple[int, tuple[int, ...]]]:
        """Stage, and levels in its units, of every edge of a settling, the lowest first."""
        edges: list[tuple[int, tuple[int, ...]]] = []
        for at in reversed(range(len(self._array.stages))):
            firsts = [1 << level for level in reversed(range((self._array.stages[at][0].width - 1).bit_length()))]
            edges += [(at, tuple(firsts))] if self.settling == "unit" else [(at, (first,)) for first in firsts]
        return edges

    def _settle(
        self, stage: int, firsts: tuple[int, ...], units: list[range], paths: list[list[tuple[int, int]]] | None
    ) -> None:
        """Compare the nodes of some levels, all of them or those on the paths; outputs go to the units above."""
        array = self._array
        lowest = stage == len(array.stages) - 1
        for first in firsts:
            for tree in (MAX, MIN):
                for number in units[tree]:
                    unit = array.stages[stage][number]
                    whole = paths is None
                    nodes = range(first, 2 * first) if paths is None else [_above(unit, paths[tree][stage][1], first)]
                    for node in nodes:
                        if whole and lowest and tree == MIN and first == unit.width >> 1 and self._reuses:
                            unit.reverse(node)
                        else:
                            unit.compare(tree, node)
                    array._drive(tree, stage, number, unit.output(tree))

    @property
    def _reuses(self) -> bool:
        return self._array.min_leaf == "not_max"

    def _pop(self, tree: int, popped: list[int]) -> list[tuple[int, int]]:
        """Pop the leaf at the root; its unit and input in every stage."""
        array, number, path = self._array, 0, []
        for stage in array.stages:
            at = stage[number].winner(tree)
            path.append((number, at))
            number = number * stage[number].width + at
        unit, at = path[-1]
        array.stages[-1][unit].pop(tree, at)
        popped.append(number)
        return path

    def _shown(self, event: str, stage: int, popped: list[list[int]]) -> Edge:
        return Edge(event, stage, tuple(popped[MAX]), tuple(popped[MIN]))


def _above(unit: Unit16, at: int, first: int) -> int:
    """The node of a level above an input."""
    node = unit.width + at
    while node >= 2 * first:
        node >>= 1
    return node
