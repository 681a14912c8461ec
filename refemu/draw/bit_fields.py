"""Words of bits with their fields marked, most significant bit at the left."""

from collections.abc import Sequence
from typing import NamedTuple

from refemu.draw.svg import MARGIN, WIDTH, Drawing

CELL = 25  #: width of a bit
HIGH = 24  #: height of a bit


class Part(NamedTuple):
    """A field of a word."""

    name: str
    kind: str  #: of svg.FILLS
    bits: str  #: in binary
    owner: str = ""  #: text above this field and those that follow


def row(drawing: Drawing, label: str, parts: Sequence[Part], note: str = "", narrow: bool = False) -> None:
    """Append a word to a drawing: a label, its bits, the names of its fields, then a note."""
    count = len("".join(part.bits for part in parts))
    width = min(CELL, (WIDTH - 2 * MARGIN) / max(count, 1)) if not narrow else 14
    if label:
        drawing.note(label)
    x, y = float(MARGIN), drawing.height + (20 if any(part.owner for part in parts) else 4)
    for part in parts:
        drawing.text(x, y - 5, part.owner, "small") if part.owner else None
        for bit in part.bits:
            drawing.cell(x, y, width, HIGH, bit, part.kind, f"{part.name} {part.bits}")
            x += width
        x += 3 if narrow else 0
    if narrow:
        drawing.text(x + 8, y + HIGH / 2 + 4, note)
        return
    drawing.height = y + HIGH
    _names(drawing, parts, width, y + HIGH + 13)
    if note:
        drawing.note(note)


def _names(drawing: Drawing, parts: Sequence[Part], width: float, y: float) -> None:
    """Names under their fields, in two lines where they would touch."""
    x, end = float(MARGIN), [0.0, 0.0]
    for part in parts:
        if part.bits:
            long = len(part.name) * 6.5
            begin = max(float(MARGIN), x + width * len(part.bits) / 2 - long / 2)
            level = 0 if begin >= end[0] else 1
            end[level] = begin + long + 6
            drawing.text(begin, y + 13 * level, part.name, "small faint")
        x += width * len(part.bits)
