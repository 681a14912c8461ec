"""Parts of orizuru: the rule of one comparator, the composition of 16-input units, and both trees as text.

Paper: [kllm §IV-C, Fig. 7; Table I for the 273 units of 16 inputs]. Stage 0 holds the root; the units of the last stage
share their leaves between the trees, the others have separate inputs for the two. Decision: D-kllm-25 (one logical tree
whatever the number of values).
"""

from typing import Any, NamedTuple

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import require_int
from refemu.units.ports import fields

MAX, MIN = 0, 1  #: the two trees
TREES = ("max", "min")
INPUTS = 16  #: of a unit [kllm Table I]
PART_LEVELS = 4


def better(tree: int, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """Bit of a register over two (available, key) pairs, and whether both are available.

    The better side is the greater one, or the smaller one in the min tree; a tie stays left (D-kllm-21), and one side
    alone wins, whatever its value (D-kllm-22).
    """
    if left[0] and right[0]:
        return int(right[1] > left[1] if tree == MAX else right[1] < left[1]), 1
    return right[0], 0


def levels(n: int) -> int:
    """Number of levels of a tree.

    Parameters
    ----------
    n : int
        Inputs, at least 1.

    Returns
    -------
    int
        Levels, log2 of n rounded up.

    References
    ----------
    [kllm §IV-C]
    """
    return max(1, (n - 1).bit_length())


def stages(n: int) -> int:
    """Stages of 16-input units from the root to the leaves."""
    return -(-levels(n) // PART_LEVELS)


def units_needed(n: int, inputs: int = INPUTS) -> int:
    """Units of `inputs` inputs for n values: 4096 need 256 + 16 + 1 = 273 [kllm Table I]."""
    require_int(n, 1, 1 << 24, "orizuru", "n")
    require_int(inputs, 2, 1 << 24, "orizuru", "inputs")
    needed = n = -(-n // inputs)
    while n > 1:
        n = -(-n // inputs)
        needed += n
    return needed


class Place(NamedTuple):
    """Place of a register of the tree."""

    stage: int  #: 0 holds the root
    unit: int  #: of the stage, from the left
    node: int  #: in the unit, as a heap: its root is 1


def _depth(n: int, stage: int) -> int:
    """Levels above the roots of a stage's units."""
    return levels(n) - PART_LEVELS * (stages(n) - stage) if stage else 0


def unit_of_node(n: int, node: int) -> Place:
    """The unit that holds register `node` of a tree over n values, and the register's number there."""
    require_int(n, 1, 1 << 24, "orizuru", "n")
    require_int(node, 1, (1 << levels(n)) - 1, "orizuru", "node")
    above = node.bit_length() - 1
    stage = max(stage for stage in range(stages(n)) if _depth(n, stage) <= above)
    inside = above - _depth(n, stage)
    unit = (node >> inside) - (1 << _depth(n, stage))
    return Place(stage, unit, (1 << inside) | (node & ((1 << inside) - 1)))


def node_of_unit(n: int, place: Place) -> int:
    """The register of the tree at `place`: the inverse of `unit_of_node`."""
    inside = place.node.bit_length() - 1
    return ((1 << _depth(n, place.stage)) + place.unit << inside) + place.node - (1 << inside)


class Part:
    """One 16-input unit (the root's may have fewer): registers of both trees, and what its inputs show."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.inputs: list[list[tuple[int, int]]] = [[(0, 0)] * width for _ in TREES]  #: (available, key) per tree
        self.bits: list[list[int]] = [[0] * width for _ in TREES]

    def winner(self, tree: int, node: int = 1) -> int:
        """The input that `node` passes on."""
        while node < self.width:
            node = 2 * node + self.bits[tree][node]
        return node - self.width

    def output(self, tree: int) -> tuple[int, int]:
        """The winner of a tree as (available, key), an input of the unit above."""
        return self.inputs[tree][self.winner(tree)]

    def compare(self, tree: int, node: int) -> int:
        """Set one register; returns whether both sides were available."""
        sides = (self.inputs[tree][self.winner(tree, child)] for child in (2 * node, 2 * node + 1))
        self.bits[tree][node], both = better(tree, *sides)
        return both


class Composition:
    """A tree over n values made of 16-input units; pops what the single tree pops [kllm Table I]."""

    def __init__(self, n: int) -> None:
        require_int(n, 1, 1 << 24, "orizuru", "n")
        self.n: int = n
        top = levels(n) - PART_LEVELS * (stages(n) - 1)
        widths = [1 << top] + [INPUTS] * (stages(n) - 1)
        counts = [1 << _depth(n, stage) for stage in range(stages(n))]
        self.parts: list[list[Part]] = [
            [Part(width) for _ in range(count)] for width, count in zip(widths, counts, strict=True)
        ]
        self.comparisons: int = 0

    def load(self, x: np.ndarray) -> None:
        """Build both trees over float16 `x`, lowest stage first."""
        keys = fp16.order_key(x).tolist()
        leaves = [(1, key) for key in keys] + [(0, 0)] * ((1 << levels(self.n)) - self.n)
        self.comparisons = 0
        for stage in reversed(range(len(self.parts))):
            for number, part in enumerate(self.parts[stage]):
                self._build(stage, part, slice(number * part.width, (number + 1) * part.width), leaves)

    def _build(self, stage: int, part: Part, inputs: slice, leaves: list[tuple[int, int]]) -> None:
        shared = stage == len(self.parts) - 1
        for tree in (MAX, MIN):
            below = [] if shared else self.parts[stage + 1][inputs]
            part.inputs[tree] = leaves[inputs] if shared else [child.output(tree) for child in below]
            for node in range(part.width - 1, 0, -1):
                if shared and tree == MIN and 2 * node >= part.width:
                    part.bits[MIN][node] = self._reversed(part, node)
                else:
                    part.compare(tree, node)
                    self.comparisons += 1

    @staticmethod
    def _reversed(part: Part, node: int) -> int:
        """The lowest register of the min tree, from that of the max tree (D-kllm-21)."""
        (left, _), (right, _) = (part.inputs[MIN][child - part.width] for child in (2 * node, 2 * node + 1))
        return 1 - part.bits[MAX][node] if left and right else right

    def pop(self, tree: int) -> int:
        """The next element of one tree: units from the root to a leaf name it, the same units are repaired."""
        number, path = 0, []
        for stage in self.parts:
            part = stage[number]
            path.append(part)
            number = number * part.width + part.winner(tree)
        changed, shown = number, (0, 0)
        for part in reversed(path):
            at = changed % part.width
            part.inputs[tree][at] = shown
            node = part.width + at >> 1
            while node:
                part.compare(tree, node)
                self.comparisons += 1
                node >>= 1
            changed, shown = changed // part.width, part.output(tree)
        return number


CELL = 6  #: columns of a leaf in a drawing
WIDEST = 16  #: leaves that fit side by side


def draw(size: int, n: int, state: Any) -> str:
    """The trees of `state` as text, over `size` leaves of which `n` exist; a list of bits where they are too wide.

    A register shows the value it passes on and where that comes from: `<7` the left child, `9>` the right one. `--` is
    an empty place, `[9]` a popped leaf, `*` marks the registers or the leaf that the event is about.
    """
    if size > WIDEST:
        return _listed(size, state)
    words = np.array(fields(state.x), np.uint16).view(np.float16)
    texts = [f"{float(word):g}" for word in words] + ["--"] * (size - n)
    upper, lower = ([_row(size, state, tree, level, texts) for level in range(1, size.bit_length())] for tree in (0, 1))
    leaves = [_row(size, state, tree, size.bit_length(), texts) for tree in (0, 1)]
    return "\n".join(
        [
            *(f"max {row}" for row in upper),
            f" P  {leaves[0]}",
            f" Q  {leaves[1]}",
            *(f"min {row}" for row in reversed(lower)),
        ]
    )


def _row(size: int, state: Any, tree: int, level: int, texts: list[str]) -> str:
    """Nodes of one level, each in the middle of its leaves."""
    first = 1 << (level - 1)
    width = CELL * size // first
    cells = [_cell(size, state, tree, node, texts) for node in range(first, 2 * first)]
    return "".join(cell.center(width) for cell in cells).rstrip()


def _cell(size: int, state: Any, tree: int, node: int, texts: list[str]) -> str:
    bits, alive = state.trees[tree]
    leaf = node
    while leaf < size:
        leaf = 2 * leaf + bits[leaf]
    leaf -= size
    mark = "*" if _meant(state, tree, node) else ""
    if node >= size:
        return mark + (texts[leaf] if alive[leaf] or texts[leaf] == "--" else f"[{texts[leaf]}]")
    if not alive[leaf]:
        return mark + "--"
    return mark + (f"{texts[leaf]}>" if bits[node] else f"<{texts[leaf]}")


def _meant(state: Any, tree: int, node: int) -> bool:
    """Whether the event of `state` set `node`: one, or a whole level."""
    if not state.event.endswith(TREES[tree]):
        return False
    if state.event.startswith("init"):
        return bool(state.node <= node < 2 * state.node)
    return bool(node == state.node)


def _listed(size: int, state: Any) -> str:
    """The bits of every level in a line."""
    lines = []
    for name, (bits, alive) in zip(("P", "Q"), state.trees, strict=True):
        for level in range(1, size.bit_length()):
            first = 1 << (level - 1)
            lines.append(f"{name}[{first}..{2 * first - 1}] " + "".join(map(str, bits[first : 2 * first])))
        lines.append(f"{name} available " + "".join(map(str, alive)))
    return "\n".join(lines)
