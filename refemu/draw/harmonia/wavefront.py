"""The array of BFP PEs with a clock: columns at work, operands that wait, accumulators. [harmonia §IV-A, Fig. 14a]"""

from typing import Any

from refemu.arith.scalar32 import value32
from refemu.draw.svg import MARGIN, SMALL, WIDTH, Drawing, letters
from refemu.draw.values import brief, listed, single
from refemu.units.ports import Ports

SLOTS, WAITING, LEFT = 50, 94, 138  #: left edges: slots to come, operands that wait, accumulators
HIGH = 22  #: height of a column's line
LEGEND = {
    "hot": "at work",
    "low": "leaves in this edge",
    "exponent": "operands wait",
    "plain": "not at work",
    "bad": "flag set",
}


def wavefront(ports: Ports, state: Any) -> str:
    """Draw the clocked array after an edge: a line for every column of PEs, with the accumulators of its rows.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of bfp_pe_array_clocked.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [harmonia §IV-A, Fig. 12, Fig. 14a]
    """
    rows, columns = len(state.valid), len(state.left)
    drawing = Drawing(f"array of {rows} x {columns} BFP PEs after edge {state.index}", _described(state, columns))
    leaves = f", column {state.col} leaves" if any(state.valid) else ""
    drawing.heading(f"edge {state.index}: {state.event}{leaves}")
    y, wide = drawing.height + 18, (WIDTH - LEFT - MARGIN) / rows
    drawing.text(SLOTS, y - 5, "slots", "small faint")
    drawing.text(WAITING, y - 5, "waiting", "small faint")
    for row in range(rows):
        drawing.text(LEFT + (row + 0.5) * wide, y - 5, f"row {row}", "small faint", "middle")
    for column in range(columns):
        _column(drawing, state, column, y + column * HIGH, wide)
    drawing.note("slots to come; A, B: operands in the next files; accumulators", "small faint")
    drawing.legend(LEGEND)
    return drawing.svg()


def _column(drawing: Drawing, state: Any, column: int, y: float, wide: float) -> None:
    left = state.left[column]
    working = bool(left or state.sub_pes[column])
    drawing.text(MARGIN, y + 14, f"col {column}", "small faint")
    drawing.cell(SLOTS, y, 40, 20, str(left), "hot" if working else "plain", f"column {column}: {left} slots to come")
    waits = _waits(state, column)
    drawing.cell(WAITING, y, 40, 20, waits, "exponent" if waits else "empty", f"column {column} waits: {waits}")
    rows, columns = len(state.valid), len(state.left)
    for row in range(rows):
        place = row * columns + column
        flags, busy = state.sum_flags[place], working and state.current_rows[column] >> row & 1
        out = column == state.col and state.valid[row]
        kind = "low" if out else "bad" if flags else "hot" if busy else "plain"
        word = state.sums[place]
        about = f"row {row}, column {column}: accumulator {single(word)}, slot {state.slot[place]}"
        text = brief(value32(word), int((wide - 3) / letters("x", SMALL)))
        drawing.cell(LEFT + row * wide, y, wide - 2, 20, text, kind, about)


def _waits(state: Any, column: int) -> str:
    """Operands in the next files of a column."""
    names = (("A", state.waiting), ("B", state.b_waiting))
    return " ".join(name for name, registers in names if registers[column])


def _described(state: Any, columns: int) -> str:
    lines = [
        f"column {column}: {state.left[column]} slots to come, waiting {_waits(state, column) or 'nothing'}"
        for column in range(columns)
    ]
    sums = listed([single(word) for word in state.sums], 16)
    return f"{'; '.join(lines)}; accumulators {sums}"
