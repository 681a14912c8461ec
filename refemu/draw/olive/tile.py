"""The tile of mmaovp: which element of D is at work, and the dot product operation that it gets. [olive §4.6]"""

from collections.abc import Sequence
from typing import Any

from refemu.draw.olive.dot import Operation, elements, operation_of, short, stages
from refemu.draw.svg import MARGIN, WIDTH, Drawing
from refemu.draw.values import listed
from refemu.units.olive.mmaovp import CHUNKS, COLUMNS, OPERATIONS, ROWS
from refemu.units.olive.olive_edp import EVENTS, DotProductUnit
from refemu.units.ports import Ports

LEFT = 48  #: of the tile
HIGH = 19  #: height of a row of the tile
LEGEND = {
    "hot": "this event",
    "low": "finished",
    "plain": "C",
    "bad": "left 32 bits",
    "code": "integer << exponent",
    "mantissa": "product",
    "exponent": "shift",
    "score": "product << shift",
    "free": "sum",
}


def tile(ports: Ports, state: Any) -> str:
    """Draw a tile of mmaovp: D element by element, and the operation of this event with its adder tree.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of mmaovp.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [olive §4.6]
    """
    return _drawn(ports, state, state.a_pairs, state.b_pairs, (state.bias_a, state.bias_b))


def clocked(ports: Ports, state: Any) -> str:
    """The tile of mmaovp_clocked: its operands are those that it holds."""
    return _drawn(ports, state, state.a_pairs_held, state.b_pairs_held, (state.bias_a_held, state.bias_b_held))


def _drawn(ports: Ports, state: Any, a_pairs: Sequence[int], b_pairs: Sequence[int], biases: tuple[int, int]) -> str:
    index = state.phase if state.operations else -1  # of the last operation, -1 before the first
    place, chunk = divmod(index, CHUNKS)
    row, column = divmod(place, COLUMNS)
    working = state.event == "edp"
    where = f"row {row} of A, column {column} of B, half {chunk} of K"
    drawing = Drawing(f"tile after {state.event}, {max(index + 1, 0)} of {OPERATIONS} operations", "")
    drawing.heading(f"{state.event}: {where}" if working else f"{state.event}: {max(index + 1, 0)} operations done")
    _tile(drawing, state, index, working)
    total = 0
    if index >= 0:
        drawing.note(f"{'this' if working else 'the last'} operation, in one event", "small faint")
        operation = _operation(ports, a_pairs, b_pairs, biases, index)
        stages(drawing, -1)
        total = elements(drawing, operation)
        drawing.named(
            [
                ("dot product", short(total, 150), "free"),
                (f"D of row {row}, column {column}", str(state.d[place]), "hot" if working else "plain"),
            ]
        )
    if state.illegal:
        drawing.note("an illegal pair of the tile contributes 0", "small")
    drawing.legend(LEGEND)
    drawing.description = _described(state, index, where, total)
    return drawing.svg()


def _tile(drawing: Drawing, state: Any, index: int, working: bool) -> None:
    """Elements of D; those to come hold C."""
    wide, y = (WIDTH - LEFT - MARGIN) / COLUMNS, drawing.height + 18
    at = index // CHUNKS if working else -1
    for column in range(COLUMNS):
        drawing.text(LEFT + (column + 0.5) * wide - 1, y - 5, f"col {column}", "small faint", "middle")
    for place, (value, overflow) in enumerate(zip(state.d, state.overflow, strict=True)):
        row, column = divmod(place, COLUMNS)
        if column == 0:
            drawing.text(MARGIN, y + row * HIGH + 13, f"row {row}", "small faint")
        chunks = min(max(index + 1 - place * CHUNKS, 0), CHUNKS)
        kind = "bad" if overflow else "hot" if place == at else "low" if chunks else "plain"
        about = f"row {row}, column {column}: {value}, {chunks} of {CHUNKS} halves of K"
        drawing.cell(LEFT + column * wide, y + row * HIGH, wide - 2, HIGH - 2, short(value, wide - 2), kind, about)


def _operation(
    ports: Ports, a_pairs: Sequence[int], b_pairs: Sequence[int], biases: tuple[int, int], index: int
) -> Operation:
    """Registers of the dot product unit that this operation goes through, by the unit itself."""
    kinds: list[Any] = [
        port.encoding.removeprefix("ovp_") for port in ports.inputs if port.name in ("a_pairs", "b_pairs")
    ]
    edp = DotProductUnit(*kinds)
    place, chunk = divmod(index, CHUNKS)
    pairs = edp.n // 2
    left, right = ((side * CHUNKS + chunk) * pairs for side in divmod(place, COLUMNS))
    state = edp.step(a_pairs[left : left + pairs], b_pairs[right : right + pairs], *biases, 0)
    while edp.busy:
        state = edp.step()
    return operation_of(state, len(EVENTS) - 1)


def _described(state: Any, index: int, where: str, total: int) -> str:
    rows = [f"row {row}: {listed(state.d[row * COLUMNS : (row + 1) * COLUMNS])}" for row in range(ROWS) if index >= 0]
    last = f"{where}: dot product {total}" if index >= 0 else "no operation yet"
    return "; ".join([last, *rows])
