"""`refemu models`: the list, and errors with the next step."""

from pathlib import Path

import pytest

from refemu.cli import main


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))


def test_list_shows_source_and_licence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    text = capsys.readouterr().out

    assert all(word in text for word in ("tiny", "smollm2-135m", "all-minilm-l6-v2", "Apache-2.0"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["fetch"], "NAME is missing", id="no name"),
        pytest.param(["fetch", "smollm2-135"], "did you mean 'smollm2-135m'", id="unknown"),
        pytest.param(["fetch", "smollm2-135m", "--from", "missing.whl"], "missing.whl", id="no such file"),
        pytest.param(["remove", "nothing"], "unknown model", id="remove unknown"),
    ],
)
def test_invalid_action_or_name_is_rejected(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", *words]) == 2
    assert message in capsys.readouterr().err
