"""Pictures of a schedule: names of resources and operations are in them, and equal schedules give equal bytes."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from refemu.models.machine import System, Work, charts, placed

SYSTEM = System("a machine", 10**6, Fraction(4), 5, "tiles")
WORKS = [
    Work("a.0", "linear", {"x": 10, "y": 3}, 12, bits={"weights": 64}, macs=40),
    Work("b", "other", {"x": 5}, 5),
]


@pytest.mark.long
@pytest.mark.parametrize("draw", [charts.gantt, charts.roofline])
def test_pictures_are_reproducible(draw: Callable[..., bytes]) -> None:
    line = placed(WORKS, SYSTEM)
    pictures = [draw(line, SYSTEM, "a title", form) for form in ("svg", "svg", "png")]

    assert pictures[0] == pictures[1] and pictures[0].startswith(b"<?xml")
    assert pictures[2].startswith(b"\x89PNG")


@pytest.mark.long
def test_bars_and_points_are_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars: row, start and length of every use; points: MACs a byte and MACs a second."""
    from matplotlib.axes import Axes

    bars, points = [], []
    barh, scatter = Axes.barh, Axes.scatter

    def bar(self: Any, at: Any, width: Any, *, left: Any, **more: Any) -> Any:
        bars.append((at, left, width))
        return barh(self, at, width, left=left, **more)

    def point(self: Any, x: Any, y: Any, **more: Any) -> Any:
        points.append((x, y))
        return scatter(self, x, y, **more)

    monkeypatch.setattr(Axes, "barh", bar)
    monkeypatch.setattr(Axes, "scatter", point)
    line = placed(WORKS, SYSTEM)
    charts.gantt(line, SYSTEM, "a title", "svg")
    charts.roofline(line, SYSTEM, "a title", "svg")

    assert bars == [(0, 0, 2), (1, 0, 10), (2, 0, 3), (1, 12, 5)]
    assert points == [(40 / 8, 40 / 12e-6)]
