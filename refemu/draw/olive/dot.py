"""The dot product unit: exponents and integers, products, shifts, the adder tree. [olive §4.1, Fig. 6a]"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from refemu.draw.svg import MARGIN, SMALL, WIDTH, Drawing, letters
from refemu.draw.values import brief, listed
from refemu.units.olive.olive_edp import EVENTS
from refemu.units.olive.olive_edp.olive_edp import terms
from refemu.units.ports import Ports

HIGH = 20  #: height of an element's row
#: left edge and width of the columns: elements of a and b, product, shift, term
COLUMNS = {"a": (26, 58), "b": (84, 58), "product": (142, 50), "shift": (192, 28), "term": (220, 70)}
TREE = 290  #: left edge of the adder tree
LEGEND = {
    "code": "integer << exponent",
    "mantissa": "product",
    "exponent": "shift",
    "score": "product << shift",
    "free": "sum",
    "hot": "this event",
    "gone": "of the operation before",
    "bad": "left 32 bits",
}


class Operation(NamedTuple):
    """Registers of a dot product, and its stage."""

    a: Sequence[tuple[int, int]]  #: exponent and integer
    b: Sequence[tuple[int, int]]
    products: Sequence[int]
    shifts: Sequence[int]
    terms: Sequence[int]
    stage: int  #: place of the last event in EVENTS, -1 before the first


def operation_of(state: Any, stage: int) -> Operation:
    """Operation in the registers of a dot product unit.

    Parameters
    ----------
    state : State
        State of olive_edp.
    stage : int
        Place of the last event in EVENTS.

    Returns
    -------
    Operation
        Registers.
    """
    a, b = (
        tuple(zip(*pair, strict=True)) for pair in ((state.a_exponent, state.a_int), (state.b_exponent, state.b_int))
    )
    return Operation(a, b, state.products, state.shifts, terms(state), stage)


def unit(ports: Ports, state: Any) -> str:
    """Draw the dot product unit: a row for every element, the adder tree next to them, c and d below.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of olive_edp.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [olive §4.1, Fig. 6a]
    """
    stage = EVENTS.index(state.event) if state.event in EVENTS else -1
    return _drawn(state, stage, stage, state.c)


def clocked(ports: Ports, state: Any) -> str:
    """The dot product unit of olive_edp_clocked after its last event."""
    idle = state.event not in EVENTS
    stage = EVENTS.index(state.event) if not idle else state.phase if state.operations else -1
    return _drawn(state, stage, -1 if idle else stage, state.c_held)


def _drawn(state: Any, stage: int, hot: int, c: int) -> str:
    operation = operation_of(state, stage)
    drawing = Drawing(f"dot product unit after {state.event}", _described(operation, c, state))
    drawing.heading(f"{state.event}: operation {state.operations + (stage < 3)}" if stage >= 0 else state.event)
    stages(drawing, hot)
    root = elements(drawing, operation)
    done = stage == len(EVENTS) - 1
    end = "bad" if state.overflow and done else "hot" if hot == len(EVENTS) - 1 else "free"
    drawing.named(
        [
            ("dot product", short(root, 150) if done else "", "free" if done else "empty"),
            ("+ c", short(c, 150), "plain"),
            ("= d" if not state.overflow else "= d, of 32 bits", str(state.d), end if done else "gone"),
        ]
    )
    if state.illegal:
        drawing.note("an illegal pair contributes 0", "small")
    drawing.legend(LEGEND)
    return drawing.svg()


def stages(drawing: Drawing, hot: int) -> None:
    """Draw names of the events above the columns that they fill.

    Parameters
    ----------
    drawing : Drawing
        Drawing.
    hot : int
        Place of the event in EVENTS, -1 for none.
    """
    y = drawing.height + 4
    edges = (COLUMNS["a"][0], COLUMNS["product"][0], COLUMNS["term"][0], TREE, WIDTH - MARGIN)
    for place, (name, left, right) in enumerate(zip(EVENTS, edges, edges[1:], strict=False)):
        drawing.cell(left, y, right - left - 3, 18, name, "hot" if place == hot else "empty", f"event {name}")


def elements(drawing: Drawing, operation: Operation) -> int:
    """Draw a row for every element and the adder tree; return the exact sum of the terms.

    Parameters
    ----------
    drawing : Drawing
        Drawing.
    operation : Operation
        Registers.

    Returns
    -------
    int
        Dot product.
    """
    top = drawing.height + 18
    for name, (left, wide) in COLUMNS.items():
        drawing.text(left + wide / 2 - 1.5, top - 5, "by" if name == "shift" else name, "small faint", "middle")
    for place in range(len(operation.terms)):
        _element(drawing, operation, place, top + place * HIGH)
    return _tree(drawing, operation, top)


def _element(drawing: Drawing, operation: Operation, place: int, y: float) -> None:
    """One row. Registers that this operation has not set yet hold values of the one before."""
    drawing.text(MARGIN, y + 14, str(place), "small faint")
    (a, x), (b, z) = operation.a[place], operation.b[place]
    for name, text, kind, since in (
        ("a", f"{x}<<{a}", "code", 0),
        ("b", f"{z}<<{b}", "code", 0),
        ("product", str(operation.products[place]), "mantissa", 1),
        ("shift", str(operation.shifts[place]), "exponent", 1),
        ("term", short(operation.terms[place], COLUMNS["term"][1]), "score", 2),
    ):
        left, wide = COLUMNS[name]
        exact = operation.terms[place] if name == "term" else text
        known = kind if operation.stage >= since else "gone"
        drawing.cell(left, y, wide - 3, HIGH - 3, text, known, f"element {place}, {name}: {exact}")


def _tree(drawing: Drawing, operation: Operation, top: float) -> int:
    """Sums of neighbours, level by level; the sum is exact, so no order of additions shows (D-olive-34)."""
    sums, done = list(operation.terms), operation.stage == len(EVENTS) - 1
    depth = len(sums).bit_length() - 1
    step = (WIDTH - MARGIN - TREE) / depth
    before: list[tuple[float, float]] = [
        (COLUMNS["term"][0] + COLUMNS["term"][1] - 3, top + (at + 0.5) * HIGH - 1.5) for at in range(len(sums))
    ]
    for level in range(depth):
        sums = [left + right for left, right in zip(sums[::2], sums[1::2], strict=True)]
        x = TREE + level * step
        here = [(x, (left[1] + right[1]) / 2) for left, right in zip(before[::2], before[1::2], strict=True)]
        for place, (_, y) in enumerate(here):
            for left in before[2 * place : 2 * place + 2]:
                drawing.line(*left, x + 6, y)
        for place, (_, y) in enumerate(here):
            text = short(sums[place], step - 8) if done else ""
            about = f"level {level + 1}, sum {place}: {sums[place] if done else 'still to come'}"
            drawing.cell(x + 6, y - 9, step - 6, 18, text, "free" if done else "empty", about)
        before = [(x + step, y) for _, y in here]
    return sums[0]


def short(value: int, width: float) -> str:
    """Write an integer in full where it fits, else in powers of ten.

    Parameters
    ----------
    value : int
        Value.
    width : float
        Width of the space in the drawing.

    Returns
    -------
    str
        Text.
    """
    return brief(value, int((width - 1) / letters("x", SMALL)))


def _described(operation: Operation, c: int, state: Any) -> str:
    """Description of the current operation so far."""
    if operation.stage < 0:
        return "no operation yet"
    parts = [
        f"{name}: {listed([f'{integer} << {exponent}' for exponent, integer in pairs], 16)}"
        for name, pairs in (("a", operation.a), ("b", operation.b))
    ]
    parts += [f"products {listed(operation.products, 16)}"] if operation.stage >= 1 else []
    parts += [f"shifted {listed(operation.terms, 16)}"] if operation.stage >= 2 else []
    parts += [f"c {c}, d {state.d}"] if operation.stage >= 3 else []
    return "; ".join(parts)
