"""The network of prefix sums, level by level. [leankv §5.2]"""

from collections.abc import Sequence
from typing import Any

from refemu.draw.svg import MARGIN, WIDTH, Drawing
from refemu.draw.values import brief, listed
from refemu.units.leankv.prefix_sum import BITS, add_level, depth
from refemu.units.ports import Ports

MOST = 16  #: elements that are drawn
LEFT = 58  #: of the first element
HIGH, GAP = 20, 26  #: of a level, and between two
LEGEND = {"plain": "counts and base", "code": "sums of a level", "hot": "this event", "empty": "still to come"}


def prefix_sum(ports: Ports, state: Any) -> str:
    """Draw the network of prefix sums: a row for every level, with the additions that lead to it.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of prefix_sum.

    Returns
    -------
    str
        SVG; of more than 16 elements the first ones.

    References
    ----------
    [leankv §5.2]
    """
    now, counts = state.inclusive, state.counts
    levels = depth(len(counts))
    drawing = Drawing(
        f"prefix sums after level {state.level} of {levels}",
        f"counts {listed(counts, MOST)}, base {state.base}; sums so far {listed(now, MOST)}",
    )
    drawing.heading(f"{state.event}: {state.level} of {levels} levels, base {state.base}")
    rows = _rows(state, now, counts)
    top, wide = drawing.height + 18, (WIDTH - LEFT - MARGIN) / min(len(counts), MOST)
    for element in range(min(len(counts), MOST)):
        drawing.text(LEFT + (element + 0.5) * wide - 1, top - 5, str(element), "small faint", "middle")
    for level in range(1, levels + 1):
        _additions(drawing, 1 << level - 1, min(len(counts), MOST), top + level * (HIGH + GAP), wide)
    for level in range(levels + 1):
        y = top + level * (HIGH + GAP)
        drawing.text(MARGIN, y + 14, f"level {level}" if level else "load", "small faint")
        kind = "empty" if level > state.level else "hot" if level == state.level else "code" if level else "plain"
        for element in range(min(len(counts), MOST)):
            value = rows[level][element] if level <= state.level else None
            text = "" if value is None else brief(value, int((wide - 5) / 6.5))
            about = f"level {level}, element {element}: {'still to come' if value is None else value}"
            drawing.cell(LEFT + element * wide, y, wide - 2, HIGH, text, kind, about)
    if len(counts) > MOST:
        drawing.note(f"the first {MOST} of {len(counts)} elements", "small faint")
    drawing.legend(LEGEND)
    return drawing.svg()


def _rows(state: Any, now: Sequence[int], counts: Sequence[int]) -> list[Sequence[int]]:
    """Sums of the finished levels; the earlier ones are recomputed, since the register has only one level."""
    rows: list[Sequence[int]] = [[(counts[0] + state.base) % (1 << BITS), *counts[1:]]]
    for level in range(state.level):
        rows.append(add_level(rows[-1], level)[0])
    return [*rows[:-1], now]


def _additions(drawing: Drawing, reach: int, elements: int, y: float, wide: float) -> None:
    """Lines from an element and from the one `reach` before it to their sum."""
    for element in range(elements):
        x = LEFT + (element + 0.5) * wide - 1
        drawing.line(x, y - GAP, x, y)
        if element >= reach:
            drawing.line(x - reach * wide, y - GAP, x, y)
