"""Bars in rows, one for each token, with a cell below each that says which it is and marks it. [leankv §4]"""

from collections.abc import Sequence
from typing import NamedTuple

from refemu.draw.svg import MARGIN, WIDTH, Drawing

ACROSS, ROWS = 16, 6  #: bars in a row, and rows that are drawn
HIGH = 40  #: height of the highest bar
CELL = 16  #: of the cell below a bar


class Bar(NamedTuple):
    """A value, at least 0."""

    value: float
    kind: str  #: of svg.FILLS
    label: str  #: in the cell below
    mark: str  #: kind of that cell where the event is about this bar, else ""
    about: str


def rows(drawing: Drawing, bars: Sequence[Bar], most: float, thing: str) -> None:
    """Append bars to a drawing.

    Parameters
    ----------
    drawing : Drawing
        Drawing.
    bars : sequence of Bar
        Bars; if there are more than 96, the rows with a mark, then the first ones.
    most : float
        Value of the highest bar; larger ones are as high.
    thing : str
        Noun for the item of a bar, if some are omitted.
    """
    every = [bars[first : first + ACROSS] for first in range(0, len(bars), ACROSS)]
    marked = [row for row, group in enumerate(every) if any(bar.mark for bar in group)]
    chosen = sorted(list(dict.fromkeys([*marked, *range(len(every))]))[:ROWS])
    for row in chosen:
        _row(drawing, every[row], most)
    if len(chosen) < len(every):
        first = ", ".join(str(row * ACROSS) for row in chosen)
        drawing.note(f"{len(chosen)} of {len(every)} rows, which begin at {thing} {first}", "small faint")


def _row(drawing: Drawing, bars: Sequence[Bar], most: float) -> None:
    wide, foot = (WIDTH - 2 * MARGIN) / ACROSS, drawing.height + 6 + HIGH
    for place, bar in enumerate(bars):
        x, tall = MARGIN + place * wide, max(HIGH * min(bar.value / most, 1.0), 0.6) if most else 0.6
        drawing.box(x + 3, foot - tall, wide - 8, tall, bar.kind, bar.about)
        drawing.cell(x, foot + 2, wide - 2, CELL, bar.label, bar.mark or bar.kind, bar.about)
