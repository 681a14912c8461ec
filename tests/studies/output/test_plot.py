"""Plots: equal figures give equal bytes; what a paper states looks unlike what was measured."""

import re
from xml.etree import ElementTree

import pytest

from refemu.studies.output import plot
from refemu.studies.output.figure import Figure, Line, Panel, Series

MEASURED = Series("measured", ("int4, no outliers", "8 bits"), (23477.0, 1.05), (4000.0, None))
STATED = Series("GPT2-XL", ("int4, no outliers", "8 bits"), (572.0, 1.0), source="[olive Tbl. 9]")
CURVES = (
    Series("a", (1.0, 10.0, 100.0), (1.0, 2.0, 4.0), (0.1, None, 0.2)),
    Series("b", (1.0, 10.0, 100.0), (2.0, 3.0, 5.0), source="[kllm Table IV]"),
    Series("c", (1.0, 2.0, 3.0), (0.0, 3.0, 0.0), form="steps"),
)
FIGURE = Figure(
    "table9",
    "[olive Tbl. 9]",
    "Perplexity by scheme",
    (
        Panel("bars", "perplexity / that of fp16 (log)", "", (MEASURED, STATED), log_x=True, base=1.0),
        Panel("curves", "n (log)", "share, %", CURVES, "lines", log_x=True, lines=(Line(2.5, "half"),)),
    ),
    "tiny (untrained random weights), 2 windows",
)


def texts(svg: bytes) -> str:
    """The texts of a drawing: matplotlib writes each as a comment before its outlines."""
    return " ".join(part.strip() for part in re.findall(r"<!--(.*?)-->", svg.decode(), re.DOTALL))


def test_svg_is_deterministic_and_undated_and_says_all() -> None:
    svg = plot.draw([FIGURE], "svg")

    assert svg == plot.draw([FIGURE], "svg")
    assert b"<dc:date>" not in svg
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    for words in (
        "Perplexity by scheme",
        "untrained random weights",
        "(log)",
        "olive Tbl. 9",
        "23,500",
        "half",
        "share, %",
    ):
        assert words in texts(svg)


def test_only_stated_values_are_hatched() -> None:
    without = Figure("x", "", "", (Panel("", "", "", (MEASURED,)),), "")
    stated = Figure("x", "", "", (Panel("", "", "", (MEASURED, STATED)),), "")

    assert b"<pattern" not in plot.draw([without], "svg")
    assert b"<pattern" in plot.draw([stated], "svg")


def test_png_of_several_figures_is_deterministic() -> None:
    png = plot.draw([FIGURE, FIGURE], "png")

    assert png.startswith(b"\x89PNG") and png == plot.draw([FIGURE, FIGURE], "png")
    height = [int.from_bytes(each[20:24], "big") for each in (plot.draw([FIGURE], "png"), png)]
    assert height[1] == pytest.approx(2 * height[0], abs=2)


def test_text_does_not_overlap() -> None:
    """Titles, captions, legends and axes keep off each other, whatever the figure's height."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = plot.canvas([FIGURE, FIGURE])
    FigureCanvasAgg(canvas)
    canvas.canvas.draw()
    boxes = []
    for part in canvas.subfigs:
        boxes += [part._suptitle.get_window_extent(), part._supxlabel.get_window_extent()]
        boxes += [axis.get_window_extent() for axis in part.axes]
        boxes += [axis.get_legend().get_window_extent() for axis in part.axes if axis.get_legend()]
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.0, "1"), (23477.0, "23,500"), (2.3e6, "2.3e6"), (1e6, "1e6"), (0.05, "0.05"), (4e-4, "4e-4")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert plot.short(value) == text


@pytest.mark.parametrize("log", [False, True])
def test_bars_on_both_sides_are_within_the_axis(log: bool) -> None:
    """A ratio below 1 would be outside of an axis that starts at 1."""
    low, high = plot.bar_range(
        Panel("", "", "", (Series("a", ("x", "y"), (0.8, 40.0), (0.1, 5.0)),), log_x=log, base=1.0)
    )

    assert low < 0.7 and high > 45
    above = Panel("", "", "", (Series("a", ("x",), (3.0,)),), log_x=log, base=1.0)
    assert plot.bar_range(above)[0] == 1.0


def test_zero_bar_does_not_change_logarithmic_axis() -> None:
    """Two texts of which a quantizer learns the same are at a distance of 0."""
    series = Series("a", ("x", "y"), (0.0, 3.0))

    assert plot.bar_range(Panel("", "", "", (series,), log_x=True, base=1.0))[0] == 1.0
