"""One 16-input unit of Orizuru: registers of both trees, what its inputs show, and two outputs.

Paper: [kllm §IV-C, Fig. 7; Table I].
"""

from typing import NamedTuple

from refemu.units.declaration import decides
from refemu.units.kllm.orizuru.trees import MAX, MIN, TREES, better


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
