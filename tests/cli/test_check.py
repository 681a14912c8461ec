"""`refemu check`: 0 equal, 1 different with the place, 2 nothing to check."""

import json
import re
from pathlib import Path

import pytest

from refemu.cli import main


@pytest.fixture
def made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["generate", "-o", str(tmp_path), "--unit", "flint_decoder", "--hex"]) == 0
    capsys.readouterr()
    return tmp_path


def test_unchanged_sets_are_equal(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(made)]) == 0
    assert "equal" in capsys.readouterr().out
    assert main(["check", str(made), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["equal"] is True


@pytest.mark.parametrize("name", ["vectors.npz", "manifest.json", "hex/gold.mem"])
def test_flipped_bit_is_reported(name: str, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = made / "flint_decoder-flint4" / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)

    assert main(["check", str(made)]) == 1
    assert name in capsys.readouterr().out


def test_invalid_set_is_reported_with_the_others(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = made / "other"
    foreign.mkdir()
    (foreign / "manifest.json").write_text("{}")

    assert main(["check", str(made)]) == 2
    out, err = capsys.readouterr()
    assert re.search("^flint_decoder-flint4 .* equal", out, re.M) and re.search("^other .* not checked", out, re.M)
    assert f"refemu: {foreign / 'manifest.json'}: schema must be" in err

    assert main(["check", str(made), "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert [bool(entry["refused"]) for entry in document["sets"]] == [False, True]
    assert document["equal"] is False


def test_missing_sets_exit_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 2
    assert main(["check", str(tmp_path / "missing")]) == 2
    assert "missing" in capsys.readouterr().err
