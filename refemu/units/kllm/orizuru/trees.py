"""Parts of orizuru: the rule of a comparator, the places of registers in 16-input units, and both trees as text.

Paper: [kllm §IV-C, Fig. 7; Table I for the 273 units of 16 inputs]. Stage 0 holds the root.
"""

from typing import Any, NamedTuple

import numpy as np

from refemu.arith.checks import require_int
from refemu.units.ports import Lanes

MAX, MIN = 0, 1  #: the two trees
TREES = ("max", "min")
INPUTS = 16  #: inputs of a unit [kllm Table I]
PART_LEVELS = 4


class Tree(NamedTuple):
    """Registers of one tree."""

    bits: tuple[int, ...]  #: node h at [h - 1]: 1 = its right child is the better one
    alive: tuple[int, ...]  #: leaf i at [i]: 1 = available, 0 = popped or padding
    popped: tuple[int, ...]  #: elements in the order of the pops, 0 for pops to come


#: fields of a State that show the max tree, and the min tree: registers, then the root
FIELDS = (
    ("p", "p_mask", "max_index", "root_max", "root_max_valid"),
    ("q", "q_mask", "min_index", "root_min", "root_min_valid"),
)


def trees_of(state: Any) -> tuple[Tree, Tree]:
    """The max tree and the min tree, padding included."""
    return _tree(state.p, state.p_mask, state.max_index), _tree(state.q, state.q_mask, state.min_index)


def _tree(bits: Lanes, mask: Lanes, popped: Lanes) -> Tree:
    return Tree(bits, mask + (0,) * (len(bits) + 1 - len(mask)), popped)


def better(tree: int, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """Bit of a register over two (available, key) pairs, and whether both are available.

    The better side is the greater one, or the smaller one in the min tree; the left side wins a tie (D-kllm-21), and a
    single available side wins with any value (D-kllm-22).
    """
    if left[0] and right[0]:
        return int(right[1] > left[1] if tree == MAX else right[1] < left[1]), 1
    return right[0], 0


def levels(n: int) -> int:
    """Number of levels of a tree with n inputs: log2 of n rounded up, at least 1. [kllm §IV-C]"""
    return max(1, (n - 1).bit_length())


def stages(n: int) -> int:
    """Count the stages of 16-input units, root to leaves: a fourth of the levels, rounded up. [kllm Table I]"""
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
    unit: int  #: number in the stage, from the left
    node: int  #: number in the unit, as a heap: its root is 1


def depth(n: int, stage: int) -> int:
    """Levels above the roots of a stage's units."""
    return levels(n) - PART_LEVELS * (stages(n) - stage) if stage else 0


def unit_of_node(n: int, node: int) -> Place:
    """The unit that holds register `node` of a tree over n values, and the register's number there."""
    require_int(n, 1, 1 << 24, "orizuru", "n")
    require_int(node, 1, (1 << levels(n)) - 1, "orizuru", "node")
    above = node.bit_length() - 1
    stage = max(stage for stage in range(stages(n)) if depth(n, stage) <= above)
    inside = above - depth(n, stage)
    unit = (node >> inside) - (1 << depth(n, stage))
    return Place(stage, unit, (1 << inside) | (node & ((1 << inside) - 1)))


CELL = 6  #: columns of a leaf in a drawing
WIDEST = 16  #: most leaves that fit in a line


def draw(size: int, n: int, state: Any) -> str:
    """The trees of `state` as text, over `size` leaves of which `n` exist; a list of bits if they are too wide.

    A register shows the value it passes on and its origin: `<7` the left child, `9>` the right one. `--` is an empty
    place, `[9]` a popped leaf; `*` marks the registers or the leaf of the event.
    """
    if size > WIDEST:
        return _listed(size, state)
    words = np.array(state.x, np.uint16).view(np.float16)
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
    bits, alive, _ = trees_of(state)[tree]
    leaf = node
    while leaf < size:
        leaf = 2 * leaf + bits[leaf - 1]
    leaf -= size
    mark = "*" if _meant(state, tree, node) else ""
    if node >= size:
        return mark + (texts[leaf] if alive[leaf] or texts[leaf] == "--" else f"[{texts[leaf]}]")
    if not alive[leaf]:
        return mark + "--"
    return mark + (f"{texts[leaf]}>" if bits[node - 1] else f"<{texts[leaf]}")


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
    for name, (bits, alive, _) in zip(("P", "Q"), trees_of(state), strict=True):
        for level in range(1, size.bit_length()):
            first = 1 << (level - 1)
            lines.append(f"{name}[{first}..{2 * first - 1}] " + "".join(map(str, bits[first - 1 : 2 * first - 1])))
        lines.append(f"{name} available " + "".join(map(str, alive)))
    return "\n".join(lines)
