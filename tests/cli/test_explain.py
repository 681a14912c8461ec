"""`refemu explain` as a person and as a machine read it."""

import json
import subprocess
import sys
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
    counts = {choice["says"]: choice["rows"] for choice in document["variants"]}

    assert document["unit"] == "ovp_decoder" and document["config"] == "int4"
    assert (
        counts["two identifiers are flagged, one next to magnitude 0 is not"]
        == 2 * golden.load(tmp_path / "ovp_decoder-int4").rows // 256
    )  # pairs 0x08 and 0x80
    assert {choice["decision"] for choice in document["variants"]} >= {"D-olive-1", "D-olive-18", "D-olive-19"}


def test_a_reason_where_no_other_answer_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "index_norm"]) == 0
    assert "D-kllm-18: no variant can be detected:" in capsys.readouterr().out


def test_bad_input_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "orizzuru"]) == 2
    assert "did you mean 'orizuru'?" in capsys.readouterr().err
    golden.generate(tmp_path, units=["olive_mac:wrap"], kinds=["paper"])
    assert main(["explain", "ovp_decoder:int4", "--set", str(tmp_path / "olive_mac-wrap")]) == 2
    assert "olive_mac-wrap: is not a set of ovp_decoder in configuration int4" in capsys.readouterr().err


def test_one_decision_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The text of docs/decisions-olive.md, the test, and where variants show; with `show` too."""
    golden.generate(tmp_path, units=["ovp_decoder:int4"], kinds=["exhaustive"])
    assert main(["explain", "D-olive-19"]) == 0
    out = capsys.readouterr().out
    assert "A victim is <0,0>." in out and "Pinned by tests/units/olive/test_ovp_decoder.py::" in out
    assert "a victim has the bias as its exponent" in out
    assert main(["show", "D-olive-19"]) == 0
    assert capsys.readouterr().out == out

    assert main(["explain", "D-olive-19", "--set", str(tmp_path / "ovp_decoder-int4"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["id"] == "D-olive-19" and len(document["choices"]) == 2
    assert all(choice["rows"] > 0 for choice in document["choices"])
    assert main(["explain", "D-olive-19", "--set", str(tmp_path / "ovp_decoder-int4")]) == 0
    assert "that detect it" in capsys.readouterr().out


def test_a_table_names_the_command_that_shows_a_decision(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "olive_mac:wrap"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert "refemu explain D-olive-33" in line and "docs/" not in line
    assert main(["explain", "D-olive-999"]) == 2
    assert "unknown decision 'D-olive-999'" in capsys.readouterr().err
    assert main(["explain", "D-olive-33", "--config", "wrap"]) == 2


def test_where_a_decision_is_taken_and_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "D-harmonia-19"]) == 0
    out = capsys.readouterr().out
    assert "refemu/models/schemes/harmonia/config.py:" in out and "HarmoniaConfig.prefill_window" in out
    assert "Set by " in out and "harmonia-kv8.prefill_window" in out
    assert main(["explain", "D-harmonia-19", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"file", "line", "name"} == set(document["taken"][0]) and document["parameters"]


def test_a_unit_with_ports_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "orizuru:n=16,k=2"]) == 0
    out = capsys.readouterr().out
    assert "the k largest and the k smallest of n values" in out
    assert "values of the shared leaves" in out and "elements popped by the max tree" in out
    assert out.index("\nparameters") < out.index("\nstate beside the ports") < out.index("\ndecisions of orizuru")
    assert "combinational: a row is one call" in out and "`refemu step orizuru` shows the events" in out
    assert main(["explain", "orizuru:n=16,k=2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (x,) = [port for port in document["ports"] if port["name"] == "x"]
    assert (x["bits"], x["lanes"], x["direction"]) == (16, 16, "input")
    assert [each["name"] for each in document["parameters"]][:2] == ["n", "k"]
    assert [each["name"] for each in document["state"]] == [
        "event",
        "comparisons",
        "comparisons_live",
        "cycles",
        "index",
        "phase",
    ]
    assert document["timing"] == "combinational"


def test_a_field_that_is_a_port_of_the_configuration_is_listed_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {}
    for config in ("paper", "ieee"):
        assert main(["explain", f"fp16_mac:{config}", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        listed[config] = [
            table for table in ("ports", "state") if "fflags" in [each["name"] for each in document[table]]
        ]
    assert listed == {"paper": ["state"], "ieee": ["ports"]}


def test_a_total_that_is_no_sum_is_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "page_manager"]) == 0
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["step_pages", "counter", "largest"] in [line[:3] for line in words]
    assert ["allocated", "counter", "sum"] in [line[:3] for line in words]


def test_options_that_a_word_does_not_heed_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "victim", "--config", "n8"]) == 2
    assert main(["explain", "victim", "--set", str(tmp_path)]) == 2
    assert "--set goes with a unit or a decision, got the term 'victim'" in capsys.readouterr().err


def test_docstrings_that_python_removed_are_named() -> None:
    """Meanings come from them; a dataclass has its signature instead."""
    command = [sys.executable, "-OO", "-m", "refemu", "explain", "BFP4", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stderr.startswith("refemu: explain: Python removed the docstrings") and done.stderr.count("\n") == 1
    assert json.loads(done.stdout)["meaning"] == ""
