"""`refemu machine`: table, JSON, and exit code 1 if an element differs."""

import json
import re

import pytest

from refemu.cli import main
from tests.models.machine import wrong

WORDS = ["machine", "--model", "tiny", "--scheme", "olive-4", "--layer", "1", "--tokens", "4"]


def test_machine_table_and_json_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert main(WORDS) == 0
    shown = capsys.readouterr().out

    for operation in report["operations"]:
        assert f"{operation['name']} " in shown
        assert str(operation["cycles"] or "") in shown
    assert "0 elements differ from the scheme" in shown
    assert "D-olive-32" in shown
    assert (report["tokens"], report["phase"], report["layer"]) == (4, "prompt", 1)


def test_macs_are_listed_by_mode_and_kind(capsys: pytest.CaptureFixture[str]) -> None:
    """The token after both windows needs all three modes of Harmonia's PEs."""
    assert main(["machine", "--model", "tiny", "--scheme", "harmonia-kv4", "--tokens", "136"]) == 0
    shown = capsys.readouterr().out

    assert "by kind of work" in shown and "D-harmonia-51" in shown
    for mode in ("M8W4", "M8M8", "M8M4"):
        assert re.search(rf"{mode} [1-9]\d+", shown), mode
    assert re.search(r"blk\.0\.gate +dataflow 1, tile rows 64, .* elements row-major 27136, ", shown)


def test_decode_step_has_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--phase", "decode", "--json"]) == 0

    shapes = [operation["shape"] for operation in json.loads(capsys.readouterr().out)["operations"]]
    assert {shape[0] for shape in shapes} == {1}


def test_differing_element_exits_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wrong.answers(monkeypatch, "ovp_encoder", "pair")

    assert main(WORDS) == 1
    assert "4 elements differ from the scheme" in capsys.readouterr().out


def test_scheme_without_accelerator_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--scheme", "fp16"]) == 2
    assert "scheme fp16 has no accelerator; schemes with one: olive-4, olive-8, kllm-a4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--layer", "3"], "machine: layer must be in [0, 2], got 3"),
        (["--layer", "-1"], "--layer: must be at least 0, got -1"),
        (["--phase", "start"], "--phase: invalid choice: 'start'"),
        (["--tokens", "0"], "got 0"),
    ],
)
def test_missing_block_is_rejected(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main([*WORDS, "--scheme", "harmonia-kv4", *words])
    except SystemExit as error:
        code = int(str(error.code))
    assert code == 2
    assert message in capsys.readouterr().err
