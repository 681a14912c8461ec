"""Tables of a study: typed columns and rows, as text, CSV and JSON."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from refemu.arith.checks import Refused

Kind: TypeAlias = Literal["text", "integer", "number"]
TYPES: Mapping[Kind, tuple[type, ...]] = {"text": (str,), "integer": (int,), "number": (int, float)}


@dataclass(frozen=True)
class Column:
    """A column: its name in JSON and CSV, the type of its values, and its heading."""

    name: str  #: name in JSON and CSV
    kind: Kind  #: type of its values
    heading: str  #: heading in tables
    meaning: str  #: one phrase
    unit: str = ""  #: "%", "sigma"; "" for none
    digits: int = 2  #: decimals of a number in tables


@dataclass(frozen=True)
class Table:
    """Rows of values in the order of the columns; None for no value."""

    name: str  #: name in JSON, and of the CSV file
    title: str  #: sentence above the table
    columns: tuple[Column, ...]  #: columns, from left to right
    rows: tuple[tuple[Any, ...], ...]  #: values of each row

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise Refused(f"table {self.name}: a row must have {len(self.columns)} values, got {len(row)}")
            for column, value in zip(self.columns, row, strict=True):
                if value is not None and (isinstance(value, bool) or not isinstance(value, TYPES[column.kind])):
                    raise Refused(f"table {self.name}: {column.name} must be of type {column.kind}, got {value!r:.60}")

    def document(self) -> dict[str, Any]:
        """Convert the table to JSON values.

        Returns
        -------
        dict
            Name, title, columns, and rows, each an object.
        """
        names = [column.name for column in self.columns]
        return {
            "name": self.name,
            "title": self.title,
            "columns": [
                {"name": column.name, "type": column.kind, "unit": column.unit, "meaning": column.meaning}
                for column in self.columns
            ],
            "rows": [dict(zip(names, row, strict=True)) for row in self.rows],
        }

    def csv(self, model: str, seeded: bool) -> str:
        """Write the table as CSV: a header, then a line for each row; numbers in full, empty for no value.

        Parameters
        ----------
        model : str
            Name of the measured model, the first field of every row.
        seeded : bool
            Whether the model is untrained, the second field.

        Returns
        -------
        str
            Lines.
        """
        labels = [model, "true" if seeded else "false"]
        target = io.StringIO()
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow(["model", "seeded", *(column.name for column in self.columns)])
        writer.writerows([[*labels, *("" if value is None else value for value in row)] for row in self.rows])
        return target.getvalue()

    def cells(self) -> list[list[str]]:
        """Convert the rows to text.

        Returns
        -------
        list of list of str
            Cells of each row, as the command prints them.
        """
        return [[_cell(column, value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]

    @property
    def headings(self) -> list[str]:
        """Headings with units."""
        return [f"{column.heading}, {column.unit}" if column.unit else column.heading for column in self.columns]

    @property
    def numeric(self) -> list[str]:
        """Headings of the columns of numbers."""
        pairs = zip(self.columns, self.headings, strict=True)
        return [heading for column, heading in pairs if column.kind != "text"]


def _cell(column: Column, value: Any) -> str:
    if value is None:
        return ""
    if column.kind == "number":
        return f"{value:,.{column.digits}f}" if abs(value) >= 1000 else f"{value:.{column.digits}f}"
    return str(value)


def rows(items: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> tuple[tuple[Any, ...], ...]:
    """Rows of mappings by the names of the columns."""
    return tuple(tuple(item[column.name] for column in columns) for item in items)


#: columns of every table of perplexities
PERPLEXITY = Column("perplexity", "number", "perplexity", "exp of the mean negative log-likelihood of the windows")
ERROR = Column("error", "number", "±", "standard error of the perplexity over the windows; empty for one window")
LEAST = Column("least", "number", "easiest window", "perplexity of the easiest window")
MOST = Column("most", "number", "hardest window", "perplexity of the hardest window")
WINDOWS = Column("windows", "integer", "windows", "scored windows")
CHANGE = Column("change", "number", "change", "change of the perplexity over the reference, paired by window", "%")
CHANGE_ERROR = Column("change_error", "number", "±", "its standard error over the windows", "%")
