"""A small builder of SVG drawings: boxes, words and lines whose classes say what they are, in two palettes.

A drawing is WIDTH units wide, so that its smallest letters can be read where it is 400 pixels wide. Every element is a
line of text of its own: two drawings of one kind differ in few lines. The palette follows `prefers-color-scheme`.
"""

from collections.abc import Iterator, Sequence
from html import escape
from textwrap import wrap

WIDTH = 480  #: units across a drawing
MARGIN = 8  #: around it
LINE = 18  #: height of a line of text
FONT = 12  #: size of letters; that of class "small" is SMALL
SMALL = 10.5
LETTER = 0.61  #: width of a letter of the fixed font, relative to its size

#: fill of a light and of a dark page, by what a box is; a drawing's legend says what its colours mean
FILLS = {
    "page": ("#ffffff", "#15181b"),
    "plain": ("#eef0f2", "#2a2f35"),  #: a value, in a register
    "empty": ("#ffffff", "#15181b"),  #: nothing there
    "hot": ("#ffd54a", "#7a5c00"),  #: what the event is about
    "bad": ("#ffb3ae", "#8a2620"),  #: illegal, or overflowed
    "gone": ("#cfd4d9", "#454c54"),  #: popped, idle or out of use
    "sign": ("#f5b8d6", "#7c3560"),
    "exponent": ("#a9d3f5", "#1d5483"),
    "mantissa": ("#b5e3b5", "#2c6432"),
    "code": ("#d9ccf5", "#55418a"),
    "victim": ("#e3dccb", "#5b5340"),
    "key": ("#a9d3f5", "#1d5483"),
    "key_meta": ("#d3e8fa", "#33485c"),
    "val": ("#b5e3b5", "#2c6432"),
    "val_meta": ("#d9f0d9", "#3b523d"),
    "score": ("#f7c99b", "#7d4a12"),
    "pos": ("#d9ccf5", "#55418a"),
    "high": ("#a9d3f5", "#1d5483"),
    "low": ("#b5e3b5", "#2c6432"),
    "free": ("#bfe9e6", "#1c5a58"),  #: a page that is in no table
}
INKS = {"ink": ("#16191c", "#eceff2"), "faint": ("#4a5158", "#b4bcc4"), "edge": ("#6b737b", "#8b949d")}


class Drawing:
    """Elements of one drawing, in order."""

    def __init__(self, title: str, description: str, width: float = WIDTH) -> None:
        """title: what it shows, in a few words. description: the same with the values, for those who cannot see it."""
        self.title: str = title
        self.description: str = description
        self.width: float = width
        self.height: float = MARGIN
        self._lines: list[str] = []
        self._used = {"page"}

    def box(self, x: float, y: float, width: float, height: float, kind: str = "plain", about: str = "") -> None:
        """A box of a kind of FILLS. about: shown under the pointer."""
        self._used.add(kind)
        title = f"<title>{escape(about)}</title>" if about else ""
        end = f">{title}</rect>" if title else "/>"
        shape = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
        self._lines.append(f'<rect class="{kind}" {shape} rx="2"{end}')
        self._grow(y + height)

    def text(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        """A line of text on the baseline y. style: of "small", "faint", "bold", separated by blanks."""
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        name = f' class="{style}"' if style else ""
        self._lines.append(f'<text{name} x="{_number(x)}" y="{_number(y)}"{place}>{escape(text)}</text>')
        self._grow(y + 5)

    def cell(
        self, x: float, y: float, width: float, height: float, text: str, kind: str = "plain", about: str = ""
    ) -> None:
        """A box with a word in its middle, in smaller letters where it would not fit and cut where these do not."""
        self.box(x, y, width, height, kind, about)
        style = "" if letters(text, FONT) <= width - 3 else "small"
        shown = text if letters(text, SMALL) <= width - 1 else _cut(text, width)
        self.text(x + width / 2, y + height / 2 + 4, shown, style, "middle")

    def line(self, x1: float, y1: float, x2: float, y2: float, hot: bool = False) -> None:
        """A line, thick where it is `hot`."""
        kind = ' class="thick"' if hot else ""
        ends = f'x1="{_number(x1)}" y1="{_number(y1)}" x2="{_number(x2)}" y2="{_number(y2)}"'
        self._lines.append(f"<line{kind} {ends}/>")
        self._grow(max(y1, y2))

    def heading(self, text: str) -> None:
        """Append a bold line."""
        self.height += LINE
        self.text(MARGIN, self.height - 5, text, "bold")

    def note(self, text: str, style: str = "") -> None:
        """Append text, folded to the width."""
        size = SMALL if "small" in style else FONT
        for line in wrap(text, int((self.width - 2 * MARGIN) / letters("x", size))) or [""]:
            self.height += LINE
            self.text(MARGIN, self.height - 5, line, style)

    def named(self, cells: Sequence[tuple[str, str, str]]) -> None:
        """Append cells side by side, as (name, text, kind): each with its name above it."""
        y, wide = self.height + 8, (self.width - 2 * MARGIN) / len(cells)
        for place, (name, text, kind) in enumerate(cells):
            self.text(MARGIN + place * wide, y + 12, name, "small faint")
            self.cell(MARGIN + place * wide, y + 17, wide - 6, 26, text, kind, name)

    def legend(self, kinds: dict[str, str]) -> None:
        """Boxes of the kinds used, with what each means."""
        x, self.height = float(MARGIN), self.height + 6
        y = self.height
        for kind, meaning in kinds.items():
            wide = 22 + letters(meaning, SMALL) + 10
            if x + wide > self.width and x > MARGIN:
                x, y = MARGIN, y + LINE
            self.box(x, y, 14, 12, kind)
            self.text(x + 18, y + 10, meaning, "small")
            x += wide
        self._grow(y + LINE)

    def svg(self) -> str:
        """The file: one element a line."""
        size = f"{_number(self.width)} {_number(self.height + MARGIN)}"
        whole = f'width="{_number(self.width)}" height="{_number(self.height + MARGIN)}"'
        name = escape(self.title, quote=True)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" class="refemu" role="img" aria-label="{name}" '
                f'viewBox="0 0 {size}" {whole}>',
                f"<title>{escape(self.title)}</title>",
                f"<desc>{escape(self.description)}</desc>",
                f"<style>{''.join(_rules(sorted(self._used)))}</style>",
                f'<rect class="page" {whole}/>',
                *self._lines,
                "</svg>",
            ]
        )

    def _grow(self, bottom: float) -> None:
        self.height = max(self.height, bottom)


def letters(text: str, size: float) -> float:
    """Width of a text in the fixed font."""
    return len(text) * LETTER * size


def _cut(text: str, width: float) -> str:
    """The beginning of a text, as long as fits."""
    return text[: max(1, int(width / letters("x", SMALL)) - 1)] + "…"


def _rules(kinds: list[str]) -> Iterator[str]:
    """Styles of the light palette, then those of the dark one."""
    root = "svg.refemu"
    yield f"{root} text{{font:{FONT}px ui-monospace,Consolas,Menlo,monospace;stroke:none}}"
    yield f"{root} .small{{font-size:{SMALL}px}}{root} .bold{{font-weight:700}}"
    yield f"{root} line{{stroke-width:1}}{root} .thick{{stroke-width:3}}{root} rect.page{{stroke:none}}"
    for place, (before, after) in enumerate((("", ""), ("@media (prefers-color-scheme:dark){", "}"))):
        yield before
        yield f"{root} text{{fill:{INKS['ink'][place]}}}{root} .faint{{fill:{INKS['faint'][place]}}}"
        yield f"{root} rect,{root} line{{stroke:{INKS['edge'][place]}}}{root} rect.page{{stroke:none}}"
        yield from (f"{root} .{kind}{{fill:{FILLS[kind][place]}}}" for kind in kinds)
        yield after


def _number(value: float) -> str:
    """A coordinate, with as few digits as a drawing needs."""
    return f"{value:.1f}".removesuffix(".0")
