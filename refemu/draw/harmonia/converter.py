"""The real-time converter: exponents of both banks with their maximum registers, and the column that leaves.

[harmonia §IV-C, Fig. 14]
"""

from itertools import groupby
from typing import Any

from refemu.draw.svg import MARGIN, WIDTH, Drawing
from refemu.draw.values import listed
from refemu.units.ports import Ports

KINDS = ("token", "V")  #: of blocks, by code
LANES, COLUMNS, GROUP = 8, 16, 32  #: rows and columns of the array that feeds it, elements under one exponent
PANEL = (WIDTH - 3 * MARGIN) / 2  #: width of a bank
HIGH = 13  #: height of a row of exponents
NUMBER = 18  #: width of the number of an element
LEGEND = {
    "exponent": "exponent of an element",
    "code": "maximum so far",
    "plain": "that of a group not shown",
    "hot": "this clock",
    "gone": "aligned, or a lane without a row",
    "empty": "still to come",
    "mantissa": "sign and mantissa that leave",
}


def converter(ports: Ports, state: Any) -> str:
    """Draw the converter after a clock: the block that is compared, the one that is aligned, what leaves.

    A column of a bank is a group of 32 elements, with the register of its largest exponent above it. Of the 16 groups
    of a V block, the eight of this clock are drawn.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of bfp_converter.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [harmonia §IV-C, Fig. 14]
    """
    drawing = Drawing(f"converter in clock {state.index}: {state.event}", _described(state))
    drawing.heading(f"clock {state.index}: {state.event}")
    top = drawing.height
    comparing, aligning = _hot(state)
    _bank(drawing, MARGIN, top, "compared", state.comparing, comparing)
    _bank(drawing, 2 * MARGIN + PANEL, top, "aligned", state.aligning, aligning)
    _output(drawing, state)
    drawing.legend(LEGEND)
    return drawing.svg()


def _hot(state: Any) -> tuple[int, int]:
    """Columns of both banks that arrived or left in this clock, numbered by arrival; -1 for none."""
    events = state.event.split()
    arrived = "compare" in events or "max" in events
    comparing = len(state.comparing.words) - 1 if arrived else -1
    if state.aligning.position:
        return comparing, _order(state.aligning)[state.aligning.position - 1]
    moved = "max" in events and not state.comparing.words  # the last column moved the block to the other bank
    return comparing, len(state.aligning.words) - 1 if moved else -1


def _order(bank: Any) -> list[int]:
    """Columns of a bank in the order in which they are aligned."""
    return [bank._replace(position=position).place()[0] for position in range(len(bank.words))]


def _bank(drawing: Drawing, left: float, top: float, name: str, bank: Any, hot: int) -> None:
    """Maximum registers above the exponents of eight groups, those that the clock is about."""
    count = len(bank.words)
    progress = f"{bank.position} of {count} out" if name == "aligned" else f"{count} in"
    about = f"{KINDS[bank.kind]}, m {bank.m}, {progress}" if bank.words else "no block"
    drawing.text(left, top + 13, f"{name}: {about}", "small")
    first = hot % COLUMNS // LANES * LANES if bank.kind and hot >= 0 else 0
    x, wide = left + NUMBER, (PANEL - NUMBER) / LANES
    used = (COLUMNS if bank.kind else LANES) if bank.words else 0
    for group, maximum in enumerate(bank.emax):
        shown = first <= group < first + LANES
        kind = "empty" if group >= used else "code" if shown else "plain"
        text = str(maximum) if group < used else ""
        y = top + 19 + group // LANES * 18
        drawing.cell(x + group % LANES * wide, y, wide, 17, text, kind, f"{name}, maximum of group {group}")
    y = top + 59
    drawing.box(x, y, LANES * wide, GROUP * HIGH, "empty")
    for row, cells in enumerate(_grid(bank, hot)):
        if row % 4 == 0:
            drawing.text(x - 3, y + row * HIGH + 10.5, str(row), "small faint", "end")
        _elements(drawing, x, y + row * HIGH, wide, cells[first : first + LANES], f"{name}, element {row}, ", first)


def _elements(
    drawing: Drawing, x: float, y: float, wide: float, cells: list[tuple[str, str]], about: str, first: int
) -> None:
    """An element of eight groups; neighbours of one kind share a box. first: number of the first group."""
    at = 0
    for kind, run in groupby(cells, key=lambda cell: cell[0]):
        count = len(list(run))
        if kind != "empty":
            drawing.box(x + at * wide, y, count * wide, HIGH, kind, f"{about}from group {first + at}")
        at += count
    for column, (_, text) in enumerate(cells):
        if text:
            drawing.text(x + (column + 0.5) * wide, y + 10.5, text, "small", "middle")


def _grid(bank: Any, hot: int) -> list[list[tuple[str, str]]]:
    """Kind and text of every element, a column for each group."""
    grid = [[("empty", "")] * COLUMNS for _ in range(GROUP)]
    gone = set(_order(bank)[: bank.position])
    for number, (words, valid) in enumerate(zip(bank.words, bank.valid, strict=True)):
        loop, column = divmod(number, COLUMNS)
        for lane, word in enumerate(words):
            there = valid >> lane & 1
            kind = "gone" if not there or number in gone else "exponent"
            row, group = (LANES * loop + lane, column) if bank.kind else (number, lane)
            grid[row][group] = ("hot" if number == hot and there else kind, str(word >> 10 & 31) if there else "·")
    return grid


def _output(drawing: Drawing, state: Any) -> None:
    """Lanes that leave: sign and mantissa, below them the shared exponent."""
    drawing.note(_leaves(state))
    wide, y = (WIDTH - 2 * MARGIN) / LANES, drawing.height + 3
    for lane, (signed, exponent) in enumerate(_lanes(state)):
        x, there, none = MARGIN + lane * wide, bool(signed), "gone" if state.out_valid else "empty"
        drawing.cell(x, y, wide - 3, 20, signed or "·", "mantissa" if there else none, f"lane {lane}: mantissa")
        text = f"E {exponent}" if there else "·"
        drawing.cell(x, y + 22, wide - 3, 20, text, "exponent" if there else none, f"lane {lane}: exponent")


def _lanes(state: Any) -> list[tuple[str, int]]:
    """Signed mantissa and exponent of every lane; "" of one that puts out nothing."""
    parts = zip(state.sign, state.mantissa, state.exponent, strict=True)
    return [
        (f"{'-' if sign else ''}{mantissa}" if state.out_valid >> lane & 1 else "", exponent)
        for lane, (sign, mantissa, exponent) in enumerate(parts)
    ]


def _leaves(state: Any) -> str:
    if not state.out_valid:
        return "no element leaves"
    if not state.out_kind:
        return f"leaves: element {state.element} of every group"
    first = LANES * state.subgroup
    return f"leaves: elements {first} to {first + LANES - 1} of group {state.element}"


def _described(state: Any) -> str:
    banks = [
        f"{name} block of kind {KINDS[bank.kind]}: {len(bank.words)} columns, maxima "
        f"{listed(bank.emax[: COLUMNS if bank.kind else LANES], COLUMNS)}, {bank.position} aligned"
        for name, bank in (("compared", state.comparing), ("aligned", state.aligning))
        if bank.words
    ]
    out = ", ".join(f"{text} with exponent {exponent}" if text else "none" for text, exponent in _lanes(state))
    return "; ".join([*banks, f"{_leaves(state)}: {out}" if state.out_valid else _leaves(state)])
