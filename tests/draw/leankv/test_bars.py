"""Bars in rows: heights, marks, and which rows are left out."""

from refemu.draw.leankv.bars import Bar, rows
from refemu.draw.svg import Drawing
from tests.draw.shapes import SVG, about, boxes, texts, tree


def drawn(bars: list[Bar], most: float) -> str:
    drawing = Drawing("t", "d")
    rows(drawing, bars, most, "places")
    return drawing.svg()


def test_heights_follow_the_values() -> None:
    svg = drawn([Bar(value, "low", "1", "", "bar") for value in (0.0, 0.25, 1.0, 7.0)], 1.0)
    heights = [float(each.get("height", 0)) for each in tree(svg).iter(f"{SVG}rect") if each.get("class") == "low"]

    assert heights[::2] == [0.6, 10, 40, 40] and len(boxes(drawn([Bar(0.0, "low", "1", "", "bar")], 0.0))) == 2


def test_a_mark_colours_the_cell_below() -> None:
    svg = drawn([Bar(1.0, "low", "7", "hot", "first"), Bar(1.0, "high", "8", "", "second")], 1.0)

    assert [(box.kind, box.text) for box in about(svg, "first")] == [("low", ""), ("hot", "7")]
    assert [(box.kind, box.text) for box in about(svg, "second")] == [("high", ""), ("high", "8")]


def test_rows_with_a_mark_are_drawn_first() -> None:
    svg = drawn([Bar(1.0, "low", str(at), "hot" if at == 150 else "", "bar") for at in range(160)], 1.0)
    labels = {int(box.text) for box in boxes(svg) if box.text}

    assert labels == {*range(80), *range(144, 160)}
    assert "6 of 10 rows, which begin at places 0, 16, 32, 48, 64, 144" in texts(svg)
