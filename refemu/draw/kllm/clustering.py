"""The Clustering Unit: a number line with centroids and midpoints, and where the value falls. [kllm §IV-A, Fig. 6]"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from refemu.arith.scalar32 import value16
from refemu.draw.entry_tables import LETTERS, entries
from refemu.draw.svg import MARGIN, SMALL, WIDTH, Drawing, letters
from refemu.draw.values import brief, half, listed
from refemu.units.ports import Ports

ROOM = 0.08  #: share of the line outside the first and the last centroid
LEGEND = {"code": "centroid", "low": "midpoint below the value", "gone": "midpoint", "hot": "value, and its centroid"}


def clustering(ports: Ports, state: Any) -> str:
    """Draw the Clustering Unit: a number line, then every centroid with its distance or its midpoint.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of clustering.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [kllm §IV-A, Fig. 6]
    """
    centroids = [value16(word) for word in state.codebook]
    distances = next(port for port in ports.state if port.name == "compared").bits == 16
    # without a division x^ is x, and the midpoints are multiplied by the scale instead
    undivided = not distances and state.x_hat == state.x and value16(state.x) != 0.0
    factor = value16(state.scale) if undivided else 1.0
    drawing = Drawing(f"value {half(state.x_hat)} to index {state.index}", _described(state, centroids, distances))
    drawing.heading(f"{state.event}: element {state.element} to index {state.index}")
    drawing.named(
        [
            ("x", half(state.x), "plain"),
            ("scale", half(state.scale), "plain"),
            ("x^" if factor == 1.0 else "x, not divided", half(state.x_hat), "hot"),
            ("index", str(state.index), "hot"),
            ("centroid", half(state.codebook[state.index]), "code"),
        ]
    )
    passed = [between < state.index for between in range(len(centroids) - 1)]
    _line(drawing, [each * factor for each in centroids], value16(state.x_hat), passed)
    if state.overflow:
        drawing.note("an fp16 result became infinite", "small")
    _table(drawing, state, centroids, distances, factor)
    drawing.legend(LEGEND | ({"exponent": "distance"} if distances else {}))
    return drawing.svg()


def _line(drawing: Drawing, points: Sequence[float], value: float, passed: Sequence[bool]) -> None:
    """The number line: midpoints below it, centroids on it with their numbers above, the value across it."""
    place = _scale(points)
    y = drawing.height + 50
    drawing.line(MARGIN, y, WIDTH - MARGIN, y)
    for number, (low, high) in enumerate(pairwise(points)):
        middle = (low + high) / 2
        about = f"midpoint of {number} and {number + 1}: {middle:.6g}"
        drawing.box(place(middle) - 1.5, y, 3, 12, "low" if passed[number] else "gone", about)
    x = place(value)
    drawing.box(x - 2.5, y - 14, 5, 36, "hot", f"value {value:.6g}")
    ends = [0.0] * 3
    for number, point in enumerate(points):
        drawing.box(place(point) - 2.5, y - 11, 5, 11, "code", f"centroid {number}: {point:.6g}")
        wide = letters(str(number), SMALL)
        level = next((level for level, end in enumerate(ends) if place(point) - wide / 2 > end), 0)
        ends[level] = place(point) + wide / 2 + 2
        drawing.text(place(point), y - 15 - 11 * level, str(number), "small faint", "middle")
    beyond = "" if MARGIN < x < WIDTH - MARGIN else ", beyond the line"
    text = f"{brief(value)}{beyond}"
    half_wide = letters(text, SMALL) / 2
    at = min(max(x, MARGIN + half_wide), WIDTH - MARGIN - half_wide)
    drawing.text(at, y + 34, text, "small", "middle")


def _scale(points: Sequence[float]) -> Callable[[float], float]:
    """Map a value to its place on the line; values beyond the line are at its ends."""
    low, high = min(points), max(points)
    span = (high - low) * (1 + 2 * ROOM) or 1.0
    begin = low - (high - low) * ROOM if high > low else low - 0.5

    def place(value: float) -> float:
        share = 0.5 if math.isnan(value) else min(max((value - begin) / span, 0.0), 1.0)
        return MARGIN + share * (WIDTH - 2 * MARGIN)

    return place


def _table(drawing: Drawing, state: Any, centroids: Sequence[float], distances: bool, factor: float) -> None:
    """Centroids, each above its distance or its midpoint."""
    compared = state.compared
    rows = {
        "centroid": [
            (brief(value, LETTERS), "hot" if number == state.index else "code", f"entry {number}: {half(word)}")
            for number, (value, word) in enumerate(zip(centroids, state.codebook, strict=True))
        ]
    }
    if distances:
        rows["distance"] = [
            (
                brief(value16(word), LETTERS),
                "hot" if number == state.index else "exponent",
                f"distance to {number}: {half(word)}",
            )
            for number, word in enumerate(compared)
        ]
    else:
        rows["midpoint"] = [
            (
                brief((low + high) / 2 * factor, LETTERS),
                "low" if below else "gone",
                f"midpoint after {number}: {'below' if below else 'not below'} the value",
            )
            for number, (low, high, below) in enumerate(zip(centroids, centroids[1:], compared, strict=False))
        ]
    entries(drawing, rows, state.index)


def _described(state: Any, centroids: Sequence[float], distances: bool) -> str:
    compared = state.compared
    text = listed([half(word) for word in compared], 16) if distances else listed(compared, 16)
    name = "distances" if distances else "midpoints below the value"
    return (
        f"x {half(state.x)}, scale {half(state.scale)}, compared as {half(state.x_hat)} with centroids "
        f"{listed([f'{value:.4g}' for value in centroids], 16)}; {name}: {text}; index {state.index}"
    )
