"""`refemu explain`: units, decisions and options, as text and as JSON."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from refemu import golden
from refemu.cli.main import main


def test_unit_lists_variants_of_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "olive_mac:wrap"]) == 0
    out = capsys.readouterr().out
    assert "decisions of olive_mac-wrap" in out
    assert ["D-olive-33", "overflow", "is", "'saturate'", "overflow=saturate"] in [
        line.split() for line in out.splitlines()
    ]
    assert "'wrap'" not in out  # its own answer


def test_set_counts_rows_that_detect_variants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_unobservable_decision_has_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "index_norm"]) == 0
    assert "D-kllm-18: no variant can be observed:" in capsys.readouterr().out


def test_invalid_words_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "orizzuru"]) == 2
    assert "did you mean 'orizuru'?" in capsys.readouterr().err
    golden.generate(tmp_path, units=["olive_mac:wrap"], kinds=["paper"])
    assert main(["explain", "ovp_decoder:int4", "--set", str(tmp_path / "olive_mac-wrap")]) == 2
    assert "olive_mac-wrap: is not a set of ovp_decoder in configuration int4" in capsys.readouterr().err


def test_decision_is_printed_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has the text of docs/decisions.md, the test and the variants; `refemu show` prints the same."""
    golden.generate(tmp_path, units=["ovp_decoder:int4"], kinds=["exhaustive"])
    assert main(["explain", "D-olive-19"]) == 0
    out = capsys.readouterr().out
    assert (
        "A victim decodes to exponent 0 and integer 0." in out
        and "Pinned by tests/units/olive/test_ovp_decoder.py::" in out
    )
    assert "a victim has the bias as its exponent" in out
    assert main(["show", "D-olive-19"]) == 0
    assert capsys.readouterr().out == out

    assert main(["explain", "D-olive-19", "--set", str(tmp_path / "ovp_decoder-int4"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["id"] == "D-olive-19" and len(document["choices"]) == 2
    assert all(choice["rows"] > 0 for choice in document["choices"])
    assert main(["explain", "D-olive-19", "--set", str(tmp_path / "ovp_decoder-int4")]) == 0
    assert "that detect each variant" in capsys.readouterr().out


def test_unit_names_command_for_its_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "olive_mac:wrap"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert "refemu explain D-olive-33" in line and "docs/" not in line
    assert main(["explain", "D-olive-999"]) == 2
    assert "unknown decision 'D-olive-999'" in capsys.readouterr().err
    assert main(["explain", "D-olive-33", "--config", "wrap"]) == 2


def test_decision_lists_code_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "D-harmonia-19"]) == 0
    out = capsys.readouterr().out
    assert "refemu/models/schemes/harmonia/config.py:" in out and "HarmoniaConfig.prefill_window" in out
    assert "Set by " in out and "harmonia-kv8.prefill_window" in out
    assert main(["explain", "D-harmonia-19", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"file", "line", "name"} == set(document["taken"][0]) and document["parameters"]


def test_unit_lists_ports_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "orizuru:n=16,k=2"]) == 0
    out = capsys.readouterr().out
    assert "the k largest and the k smallest of n values" in out
    assert "values of the shared leaves" in out and "elements popped by the max tree" in out
    assert out.index("\nparameters") < out.index("\nother fields of the state") < out.index("\ndecisions of orizuru")
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


def test_field_that_is_a_port_is_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {}
    for config in ("paper", "ieee"):
        assert main(["explain", f"fp16_mac:{config}", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        listed[config] = [
            table for table in ("ports", "state") if "fflags" in [each["name"] for each in document[table]]
        ]
    assert listed == {"paper": ["state"], "ieee": ["ports"]}


def test_total_that_is_a_maximum_has_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "page_manager"]) == 0
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["step_pages", "counter", "largest"] in [line[:3] for line in words]
    assert ["allocated", "counter", "sum"] in [line[:3] for line in words]


def test_options_of_other_words_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "victim", "--config", "n8"]) == 2
    assert main(["explain", "victim", "--set", str(tmp_path)]) == 2
    assert "--set needs a unit or a decision, got the term 'victim'" in capsys.readouterr().err


def test_removed_docstrings_are_reported() -> None:
    """Meanings come from docstrings; without them, a dataclass has its signature."""
    command = [sys.executable, "-OO", "-m", "refemu", "explain", "BFP4", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stderr.startswith("refemu: explain: Python removed the docstrings") and done.stderr.count("\n") == 1
    assert json.loads(done.stdout)["meaning"] == ""
