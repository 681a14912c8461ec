"""HTML of tensors and pages in notebooks: small tables and drawings. Base class `Shown`."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, ClassVar

import numpy as np

from refemu.formats.field import Field

MOST = 32  #: codes that a field shows


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; every cell is escaped."""
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[Any]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"


def drawing(place: str, shown: Any) -> str:
    """SVG of a tensor or a page by "module:function", which is of a layer above and found when it is wanted."""
    module, _, function = place.partition(":")
    return str(getattr(importlib.import_module(module), function)(shown))


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
    """Base of what has `fields()`: a notebook shows them, and a drawing where there is one."""

    _drawing: ClassVar[str] = ""  #: "module:function" that draws it as SVG

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
        return of_fields(repr(self), self.fields()) + (drawing(self._drawing, self) if self._drawing else "")
