"""Tables: typed columns, as text, CSV and JSON."""

import csv
import io

import pytest

from refemu.arith.checks import Refused
from refemu.studies.output.table import Column, Table, rows

COLUMNS = (
    Column("name", "text", "scheme", "of the row"),
    Column("count", "integer", "n", "how many"),
    Column("share", "number", "share", "of all", "%", 1),
)


def test_text_csv_and_json_hold_the_same_rows() -> None:
    table = Table("t", "a table", COLUMNS, (("a", 1, 2.25), ("b,c", None, 1234.5)))

    assert table.cells() == [["a", "1", "2.2"], ["b,c", "", "1,234.5"]]
    assert table.headings == ["scheme", "n", "share, %"] and table.numeric == ["n", "share, %"]
    assert list(csv.reader(io.StringIO(table.csv("net", seeded=False)))) == [
        ["model", "seeded", "name", "count", "share"],
        ["net", "false", "a", "1", "2.25"],
        ["net", "false", "b,c", "", "1234.5"],
    ]
    whole = table.document()
    assert whole["rows"][1] == {"name": "b,c", "count": None, "share": 1234.5}
    assert whole["columns"][2] == {"name": "share", "type": "number", "unit": "%", "meaning": "of all"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("a", 1), "a row must have 3 values, got 2"),
        (("a", 1.5, 2.0), "count must be of type integer, got 1.5"),
        ((1, 1, 2.0), "name must be of type text, got 1"),
        (("a", 1, "x"), "share must be of type number, got 'x'"),
        (("a", True, 2.0), "count must be of type integer, got True"),
    ],
)
def test_a_value_of_another_type_is_rejected(row: tuple[object, ...], message: str) -> None:
    with pytest.raises(Refused, match=message):
        Table("t", "a table", COLUMNS, (row,))


def test_rows_of_mappings_take_the_columns_in_order() -> None:
    assert rows([{"share": 1.0, "count": 2, "name": "a", "more": 0}], COLUMNS) == (("a", 2, 1.0),)
