"""A function of a K-Means tensor: centroids, the table that takes their place, outliers. [kllm §III-C1, Eq. (2)]"""

from collections.abc import Sequence
from typing import Any

from refemu.arith.scalar32 import value16
from refemu.draw.entry_tables import LETTERS, entries
from refemu.draw.svg import Drawing
from refemu.draw.values import brief, half, listed
from refemu.units.ports import Ports

LEGEND = {"code": "argument", "mantissa": "value of the function", "hot": "this event", "empty": "still to come"}


def function(ports: Ports, state: Any) -> str:
    """Draw the function unit: every centroid above its entry of the table, then the outliers.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of index_function.

    Returns
    -------
    str
        SVG; of more than 32 centroids or outliers those around the event's.

    References
    ----------
    [kllm §III-C1, Eq. (2)]
    """
    centroids, table = state.codebook, state.entries
    outliers, values = state.outlier, state.value
    at, size = _last(state), len(centroids)
    drawing = Drawing(f"function unit after evaluation {at}", _described(state))
    where = f" {at if at < size else at - size}" if at >= 0 else ""
    drawing.heading(f"{state.event}{where}: {at + 1} of {size + len(outliers)} evaluations, scale {half(state.scale)}")
    _pairs(drawing, "centroid", centroids, table, at)
    if outliers:
        _pairs(drawing, "outlier", outliers, values, at - size)
    drawing.legend(LEGEND)
    return drawing.svg()


def _last(state: Any) -> int:
    """Number of the last evaluation in its operation; -1 at reset."""
    return -1 if state.event == "reset" else int(state.phase)


def _pairs(drawing: Drawing, name: str, arguments: Sequence[int], values: Sequence[int], at: int) -> None:
    """Arguments above values; those after `at` are still to come."""
    shown: list[tuple[str, str, str]] = []
    for place, word in enumerate(values):
        kind = "hot" if place == at else "mantissa" if place < at else "empty"
        there = place <= at
        about = f"f of {name} {place}: {half(word) if there else 'still to come'}"
        shown.append((brief(value16(word), LETTERS) if there else "", kind, about))
    above = [
        (brief(value16(word), LETTERS), "code", f"{name} {place}: {half(word)}") for place, word in enumerate(arguments)
    ]
    entries(drawing, {name: above, "function": shown}, min(max(at, 0), len(arguments) - 1))


def _described(state: Any) -> str:
    centroids, outliers = state.codebook, state.outlier
    done = _last(state) + 1
    parts = [f"centroids {listed(map(half, centroids), 16)}, scale {half(state.scale)}"]
    parts.append(f"table {listed(map(half, state.entries[:done]), 16) or 'empty'}")
    if outliers:
        values = state.value[: max(done - len(centroids), 0)]
        parts.append(f"outliers {listed(map(half, outliers), 16)}, values {listed(map(half, values), 16) or 'none'}")
    return "; ".join(parts)
