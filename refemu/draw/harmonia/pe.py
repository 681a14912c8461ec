"""The BFP processing element and the array of them. [harmonia §IV-A, §IV-B, Fig. 12, Fig. 13]"""

from collections.abc import Sequence
from typing import Any

from refemu.draw.svg import MARGIN, WIDTH, Drawing
from refemu.draw.values import half, listed, single
from refemu.units.harmonia.bfp_pe import seat
from refemu.units.ports import Ports

MODES = ("M8W4", "M8M4", "M8M8")
ACROSS = 16  #: elements of a register file in a row


def pe(ports: Ports, state: Any) -> str:
    """Draw a BFP PE: both register files, the operand, the sub-PEs, and the accumulator.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of bfp_pe.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [harmonia §IV-B, Fig. 13]
    """
    mode = MODES[state.mode]
    flags = ports.outputs[-1].meaning if state.flags else "no flag"
    drawing = Drawing(
        f"BFP PE in mode {mode} after {state.event}",
        f"sum {state.psum}, value {single(state.value)}, accumulator {single(state.acc)}, flags {state.flags}",
    )
    drawing.heading(f"{state.event}: mode {mode}, group {state.index}, slot {state.slot}, {state.todo} to come")
    _file(drawing, "next", state.next_sign, state.next_mag, state.next_exp, state.event == "load")
    _file(drawing, "current", state.current_sign, state.current_mag, state.current_exp, False)
    _operand(drawing, state)
    _wrappers(drawing, state)
    drawing.named(
        [
            ("sum", str(state.psum), "hot" if state.event == "fuse" else "plain"),
            ("value", single(state.value), "hot" if state.event == "scale" else "plain"),
            (
                "accumulator",
                single(state.acc),
                "bad" if state.flags else "hot" if state.event == "accumulate" else "plain",
            ),
        ]
    )
    if state.flags:
        drawing.note(f"flags {state.flags}: {flags}", "small")
    drawing.legend({"hot": "this event", "exponent": "exponent", "mantissa": "elements", "bad": "a flag is set"})
    return drawing.svg()


def pe_array(ports: Ports, state: Any) -> str:
    """Draw the array of BFP PEs in a cycle: which group every column works on, and the accumulators.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of bfp_pe_array.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [harmonia §IV-A, Fig. 12, Fig. 14a]
    """
    work, columns = state.work, len(state.work)
    sums = [single(each.acc) for each in state.pes]
    rows = len(sums) // columns
    busy = [column for column, each in enumerate(work) if each.group >= 0]
    drawing = Drawing(
        f"array of {rows} x {columns} BFP PEs in cycle {state.cycle}",
        f"columns at work: {listed(busy, 16) or 'none'}; accumulators of row 0: {listed(sums[:columns], 16)}",
    )
    leaves = f", column {state.col} leaves" if any(state.column_valid) else ""
    drawing.heading(f"cycle {state.cycle}: {state.event}{leaves}")
    _columns(drawing, state, sums, state.col if leaves else -1)
    drawing.note(
        "a line is a column of the array: group.slot of its work, then the accumulators of its rows", "small faint"
    )
    drawing.legend({"hot": "at work", "low": "leaves", "plain": "waits", "gone": "no row or column there"})
    return drawing.svg()


def _columns(drawing: Drawing, state: Any, sums: Sequence[str], out: int) -> None:
    """A line for each column, so that the accumulators fit. out: the column that leaves, or -1."""
    columns, left = len(state.work), 96
    rows = len(sums) // columns
    width = (WIDTH - left - MARGIN) / rows
    y = drawing.height + 18
    for row in range(rows):
        drawing.text(left + (row + 0.5) * width, y - 5, f"row {row}", "small faint", "middle")
    for column, work in enumerate(state.work):
        top = y + column * 22
        drawing.text(MARGIN, top + 14, f"col {column}", "small faint")
        busy = work.group >= 0
        drawing.cell(54, top, 36, 20, f"{work.group}.{work.slot}" if busy else "·", "hot" if busy else "empty")
        for row in range(rows):
            valid = state.row_valid[row] and state.col_valid[column]
            kind = "gone" if not valid else "low" if column == out else "hot" if busy else "plain"
            text = sums[row * columns + column]
            about = f"row {row}, column {column}: accumulator {text}"
            drawing.cell(left + row * width, top, width - 2, 20, f"{float(text):.3g}", kind, about)


def _file(drawing: Drawing, name: str, signs: Any, magnitudes: Any, exponent: int, hot: bool) -> None:
    """A register file: its exponent, then its elements in rows."""
    drawing.note(f"{name} register file", "small faint")
    y = drawing.height + 2
    drawing.cell(MARGIN, y, 50, 40, f"E {exponent}", "exponent")
    _elements(drawing, y, _signed(signs, magnitudes), "hot" if hot else "mantissa")


def _operand(drawing: Drawing, state: Any) -> None:
    """Weights of 4 bits with their factor, or activations with their exponent."""
    weights = state.mode == 0
    drawing.note("weights and their factor" if weights else "operand b", "small faint")
    y = drawing.height + 2
    drawing.cell(MARGIN, y, 50, 40, half(state.w_scale) if weights else f"E {state.b_exp}", "exponent")
    codes = state.b
    values = [code - 16 * (code >> 3) for code in codes] if weights else _signed(state.b_sign, state.b)
    _elements(drawing, y, values, "code")


def _elements(drawing: Drawing, y: float, values: Sequence[int], kind: str) -> None:
    left, width = MARGIN + 56, (WIDTH - 2 * MARGIN - 56) / ACROSS
    for place, value in enumerate(values):
        x, top = left + place % ACROSS * width, y + place // ACROSS * 20.5
        drawing.cell(x, top, width - 1, 19, str(value), kind if value else "empty")


def _wrappers(drawing: Drawing, state: Any) -> None:
    """Sums of the sub-PEs; the one that worked is marked."""
    drawing.note("sums of the sub-PEs", "small faint")
    latched, y = state.latched, drawing.height + 2
    hot = seat(state.mode, state.slot) if state.event == "psum" else -1
    width = (WIDTH - 2 * MARGIN) / len(latched)
    for place, value in enumerate(latched):
        kind = "hot" if place == hot else "plain"
        about = f"wrapper {place // 2}, sub-PE {place % 2}"
        drawing.cell(MARGIN + place * width, y, width - 4, 26, str(value), kind, about)


def _signed(signs: Any, magnitudes: Any) -> list[int]:
    return [-size if sign else size for sign, size in zip(signs, magnitudes, strict=True)]
