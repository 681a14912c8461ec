"""`refemu explain` as a person and as a machine read it."""

import json
from pathlib import Path

import pytest

from refemu import golden
from refemu.cli.main import main


def test_a_table_of_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "olive_mac:wrap"]) == 0
    out = capsys.readouterr().out
    assert "decisions of olive_mac-wrap" in out
    assert ["D-olive-33", "overflow", "is", "'saturate'", "overflow=saturate"] in [
        line.split() for line in out.splitlines()
    ]
    assert "'wrap'" not in out  # its own answer


def test_rows_of_a_set_that_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden.generate(tmp_path, units=["ovp_decoder:int4"], kinds=["exhaustive"])
    assert main(["explain", "ovp_decoder:int4", "--set", str(tmp_path / "ovp_decoder-int4"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    counts = {choice["says"]: choice["rows"] for choice in document["alternatives"]}

    assert document["unit"] == "ovp_decoder" and document["config"] == "int4"
    assert (
        counts["two identifiers are flagged, one beside magnitude 0 is not"]
        == 2 * golden.load(tmp_path / "ovp_decoder-int4").rows // 256
    )  # pairs 0x08 and 0x80
    assert {choice["decision"] for choice in document["alternatives"]} >= {"D-olive-1", "D-olive-18", "D-olive-19"}


def test_a_reason_where_no_other_answer_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "index_norm"]) == 0
    assert "D-kllm-18: no other answer shows:" in capsys.readouterr().out


def test_bad_input_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "orizzuru"]) == 2
    assert "did you mean 'orizuru'?" in capsys.readouterr().err
    golden.generate(tmp_path, units=["olive_mac:wrap"], kinds=["paper"])
    assert main(["explain", "ovp_decoder:int4", "--set", str(tmp_path / "olive_mac-wrap")]) == 2
    assert "olive_mac-wrap: is no set of ovp_decoder in configuration int4" in capsys.readouterr().err
