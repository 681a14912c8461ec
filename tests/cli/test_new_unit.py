"""`refemu new-unit`."""

import json
from pathlib import Path

import pytest

from refemu.cli import main


def test_new_unit_prints_the_next_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-unit", "my_block", "-o", str(tmp_path / "made")]) == 0
    assert f"pip install -e '{tmp_path / 'made'}[test]' && pytest {tmp_path / 'made'}" in capsys.readouterr().out


def test_default_folder_has_name_of_distribution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new-unit", "my_block", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)

    assert (document["unit"], document["folder"]) == ("my_block", "refemu-my-block")
    assert all(Path(path).is_file() for path in document["files"])


def test_invalid_unit_names_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-unit", "orizuru"]) == 2
    assert "differ from refemu and the names of its units, got 'orizuru'" in capsys.readouterr().err
