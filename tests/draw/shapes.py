"""Contents of a drawing, read back from its SVG."""

from typing import NamedTuple
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"


class Box(NamedTuple):
    """A box, the text in its middle, and what shows under the pointer."""

    kind: str
    text: str
    about: str


def tree(svg: str) -> ElementTree.Element:
    """The root element, after a check for well-formed SVG with a text alternative."""
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg" and root.get("role") == "img" and root.get("aria-label")
    assert [each.tag for each in root[:2]] == [f"{SVG}title", f"{SVG}desc"]
    assert root[0].text == root.get("aria-label") and root[1].text
    return root


def texts(svg: str) -> list[str]:
    """All lines of text."""
    return [each.text or "" for each in tree(svg).iter(f"{SVG}text")]


def boxes(svg: str) -> list[Box]:
    """All boxes except the page, each with its text."""
    root = tree(svg)
    words = [
        (float(each.get("x", 0)), float(each.get("y", 0)), each.text or "")
        for each in root.iter(f"{SVG}text")
        if each.get("text-anchor") == "middle"
    ]
    found = []
    for each in root.iter(f"{SVG}rect"):
        x, y, width, height = (float(each.get(name, 0)) for name in ("x", "y", "width", "height"))
        inside = [text for tx, ty, text in words if x < tx < x + width and y < ty < y + height + 1]
        title = each.find(f"{SVG}title")
        if each.get("class") != "page":
            found.append(Box(each.get("class", ""), " ".join(inside), "" if title is None else title.text or ""))
    return found


def about(svg: str, begin: str) -> list[Box]:
    """Boxes whose text under the pointer has this beginning."""
    return [box for box in boxes(svg) if box.about.startswith(begin)]
