"""The accelerator: its parts at work and the matrix C; the data generation flow with both operands.

[harmonia §IV-A, Fig. 12, §IV-D, Fig. 15]
"""

from math import isqrt
from typing import Any

from refemu.arith.scalar32 import value16
from refemu.draw.svg import MARGIN, SMALL, WIDTH, Drawing, letters
from refemu.draw.values import brief, listed
from refemu.units.ports import Ports

#: boxes of Fig. 12 in the order of the data, with the events of the core in each; the clocked core lists the same parts
STAGES = {
    "memory": ("load",),
    "array": ("dispatch", "compute"),
    "FP2Half": ("fp2half",),
    "vector": ("bias", "vector"),
    "offset": ("offset",),
    "compare": ("convert",),
    "align": ("store",),
}
HIGH, ROWS, COLUMNS = 18, 16, 10  #: height of a row of C; most rows and columns shown
LEGEND = {"hot": "at work", "score": "leaves in this clock", "mantissa": "in the temporary SRAM", "empty": "still 0"}


def core(ports: Ports, state: Any) -> str:
    """Draw the accelerator after an event: the part that it is about, and C in the temporary SRAM.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of harmonia_core.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [harmonia §IV-A, Fig. 12]
    """
    hot = [state.event in events for events in STAGES.values()]
    return _accelerator(ports, state, f"product {state.index}: {state.event}", hot, (0, 0, 0))


def clocked(ports: Ports, state: Any) -> str:
    """Draw the accelerator after a clock: the parts at work, C, and the column that leaves.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of harmonia_core_clocked.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [harmonia §IV-A, Fig. 12, §IV-C]
    """
    count = len([bit for bit in state.sent if bit])
    text = f"clock {state.index}: {state.event}" + (f", column {state.column} leaves" if count else "")
    return _accelerator(ports, state, text, [bool(bit) for bit in state.working], (state.row, state.column, count))


def _accelerator(ports: Ports, state: Any, text: str, hot: list[bool], leaves: tuple[int, int, int]) -> str:
    """The parts in a line, then C. leaves: first row, column and rows of the column that leaves."""
    rows, columns = _size(ports)
    drawing = Drawing(f"accelerator after {text}", _described(state, rows, columns, hot))
    drawing.heading(text)
    y, wide = drawing.height + 8, (WIDTH - 2 * MARGIN) / len(STAGES)
    for place, (name, works) in enumerate(zip(STAGES, hot, strict=True)):
        left = MARGIN + place * wide
        drawing.cell(left, y, wide - 10, 28, name, "hot" if works else "plain", f"part {name}")
        if place:
            drawing.line(left - 10, y + 14, left, y + 14, works)
    _matrix(drawing, state.y, rows, columns, leaves)
    drawing.legend(LEGEND)
    return drawing.svg()


def _size(ports: Ports) -> tuple[int, int]:
    """Rows and columns of C, from the lanes of A (M x N), B (K x N) and C (M x K)."""
    lanes = {port.name: port.count for port in ports.inputs + ports.outputs + ports.state}
    rows = isqrt(lanes["y"] * lanes["a_mag"] // lanes["b"])
    return rows, lanes["y"] // rows


def _matrix(drawing: Drawing, words: Any, rows: int, columns: int, leaves: tuple[int, int, int]) -> None:
    """C as far as it is shown, row by row."""
    shown = min(rows, ROWS), min(columns, COLUMNS)
    cut = "" if shown == (rows, columns) else f", its first {shown[0]} rows and {shown[1]} columns"
    drawing.note(f"C of {rows} x {columns}{cut}", "small faint")
    top, wide = drawing.height + 4, (WIDTH - 2 * MARGIN - 40) / shown[1]
    first, column, count = leaves
    for row in range(shown[0]):
        drawing.text(MARGIN, top + row * HIGH + 13, f"row {row}", "small faint")
        for place in range(shown[1]):
            word = words[row * columns + place]
            out = place == column and first <= row < first + count
            kind = "score" if out else "mantissa" if word else "empty"
            text = brief(value16(word), int((wide - 4) / letters("x", SMALL))) if word else ""
            where = MARGIN + 40 + place * wide, top + row * HIGH
            drawing.cell(*where, wide - 2, HIGH - 2, text, kind, f"row {row}, column {place}: {value16(word):.4g}")


def _described(state: Any, rows: int, columns: int, hot: list[bool]) -> str:
    works = [name for name, bit in zip(STAGES, hot, strict=True) if bit]
    values = listed([f"{value16(word):.4g}" for word in state.y], 16)
    return f"at work: {', '.join(works) or 'nothing'}; C of {rows} x {columns}: {values}"


FETCHES = {2: "A", 3: "B"}  #: operand that is fetched, by code
DATAFLOWS = {0: "none", 1: "column-major: B stays", 2: "row-major: A stays"}


def flow(ports: Ports, state: Any) -> str:
    """Draw the controller of FDGF after an event: the tiles of A, B and C that it is about, addresses, fetches.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of fdgf.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [harmonia §IV-D, Fig. 15]
    """
    m, n, k = state.sizes
    about = f"dataflow {DATAFLOWS[state.dataflow]}; tile {state.mt} of A, {state.kt} of B; {state.fetched} fetched"
    drawing = Drawing(f"FDGF after event {state.index}: {state.event}", about)
    drawing.heading(f"event {state.index}: {state.event}, {DATAFLOWS[state.dataflow]}")
    top, side = drawing.height + 14, 90
    a, b, c = (MARGIN, top + 110), (MARGIN + 190, top), (MARGIN + 190, top + 110)
    for (x, y), name, size in ((a, "A", f"{m} x {n}"), (b, "B", f"{n} x {k}"), (c, "C", f"{m} x {k}")):
        drawing.text(x, y - 3, f"{name}: {size}", "small faint")
        drawing.box(x, y, 180, side, "empty", f"matrix {name}")
    reads, fetch = state.code == 5, FETCHES.get(state.code, "")
    stays = {1: "B", 2: "A"}.get(state.dataflow, "")
    kinds = {each: "hot" if fetch == each else "exponent" if reads or stays == each else "plain" for each in "AB"}
    drawing.cell(a[0], a[1] + 30, 180, 26, f"tile {state.mt} of rows", kinds["A"], f"tile of A: {state.mt}")
    drawing.box(b[0] + 50, b[1], 80, side, kinds["B"], f"tile of B: {state.kt}")
    drawing.text(b[0] + 90, b[1] + 40, f"tile {state.kt}", "", "middle")
    drawing.text(b[0] + 90, b[1] + 56, "of columns", "small", "middle")
    kind = "hot" if state.code in (4, 5) else "low" if state.code == 6 else "plain"
    drawing.cell(c[0] + 50, c[1] + 30, 80, 26, f"{state.mt}, {state.kt}", kind, f"tile of C: {state.mt}, {state.kt}")
    drawing.height += 8
    drawing.named(
        [
            ("elements", str(state.count), "plain"),
            ("fetched", str(state.fetched), "plain"),
            ("address in A", str(state.a_address), "hot" if reads else "plain"),
            ("address in B", str(state.b_address), "hot" if reads else "plain"),
            ("pass, group", f"{state.place}, {state.group}", "plain"),
        ]
    )
    drawing.legend({"hot": "this event", "exponent": "stays, or is read", "low": "stored", "plain": "not in use"})
    return drawing.svg()
