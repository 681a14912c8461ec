"""`refemu list` shows every kind, and its JSON has what the table has."""

import json

import pytest

from refemu.cli import main


@pytest.mark.parametrize("kind", ["formats", "units", "schemes", "models"])
def test_kind_as_table_and_json(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", kind]) == 0
    table = capsys.readouterr().out
    assert main(["list", kind, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)[kind]

    assert rows
    assert all(str(row.get("name", row.get("unit"))) in table for row in rows)


def test_units_show_ports_with_widths_and_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "units", "--json"])
    rows = json.loads(capsys.readouterr().out)["units"]
    (row,) = [row for row in rows if (row["unit"], row["config"]) == ("ovp_decoder", "int4")]

    assert (row["in"], row["out"]) == ("pair:8 bias:4", "exponent:4x2 base_int:s4x2 illegal:1")
    assert "olive" in row["paper"]
