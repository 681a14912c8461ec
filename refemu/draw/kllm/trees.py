"""Orizuru's two trees over one row of leaves, drawn sideways: the max tree left, the min tree right.

[kllm §IV-C, Fig. 7(a)]
"""

from collections.abc import Sequence
from typing import Any

from refemu.draw.svg import MARGIN, WIDTH, Drawing
from refemu.draw.values import half, listed
from refemu.units.ports import Ports

MOST = 64  #: most leaves of completely drawn trees
HIGH = 24  #: height of a leaf
VALUE = 66  #: width of a leaf's value
MASK = 26  #: of a bit of a mask


def trees(ports: Ports, state: Any) -> str:
    """Draw Orizuru's trees: P, Q, their masks, and the element that every register passes on.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of orizuru or orizuru_clocked.

    Returns
    -------
    str
        SVG; of more than 64 leaves the way from the roots to the best ones.

    References
    ----------
    [kllm §IV-C, Fig. 7(a)]
    """
    values = [half(word) for word in getattr(state, "x_held", state.x)]
    size = len(state.p) + 1
    drawing = Drawing(f"Orizuru's trees after {state.event}", _described(state, values))
    drawing.heading(f"{state.event}{_where(state, size)}")
    (_whole if size <= MOST else _ways)(drawing, state, values, size)
    drawing.note(f"popped by max: {_popped(state.max_index, state.p_mask, values)}")
    drawing.note(f"popped by min: {_popped(state.min_index, state.q_mask, values)}")
    drawing.legend({"high": "max tree, P", "low": "min tree, Q", "hot": "this event", "gone": "popped"})
    return drawing.svg()


def _where(state: Any, size: int) -> str:
    """Registers or the leaf that the event is about."""
    if not state.node:
        return ""
    if state.event.startswith("init"):
        return f": registers {state.node} to {2 * state.node - 1}" if state.node > 1 else ": register 1, the root"
    return f": element {state.node - size}" if state.node >= size else f": register {state.node}"


def _whole(drawing: Drawing, state: Any, values: Sequence[str], size: int) -> None:
    """Leaves in the middle, one below the other; registers between the rows of their children."""
    depth = size.bit_length() - 1
    middle = WIDTH / 2
    step = (middle - MARGIN - VALUE / 2 - MASK) / max(depth, 1)
    high = HIGH if size <= 16 else 18
    top = drawing.height + 22
    drawing.text(middle, top - 8, "x", "small faint", "middle")
    drawing.text(middle - VALUE / 2 - MASK / 2, top - 8, "P mask", "small faint", "middle")
    drawing.text(middle + VALUE / 2 + MASK / 2, top - 8, "Q mask", "small faint", "middle")
    for tree, side in ((0, -1), (1, 1)):
        _lines(drawing, state, tree, size, middle, side, step, high, top)
    for leaf in range(size):
        y = top + leaf * high
        there = leaf < len(values)
        text = values[leaf] if there else "none"
        drawing.cell(middle - VALUE / 2, y, VALUE, high - 3, text, "plain" if there else "empty", f"element {leaf}")
        for tree, x in ((0, middle - VALUE / 2 - MASK), (1, middle + VALUE / 2)):
            alive = _mask(state, tree, leaf)
            kind = "hot" if _meant(state, tree, size + leaf) else ("high", "low")[tree] if alive else "gone"
            drawing.cell(x + 2, y, MASK - 4, high - 3, str(alive), kind, f"{'PQ'[tree]} mask of element {leaf}")
    for tree, side in ((0, -1), (1, 1)):
        for node in range(1, size):
            _register(drawing, state, tree, node, values, size, *_place(node, size, middle, side, step, high, top))


def _place(
    node: int, size: int, middle: float, side: int, step: float, high: float, top: float
) -> tuple[float, float, float]:
    """Middle of a node, and the width of its box."""
    level = node.bit_length() - 1
    span = size >> level
    first = (node - (1 << level)) * span
    depth = size.bit_length() - 1
    x = middle + side * (VALUE / 2 + MASK + (depth - level) * step - step / 2)
    return x, top + (first + span / 2) * high - 1.5, min(step - 8, 62)


def _lines(
    drawing: Drawing, state: Any, tree: int, size: int, middle: float, side: int, step: float, high: float, top: float
) -> None:
    """Lines from every register to its children, thick to the child whose element it passes on."""
    for node in range(1, size):
        x, y, _ = _place(node, size, middle, side, step, high, top)
        for right in (0, 1):
            child = 2 * node + right
            if child < size:
                cx, cy, _ = _place(child, size, middle, side, step, high, top)
            else:
                cx, cy = middle + side * (VALUE / 2 + MASK - 2), top + (child - size) * high + (high - 3) / 2
            chosen = _bit(state, tree, node) == right and _mask(state, tree, _winner(state, tree, node, size))
            drawing.line(x, y, cx, cy, bool(chosen))


def _register(
    drawing: Drawing,
    state: Any,
    tree: int,
    node: int,
    values: Sequence[str],
    size: int,
    x: float,
    y: float,
    width: float,
) -> None:
    leaf = _winner(state, tree, node, size)
    alive = _mask(state, tree, leaf) and leaf < len(values)
    text = values[leaf] if alive else "none"
    kind = "hot" if _meant(state, tree, node) else ("high", "low")[tree] if alive else "gone"
    about = f"{'PQ'[tree]} register {node} = {_bit(state, tree, node)}: passes on element {leaf}"
    drawing.cell(x - width / 2, y - 9, width, 18, text, kind, about)


def _ways(drawing: Drawing, state: Any, values: Sequence[str], size: int) -> None:
    """The paths from both roots down to the best element, register by register."""
    for tree in (0, 1):
        node = 1
        drawing.heading(f"{('max tree, P', 'min tree, Q')[tree]}: {size} leaves, the way to the best one")
        while node < size:
            bit = _bit(state, tree, node)
            leaf = _winner(state, tree, 2 * node + 1 - bit, size)
            beside = f"element {leaf}" if _mask(state, tree, leaf) else "nothing"
            kind = "hot" if _meant(state, tree, node) else ("high", "low")[tree]
            y = drawing.height + 3
            drawing.cell(MARGIN, y, 150, 20, f"register {node} = {bit}", kind)
            drawing.text(MARGIN + 160, y + 14, f"{('left', 'right')[bit]} wins over {beside}", "small")
            node = 2 * node + bit
        leaf = node - size
        drawing.note(f"element {leaf}: {values[leaf] if leaf < len(values) else 'none'}", "bold")


def _bit(state: Any, tree: int, node: int) -> int:
    return int((state.p, state.q)[tree][node - 1])


def _mask(state: Any, tree: int, leaf: int) -> int:
    mask = (state.p_mask, state.q_mask)[tree]
    return mask[leaf] if leaf < len(mask) else 0


def _winner(state: Any, tree: int, node: int, size: int) -> int:
    """The leaf whose element a node passes on."""
    while node < size:
        node = 2 * node + _bit(state, tree, node)
    return node - size


def _meant(state: Any, tree: int, node: int) -> bool:
    """Whether the event set this node: one, or a whole level."""
    if not state.event.endswith(("max", "min")[tree]):
        return False
    if state.event.startswith("init"):
        return bool(state.node <= node < 2 * state.node)
    return bool(node == state.node)


def _popped(indices: Any, mask: Any, values: Sequence[str]) -> str:
    """Elements that a tree gave, in their order."""
    gone = {place for place, bit in enumerate(mask) if not bit}
    order = [index for index in indices if index in gone]
    return ", ".join(f"{values[index]} (element {index})" for index in dict.fromkeys(order)) or "none"


def _described(state: Any, values: Sequence[str]) -> str:
    roots = [
        f"{name} root {half(word) if valid else 'none'}"
        for name, word, valid in (
            ("max", state.root_max, state.root_max_valid),
            ("min", state.root_min, state.root_min_valid),
        )
    ]
    masks = [f"{name} {listed(mask, 64)}" for name, mask in (("P", state.p), ("Q", state.q))]
    return f"elements {listed(values)}; {'; '.join(roots + masks)}"
