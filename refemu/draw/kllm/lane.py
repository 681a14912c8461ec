"""A lane of KLLM's PE: Concat registers, counters, histograms of both tiles, MACs. [kllm §IV-A, Fig. 6]"""

from collections.abc import Sequence
from typing import Any

from refemu.draw.svg import MARGIN, WIDTH, Drawing
from refemu.draw.values import half, listed
from refemu.units.kllm.pe_lane import PHASES
from refemu.units.ports import Ports

MOST, ROWS = 16, 8  #: entries of a histogram, and histograms, that are drawn
LEFT = 76  #: of the first entry
HIGH = 20  #: height of a row
LEGEND = {
    "code": "index in the Concat registers",
    "mantissa": "count",
    "empty": "0, or unused",
    "exponent": "entry that is read next",
    "gone": "does not count",
    "hot": "MACs of this event",
    "bad": "not finite",
}


def lane(ports: Ports, state: Any) -> str:
    """Draw a lane after an edge: positions on hold, registers of the counters, histograms, sums of the MACs.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of pe_lane.

    Returns
    -------
    str
        SVG; of many entries 16, those that are read among them, of the first 8 histograms; the first 16 positions.

    References
    ----------
    [kllm §IV-A, Fig. 6]
    """
    macs = len(state.acc)
    size = len(state.reducing) // macs
    drawing = Drawing(f"lane after edge {state.index}: {state.event}", _described(state, macs, size))
    drawing.heading(f"edge {state.index}: {state.event}; the MACs do next: {PHASES[state.phase]}")
    _concat(drawing, state)
    reads = state.address if PHASES[state.phase] == "reduce" else -1
    _histograms(drawing, "counter", state.count, size, len(state.count) // size, -1)
    drawing.note(f"tile that is counted, {state.columns} columns whole", "small faint")
    _histograms(drawing, "counted", state.counted, size, state.columns, -1)
    drawing.note(
        f"tile that the MACs reduce, {state.working} columns, {state.left} sparse edges to come", "small faint"
    )
    _histograms(drawing, "reduced", state.reducing, size, state.working, reads)
    _macs(drawing, state, macs)
    drawing.legend(LEGEND)
    return drawing.svg()


def _concat(drawing: Drawing, state: Any) -> None:
    """Positions of the slab that is counted."""
    q, valid = state.q, state.q_valid
    drawing.note(f"Concat registers, {state.left_turns} of {state.turns_held} counting edges to come", "small faint")
    y, wide = drawing.height + 3, (WIDTH - LEFT - MARGIN) / min(len(q), MOST)
    drawing.text(MARGIN, y + 13, "indices", "small faint")
    for place, (index, there) in enumerate(list(zip(q, valid, strict=True))[:MOST]):
        about = f"position {place}: index {index}{'' if there else ', does not count'}"
        drawing.cell(LEFT + place * wide, y, wide - 2, HIGH - 2, str(index), "code" if there else "gone", about)
    if len(q) > MOST:
        drawing.note(f"the first {MOST} of {len(q)} positions", "small faint")


def _histograms(drawing: Drawing, name: str, counts: Sequence[int], size: int, used: int, reads: int) -> None:
    """A row for each histogram; those beyond `used` have old contents. reads: entry that the next edge reads."""
    across, down = min(size, MOST), min(len(counts) // size, ROWS)
    first = max(reads, 0) // MOST * MOST
    y, wide = drawing.height + 4, (WIDTH - LEFT - MARGIN) / across
    for row in range(down):
        drawing.text(MARGIN, y + row * HIGH + 13, f"{name} {row}", "small faint")
        for entry in range(first, min(first + across, size)):
            count = counts[row * size + entry]
            kind = "mantissa" if count else "empty"
            if row >= used:
                kind = "gone" if count else "empty"
            elif entry == reads:
                kind = "exponent"
            about = f"{name} {row}, entry {entry}: {count}"
            drawing.cell(LEFT + (entry - first) * wide, y + row * HIGH, wide - 2, HIGH - 2, str(count), kind, about)
    if (across, down) != (size, len(counts) // size):
        drawing.note(
            f"{down} of {len(counts) // size} histograms, {across} of {size} entries from {first} on", "small faint"
        )


def _macs(drawing: Drawing, state: Any, macs: int) -> None:
    """Sums of the columns; those that the event changed are marked."""
    y, across = drawing.height + 18, min(macs, ROWS)
    wide = (WIDTH - LEFT - MARGIN) / across
    y_kind = "hot" if state.y_valid else "plain"
    for row, (name, words, kind) in enumerate(
        (
            ("weighted", state.acc, "hot" if state.event == "reduce" else "plain"),
            ("sparse", state.outside, "hot" if state.event == "sparse" else "plain"),
            ("scales", state.joint, "hot" if state.event == "scale" else "plain"),
            ("y", state.y, y_kind),
        )
    ):
        drawing.text(MARGIN, y + row * HIGH + 13, name, "small faint")
        for column in range(across):
            if row == 0:
                drawing.text(LEFT + (column + 0.5) * wide, y - 5, f"column {column}", "small faint", "middle")
            shown = "bad" if name == "y" and state.overflow[column] else kind
            about = f"{name} of column {column}: {half(words[column])}"
            drawing.cell(LEFT + column * wide, y + row * HIGH, wide - 2, HIGH - 2, half(words[column]), shown, about)
    if macs > across:
        drawing.note(f"the first {across} of {macs} columns", "small faint")


def _described(state: Any, macs: int, size: int) -> str:
    positions = [index for index, there in zip(state.q, state.q_valid, strict=True) if there]
    reducing = state.reducing
    tile = [f"column {at}: {listed(reducing[at * size : (at + 1) * size], 16)}" for at in range(min(macs, ROWS))]
    sums = ", ".join(half(word) for word in state.acc[:ROWS])
    out = f"; outputs {', '.join(half(word) for word in state.y[:ROWS])}" if state.y_valid else ""
    return (
        f"indices {listed(positions, 16) or 'none'}; counters {listed(state.count, 32)}; "
        f"reduced {'; '.join(tile[: state.working]) or 'nothing'}; weighted sums {sums}{out}"
    )
