"""The unified page and its sections; a colour means one kind of section, at any precision. [leankv §5.2, Fig. 6]"""

from refemu.draw.svg import MARGIN, WIDTH, Drawing, letters
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.formats.leankv.kv_page_map import Segment, byte_map

NAMES = {
    "key": "keys",
    "key_meta": "metadata of keys",
    "val": "values",
    "val_meta": "metadata of values",
    "score": "scores",
    "pos": "positions",
    "gone": "unused",
}


def page(layout: UnifiedPage) -> str:
    """Draw the sections of a unified page, as wide as their bytes, with first and last byte of each.

    Parameters
    ----------
    layout : UnifiedPage
        Page.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [leankv §5.2, Fig. 6]
    """
    segments = byte_map(layout)
    title = f"page of {layout.size} bytes: {layout.tokens} {layout.config.name} tokens of head size {layout.head_size}"
    drawing = Drawing(title, "; ".join(_line(each) for each in segments))
    drawing.heading(title)
    x, y, scale = float(MARGIN), drawing.height + 6, (WIDTH - 2 * MARGIN) / layout.size
    for each in segments:
        name, width = NAMES[_kind(each)], each.bytes * scale
        text = next((text for text in (name, name.split()[0]) if letters(text, 10.5) < width - 4), "")
        drawing.cell(x, y, width, 38, text, _kind(each), _line(each))
        x += width
    drawing.height = y + 42
    for each in segments:
        top = drawing.height + 3
        drawing.box(MARGIN, top, 14, 14, _kind(each))
        drawing.text(MARGIN + 22, top + 12, NAMES[_kind(each)])
        drawing.text(250, top + 12, f"{each.bytes:,} bytes", anchor="end")
        drawing.text(264, top + 12, f"{each.first} to {each.last}, from {each.first:#06x}", "faint")
        drawing.height = top + 16
    return drawing.svg()


def _kind(segment: Segment) -> str:
    return "gone" if segment.name == "-" else segment.name


def _line(segment: Segment) -> str:
    return f"{NAMES[_kind(segment)]}: {segment.bytes} bytes, {segment.first} to {segment.last}"
