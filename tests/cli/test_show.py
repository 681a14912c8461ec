"""`refemu show` prints the code table of every format, and one code field by field."""

import json

import pytest

from refemu import formats
from refemu.cli import main


@pytest.mark.parametrize("name", formats.constants())
def test_every_format_has_a_table(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", name]) == 0
    assert name in capsys.readouterr().out


def test_one_code_of_the_papers_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "E2M1_BIAS2", "0b0101"]) == 0
    assert "48" in capsys.readouterr().out


def test_json_holds_every_code(capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", "INT4", "--json"])

    assert len(json.loads(capsys.readouterr().out)["codes"]) == 15


@pytest.mark.parametrize("code", ["x", "16", "-1"])
def test_refuses_what_is_no_code(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "E2M1_BIAS2", "--", code]) == 2
    assert code in capsys.readouterr().err
