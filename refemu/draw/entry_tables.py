"""Tables of numbered entries: eight side by side, in a line for each name."""

from collections.abc import Mapping, Sequence

from refemu.draw.svg import MARGIN, WIDTH, Drawing

ACROSS, ROWS = 8, 4  #: entries side by side, and rows of them that are drawn
LEFT = 76  #: of the first entry
HIGH = 19  #: height of a cell
LETTERS = 6  #: letters that fit into a cell


def entries(drawing: Drawing, rows: Mapping[str, Sequence[tuple[str, str, str]]], at: int = 0) -> None:
    """Append a table to a drawing.

    Parameters
    ----------
    drawing : Drawing
        Drawing.
    rows : mapping of str to sequence of (str, str, str)
        By name: text, kind and about of every entry. If there are more than 32, those around `at` are drawn.
    at : int
        Number of the entry that the event is about.
    """
    count = max(len(cells) for cells in rows.values())
    groups = -(-count // ACROSS)
    begin = min(max(at // ACROSS - 1, 0), max(groups - ROWS, 0))
    wide = (WIDTH - LEFT - MARGIN) / ACROSS
    for group in range(begin, min(begin + ROWS, groups)):
        y, inside = drawing.height + 17, range(group * ACROSS, min((group + 1) * ACROSS, count))
        for entry in inside:
            drawing.text(LEFT + (entry % ACROSS + 0.5) * wide - 1, y - 4, str(entry), "small faint", "middle")
        for number, (name, cells) in enumerate(rows.items()):
            drawing.text(MARGIN, y + number * HIGH + 13, name, "small faint")
            for entry in inside[: max(len(cells) - group * ACROSS, 0)]:
                x = LEFT + entry % ACROSS * wide
                drawing.cell(x, y + number * HIGH, wide - 2, HIGH - 2, *cells[entry])
    if groups > ROWS:
        last = min((begin + ROWS) * ACROSS, count) - 1
        drawing.note(f"entries {begin * ACROSS} to {last} of {count}", "small faint")
