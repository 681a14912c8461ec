"""The builder: well-formed, escaped, legible, and readable in both palettes."""

import re
from itertools import pairwise

import pytest

from refemu.draw import svg
from refemu.draw.svg import FILLS, FONT, INKS, SMALL, WIDTH, Drawing
from tests.draw.shapes import SVG, boxes, texts, tree


def luminance(color: str) -> float:
    """Relative luminance of WCAG 2.2."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("place", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("kind", FILLS)
def test_letters_have_contrast_on_every_fill(kind: str, place: int) -> None:
    """At least 4.5, the limit of WCAG 2.2 for text."""
    assert contrast(INKS["ink"][place], FILLS[kind][place]) >= 4.5


@pytest.mark.parametrize("place", [0, 1], ids=["light", "dark"])
def test_faint_text_and_edges_can_be_seen(place: int) -> None:
    assert contrast(INKS["faint"][place], FILLS["page"][place]) >= 4.5
    assert contrast(INKS["edge"][place], FILLS["page"][place]) >= 3


def test_letters_are_legible_at_400_pixels_wide() -> None:
    assert min(FONT, SMALL) * 400 / WIDTH >= 8.5


def test_words_are_escaped_and_cut() -> None:
    drawing = Drawing('<b> & "c"', "a < b")
    drawing.cell(0, 0, 30, 20, "<i>", about="&")
    drawing.cell(40, 0, 30, 20, "123456789")
    drawing.note("<note> " * 30)

    assert boxes(drawing.svg())[0] == ("plain", "<i>", "&")
    assert boxes(drawing.svg())[1].text == "123…"
    assert tree(drawing.svg()).get("aria-label") == '<b> & "c"'
    assert max(svg.letters(text, FONT) for text in texts(drawing.svg())) <= WIDTH


def test_named_cells_are_appended_side_by_side() -> None:
    drawing = Drawing("t", "d")
    drawing.heading("heading")
    drawing.named([("sum", "7", "hot"), ("value", "1.5", "plain")])
    drawing.named([("sum", "8", "plain")])

    assert boxes(drawing.svg()) == [("hot", "7", "sum"), ("plain", "1.5", "value"), ("plain", "8", "sum")]
    assert texts(drawing.svg()) == ["heading", "sum", "7", "value", "1.5", "sum", "8"]


def test_page_is_large_enough_for_all_elements() -> None:
    drawing = Drawing("t", "d")
    drawing.heading("heading")
    drawing.line(0, 0, 100, 200, hot=True)
    drawing.legend({"hot": "this event " * 3, "low": "another kind of box " * 3})
    root = tree(drawing.svg())
    height = float(root.get("height", 0))

    assert all(float(each.get("y", 0)) < height for each in root.iter(f"{SVG}text"))
    assert height > 200 and root.get("viewBox") == f"0 0 {WIDTH} {root.get('height')}"


def test_drawing_has_both_palettes_and_loads_nothing() -> None:
    drawing = Drawing("t", "d")
    drawing.box(0, 0, 9, 9, "hot")
    text = drawing.svg()

    light, dark = text.split("@media (prefers-color-scheme:dark)")
    assert f".hot{{fill:{FILLS['hot'][0]}}}" in light and f".hot{{fill:{FILLS['hot'][1]}}}" in dark
    assert re.findall(r"https?:[^\"]*|url\(|@import|<script|href", text) == ["http://www.w3.org/2000/svg"]


def test_each_element_is_one_line() -> None:
    """So that the events of a stepper differ in few lines."""
    first, second = Drawing("t", "d"), Drawing("t", "d")
    for drawing, text in ((first, "1"), (second, "2")):
        drawing.cell(0, 0, 30, 20, "same")
        drawing.cell(0, 30, 30, 20, text)
    lines = list(zip(first.svg().split("\n"), second.svg().split("\n"), strict=True))

    assert sum(one != other for one, other in lines) == 1
    assert all(one[0] != one[1] for one in pairwise(first.svg().split("\n")))
