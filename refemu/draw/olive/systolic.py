"""The output-stationary array with its wavefront: which elements have operands in this cycle. [olive §4.3, Fig. 8]"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from refemu.draw.svg import MARGIN, WIDTH, Drawing
from refemu.units.ports import Ports

MOST = 16  #: rows and columns that are drawn, from the north-west corner


class Element(NamedTuple):
    """Contents of an element."""

    a: tuple[int, int, int]  #: valid, exponent, integer of the operand that goes east
    b: tuple[int, int, int]  #: of the operand that goes south
    acc: int
    overflow: int


def array(ports: Ports, state: Any) -> str:
    """Draw the array of olive_systolic after a cycle: accumulators, operands and the wavefront.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of olive_systolic or olive_systolic_clocked.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [olive §4.3, Fig. 8]
    """
    elements = [Element(tuple(pe.a), tuple(pe.b), pe.acc, pe.overflow) for pe in state.pes]
    return _array(
        state, state.cycle, elements, [tuple(held) for held in state.west], [tuple(held) for held in state.north]
    )


def clocked(ports: Ports, state: Any) -> str:
    """The array of olive_systolic_clocked. Operands of 8 bits are in all four elements that multiply them."""
    a, b, west, north = (_operands(state, name) for name in ("a", "b", "west_held", "north_held"))
    if state.mode:
        columns = len(a) // len(west)
        corners = [place - place // columns % 2 * columns - place % 2 for place in range(len(a))]
        a, b = ([side[corner] for corner in corners] for side in (a, b))
    sums, overflows = state.acc, state.acc_overflow
    return _array(state, state.index, [Element(*each) for each in zip(a, b, sums, overflows, strict=True)], west, north)


def _operands(state: Any, name: str) -> list[tuple[int, int, int]]:
    fields = (getattr(state, f"{name}_{part}") for part in ("valid", "exponent", "integer"))
    return [(valid, exponent, integer) for valid, exponent, integer in zip(*fields, strict=True)]


def _array(
    state: Any,
    cycle: int,
    elements: Sequence[Element],
    west: Sequence[tuple[int, ...]],
    north: Sequence[tuple[int, ...]],
) -> str:
    rows, columns = len(west), len(elements) // len(west)
    busy = len([element for element in elements if element.a[0] and element.b[0]])
    title = f"array of {rows} x {columns} after cycle {cycle}: {state.event}"
    sums = "; ".join(
        f"row {row}: {', '.join(str(each.acc) for each in elements[row * columns : (row + 1) * columns][:MOST])}"
        for row in range(min(rows, MOST))
    )
    drawing = Drawing(title, f"{busy} of {len(elements)} elements have both operands. Accumulators: {sums}")
    drawing.heading(title)
    across, down = min(columns, MOST), min(rows, MOST)
    left = 66
    width = min(96.0, (WIDTH - left - MARGIN) / across)
    high = 46 if width > 44 else 30
    y = drawing.height + 6
    for column in range(across):
        held = north[column] if column < len(north) else (0, 0, 0)
        drawing.cell(left + column * width, y, width - 4, 20, _operand(held), "low" if held[0] else "empty", "north")
    y += 26
    for row in range(down):
        top = y + row * (high + 4)
        held = west[row]
        drawing.cell(MARGIN, top, left - MARGIN - 6, high, _operand(held), "high" if held[0] else "empty", "west")
        for column in range(across):
            element = elements[row * columns + column]
            _element(drawing, left + column * width, top, width - 4, high, element, f"element {row}, {column}")
    if (across, down) != (columns, rows):
        drawing.note(f"the first {down} of {rows} rows and {across} of {columns} columns", "small faint")
    drawing.note(
        "below a sum: operands of A and B as exponent.integer; left and above: those that border decoders hold",
        "small faint",
    )
    drawing.legend(
        {
            "hot": "both operands: the wavefront",
            "high": "operand of A only",
            "low": "operand of B only",
            "gone": "no operand",
            "bad": "overflowed",
        }
    )
    return drawing.svg()


def _element(drawing: Drawing, x: float, y: float, width: float, high: float, element: Element, name: str) -> None:
    a, b = element.a, element.b
    kind = ("gone", "low", "high", "hot")[2 * a[0] + b[0]]
    about = f"{name}: A {_operand(a)}, B {_operand(b)}, accumulator {element.acc}"
    if high < 40:
        drawing.cell(x, y, width, high, str(element.acc), "bad" if element.overflow else kind, about)
        return
    drawing.box(x, y, width, high, "bad" if element.overflow else kind, about)
    drawing.text(x + width / 2, y + 19, str(element.acc), "bold", "middle")
    small = f"{_operand(a)} x {_operand(b)}" if width > 84 else f"{_operand(a)} {_operand(b)}"
    drawing.text(x + width / 2, y + 37, small, "small", "middle")


def _operand(operand: Sequence[int]) -> str:
    """Exponent and integer of an operand, a dot where there is none."""
    return f"{operand[1]}.{operand[2]}" if operand[0] else "·"
