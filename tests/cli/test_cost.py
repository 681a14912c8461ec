"""`refemu cost` prints a row for every layer and kind of work, and the same in JSON."""

import json

import pytest

from refemu.cli import main

WORDS = ["cost", "--model", "tiny", "--scheme", "kllm-a4", "--tokens", "4"]
KEYS = ["comparisons", "conversions", "count", "cycles", "index_operations", "kind", "layer", "macs", "words"]
MEASURED = {"bound", "busy", "bytes", "energy_pj", "peak_share", "seconds"}  #: of rows with records of work


@pytest.mark.long
def test_cost_table_and_json_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert main(WORDS) == 0
    shown = capsys.readouterr().out

    assert (report["model"], report["scheme"], report["tokens"]) == ("tiny", "kllm-a4", 4)
    for row in report["layers"]:
        assert sorted(row.keys() - MEASURED) == KEYS
        assert sorted(row["words"]) == ["activations", "kv", "weights"]
        assert str(row["cycles"] or "") in shown and row["kind"] in shown
    kinds = [row["kind"] for row in report["layers"] if row["layer"] == 0]
    assert kinds == ["quantize", "norm", "linear", "attention", "activation"]


@pytest.mark.long
def test_decode_step_costs_less_than_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    totals = []
    for phase in ("prompt", "decode"):
        assert main([*WORDS, "--phase", phase, "--json"]) == 0
        totals.append(json.loads(capsys.readouterr().out)["layers"][2]["macs"]["reduce"])
    assert totals[0] == 4 * totals[1]


def test_scheme_without_accelerator_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--scheme", "fp16"]) == 2
    assert "scheme fp16 has no accelerator" in capsys.readouterr().err
