"""HTML of tensors and pages in notebooks: small tables, made of text alone. Base class `Shown`."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from refemu.formats.field import Field

MOST = 32  #: codes that a field shows
COLORS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#9c755f")  #: of the parts of a bar


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; every cell is escaped."""
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[Any]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"


def text(drawing: str) -> str:
    """A drawing of characters, as it is."""
    return f"<pre>{escape(drawing)}</pre>"


def bar(parts: Sequence[tuple[str, int]]) -> str:
    """A line of boxes as wide as their sizes say; the name of each shows under the pointer, "-" is an empty one."""
    boxes = [
        f'<div title="{escape(name)}: {size}" style="flex:{size};height:1.2em;'
        f'background:{"#ddd" if name == "-" else COLORS[at % len(COLORS)]}"></div>'
        for at, (name, size) in enumerate(parts)
    ]
    return f'<div style="display:flex;max-width:50em">{"".join(boxes)}</div>'


def codes(field: Field, most: int = MOST) -> str:
    """The first codes of a field in hex, as many digits as its bits need."""
    flat = np.asarray(field.array).reshape(-1)
    digits = -(-field.bits // 4)
    shown = " ".join(f"{int(code):0{digits}x}" for code in flat[:most])
    return f"{shown} …" if flat.size > most else shown


def of_fields(title: str, fields: Mapping[str, Field]) -> str:
    """One line per field: name, bits of a code, shape, first codes, meaning."""
    rows = [(name, field.bits, np.shape(field.array), codes(field), field.meaning) for name, field in fields.items()]
    return table(title, ("field", "bits", "shape", "codes (hex)", "meaning"), rows)


class Shown:
    """Base of what has `fields()`: a notebook shows them."""

    def fields(self) -> Mapping[str, Field]:
        """Stored fields by name.

        Returns
        -------
        mapping of str to Field
            Unsigned bit patterns.

        Raises
        ------
        NotImplementedError
            The class has no fields.
        """
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return of_fields(repr(self), self.fields())
