"""`refemu prove`: exit codes, counterexamples as golden sets, and messages of invalid requests."""

import json
import shutil
from pathlib import Path

import pytest

from refemu import golden
from refemu.cli.main import main

pytest.importorskip("bitwuzla")
pytestmark = pytest.mark.skipif(shutil.which("yosys") is None, reason="yosys is not installed")
RTL = Path(__file__).parents[3] / "examples" / "rtl"
FIELD = "bias + {2'b00, code[2:1]}"


def _planted(folder: Path, new: str) -> Path:
    text = (RTL / "ovp_decoder.v").read_text()
    assert text.count(FIELD) == 1
    source = folder / "ovp_decoder.v"
    source.write_text(text.replace(FIELD, new))
    return source


def test_correct_design_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "ovp_decoder", str(RTL / "ovp_decoder.v"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["outcome"], document["schema"], document["config"]) == ("proved", "refemu.prove/1", "int4")
    assert document["checked"] >= 10_000
    assert all(part["outcome"] == "proved" and "bitwuzla" in part["solver"] for part in document["parts"])


def test_bug_is_refuted_and_written_as_a_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _planted(tmp_path, "bias + {3'b000, code[1]}")
    assert main(["prove", "ovp_decoder:int4", str(source), "--out", str(tmp_path / "out"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["counterexample"]
    written = golden.load(tmp_path / "out" / "ovp_decoder-int4")
    assert written.rows == 1
    assert written.arrays[f"out.{found['port']}"].size
    waves = tmp_path / "out" / "ovp_decoder-int4-waves"
    assert (waves / "unit.vcd").read_bytes() != (waves / "design.vcd").read_bytes()
    assert main(["check", str(tmp_path / "out")]) == 0


def test_variant_of_a_decision_is_named_and_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _planted(tmp_path, "bias > 4'd15 - {2'b00, code[2:1]} ? 4'd15 : bias + {2'b00, code[2:1]}")
    assert main(["prove", "ovp_decoder:int4", str(source), "--json"]) == 1
    (says,) = json.loads(capsys.readouterr().out)["diagnosis"]
    assert says.startswith("equal to the variant of D-olive-20") and says.endswith("for all inputs")
    assert main(["prove", "ovp_decoder:int4", str(source), "--set", "D-olive-20=saturate"]) == 0


def test_refuted_core_is_named_with_inputs_in_hex(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _planted(tmp_path, "bias + {3'b000, code[1]}")
    source.write_text(source.read_text().replace("module ovp_decoder", "module mine"))
    ports = {name: name for name in ("pair", "bias")}
    outputs = {name: name for name in ("exponent", "base_int", "illegal")}
    (tmp_path / "map.json").write_text(json.dumps({"top": "mine", "clock": None, "inputs": ports, "outputs": outputs}))
    assert main(["prove", "ovp_decoder", str(source), "--map", str(tmp_path / "map.json")]) == 1
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("refuted: mine as Yosys ")
    assert [line.split()[1][:2] for line in rest if line.startswith(("  pair ", "  bias "))] == ["0x", "0x"]
    assert "  give --out DIR for these inputs as a golden set, and waveforms" in rest


def test_registers_are_proved_by_induction(capsys: pytest.CaptureFixture[str]) -> None:
    sources = [str(RTL / name) for name in ("olive_mac_core.v", "olive_mac_wrap.v")]
    assert main(["prove", "olive_mac:wrap", *sources, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["method"] == "induction" and document["reset"]["acc"] == "0x0"
    assert main(["prove", "olive_mac:saturate", *sources]) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ovp_decoder", "missing.v"], "missing.v: no such file"),
        (["ovp_decoder:int8", str(RTL / "ovp_decoder.v")], "must have 16 bits, got 8"),
        (["olive_mac", str(RTL / "ovp_decoder.v")], "not found!; name your module by --top"),
        (["ovp_decoder", str(RTL / "ovp_decoder.v"), "--set", "D-olive-20=nothing"], "must be D-olive-20=WORDS"),
        (["page_table", str(RTL / "ovp_decoder.v")], r"page_table.py:"),
        (["ovp_decoder", str(RTL / "ovp_decoder.v"), "--solver", "other"], "solver other"),
    ],
)
def test_invalid_request_exits_with_2(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", *words]) == 2
    assert says in capsys.readouterr().err
