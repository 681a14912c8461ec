"""KLLM's chip: the token, the units that it passes, the lanes, the outputs. [kllm §IV-A, Fig. 6]"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.draw.svg import MARGIN, SMALL, WIDTH, Drawing, letters
from refemu.draw.values import brief, half, listed
from refemu.units.kllm.pe_lane import PHASES
from refemu.units.ports import Ports

MOST = 16  #: values of the token, outputs, and lanes, that are drawn
ACROSS = 8  #: cells of a row
LEFT = 66  #: of the first cell
HIGH = 20  #: height of a row
UNITS = {"search": "Orizuru", "cluster": "Clustering Unit", "edge": "lanes", "function": "Functional Unit"}
LEGEND = {
    "hot": "unit of this event",
    "exponent": "outlier",
    "code": "index of its centroid",
    "empty": "none yet, or unused",
    "plain": "fp16 value",
    "mantissa": "works",
    "gone": "idle",
    "bad": "not finite",
}


def chip(ports: Ports, state: Any) -> str:
    """Draw the chip after an event: the token with its outliers and indices, units, lanes, Out Buffer.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of kllm_chip.

    Returns
    -------
    str
        SVG; the first 16 values, outputs and lanes.

    References
    ----------
    [kllm §IV-A, Fig. 6]
    """
    drawing = Drawing(f"chip after {state.event}", _described(state))
    drawing.heading(f"{state.event}, cycle {state.cycles_taken} of the token")
    _token(drawing, state)
    _units(drawing, state)
    _lanes(drawing, state)
    _row(
        drawing,
        "y",
        "output",
        [_short(word) for word in state.y],
        ["bad" if bad else "plain" for bad in state.overflow],
    )
    if state.functional is not None:
        _row(drawing, "z", "function of output", [_short(word) for word in state.z], ["plain"] * len(state.z))
    drawing.legend(LEGEND)
    return drawing.svg()


def _short(word: int) -> str:
    """A word of float16 in six letters."""
    return brief(float(np.uint16(word).view(np.float16)), 6)


def _clustered(state: Any) -> set[int]:
    """Positions of the inliers that have an index."""
    return set([place for place, outlier in enumerate(state.a_mask) if not outlier][: state.clustered])


def _token(drawing: Drawing, state: Any) -> None:
    """Values and, when the Clustering Unit has been there, their indices."""
    outlier, done = state.a_mask, _clustered(state)
    kinds = ["exponent" if out else "plain" for out in outlier]
    _row(drawing, "x", "value", [_short(word) for word in state.x], kinds)
    shown = [str(index) if place in done else "" for place, index in enumerate(state.a_index)]
    kinds = ["exponent" if out else "code" if place in done else "empty" for place, out in enumerate(outlier)]
    _row(drawing, "index", "index", shown, kinds)


def _row(drawing: Drawing, name: str, about: str, shown: Sequence[str], kinds: Sequence[str]) -> None:
    """Cells in rows of ACROSS."""
    y, wide = drawing.height + 4, (WIDTH - LEFT - MARGIN) / ACROSS
    drawing.text(MARGIN, y + 13, name, "small faint")
    for place, (text, kind) in enumerate(list(zip(shown, kinds, strict=True))[:MOST]):
        x, below = LEFT + place % ACROSS * wide, y + place // ACROSS * HIGH
        drawing.cell(x, below, wide - 2, HIGH - 2, text, kind, f"{about} {place}: {text or 'none'}")
    if len(shown) > MOST:
        drawing.note(f"the first {MOST} of {len(shown)}", "small faint")


def _units(drawing: Drawing, state: Any) -> None:
    """The units in the order in which the token passes them, with what each has done."""
    inliers = state.a_mask.count(0)
    done = {
        "search": f"{state.a_mask.count(1)} outliers",
        "cluster": f"{state.clustered} of {inliers}",
        "edge": f"{state.waiting} tiles begun",
        "function": "unused" if state.functional is None else state.functional.event,
    }
    y, gap = drawing.height + 12, 14
    wide = (WIDTH - 2 * MARGIN - 3 * gap) / 4
    for place, (event, name) in enumerate(UNITS.items()):
        x = MARGIN + place * (wide + gap)
        hot = state.event == event
        unused = event == "function" and state.functional is None
        kind = "hot" if hot else "empty" if unused else "plain"
        drawing.box(x, y, wide, 42, kind, f"{name}: {done[event]}")
        style = "" if letters(name, SMALL + 1.5) < wide else "small"
        drawing.text(x + wide / 2, y + 17, name, style, "middle")
        drawing.text(x + wide / 2, y + 34, done[event], "small", "middle")
        if place:
            drawing.line(x - gap, y + 21, x, y + 21, hot)
    drawing.note(f"scale of the token {half(state.a_scale)}", "small faint")


def _lanes(drawing: Drawing, state: Any) -> None:
    """A row for each lane: slabs taken, what its counters and its MACs do, and the sums of its columns."""
    columns = (("slabs", 44.0), ("counters", 116.0), ("MACs", 92.0), ("weighted sums", WIDTH - LEFT - MARGIN - 252.0))
    y = drawing.height + 18
    x = float(LEFT)
    for name, wide in columns:
        drawing.text(x, y - 4, name, "small faint")
        x += wide
    for number, registers in enumerate(state.lanes[:MOST]):
        x = float(LEFT)
        drawing.text(MARGIN, y + number * HIGH + 13, f"lane {number}", "small faint")
        turns, phase = registers.left_turns, PHASES[registers.phase]
        sums = ", ".join(_short(word) for word in registers.acc)
        cells = (
            (str(state.taken[number]), "plain"),
            (f"{turns} turns left" if turns else "wait", "mantissa" if turns else "gone"),
            (phase, "gone" if phase == "idle" else "mantissa"),
            (sums, "plain"),
        )
        for (name, wide), (text, kind) in zip(columns, cells, strict=True):
            about = f"{name} of lane {number}: {text}"
            drawing.cell(x, y + number * HIGH, wide - 2, HIGH - 2, text, kind, about)
            x += wide
    if len(state.lanes) > MOST:
        drawing.note(f"the first {MOST} of {len(state.lanes)} lanes", "small faint")


def _described(state: Any) -> str:
    outliers = [place for place, out in enumerate(state.a_mask) if out]
    phases = [PHASES[registers.phase] for registers in state.lanes]
    return (
        f"values {listed(map(half, state.x))}; outliers {listed(outliers) or 'none'}; scale {half(state.a_scale)}; "
        f"{state.clustered} values clustered; lanes {listed(phases)}; outputs {listed(map(half, state.y))}"
    )
