"""`refemu grade`: tables, JSON and exit codes."""

import json
from pathlib import Path

import numpy as np
import pytest

from refemu import golden
from refemu.cli.main import main
from refemu.golden.files import npz

VECTORS = Path(__file__).resolve().parents[2] / "vectors"


@pytest.fixture
def flint(tmp_path: Path) -> Path:
    """A set that detects every detectable fault, and one row of it."""
    golden.generate(tmp_path / "sets", units=["flint_decoder"], kinds=["paper", "exhaustive"])
    return tmp_path / "sets" / "flint_decoder-flint4"


@pytest.fixture
def poor(flint: Path, tmp_path: Path) -> Path:
    """The first row of the set as a stimulus."""
    arrays = golden.load(flint).arrays
    npz.write(tmp_path / "poor.npz", {name: array[:1] for name, array in arrays.items() if name.startswith("in.")})
    return tmp_path / "poor.npz"


def test_complete_set_detects_all_faults(flint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", str(flint)]) == 0
    out = capsys.readouterr().out

    assert "flint_decoder-flint4: 23 rows, and all 16 inputs" in out and "rising" in out
    columns = ["class", "faults", "detected", "missed", "equivalent", "undecided", "untested", "coverage"]
    assert out.splitlines()[1].split() == columns
    assert [line.split() for line in out.splitlines() if line.endswith(" %")] == [
        ["bits", "40", "37", "0", "3", "0", "0", "100.0", "%"],
        ["order", "7", "7", "0", "0", "0", "0", "100.0", "%"],
        ["words", "10", "10", "0", "0", "0", "0", "100.0", "%"],
        ["use", "17", "17", "0", "0", "0", "0", "100.0", "%"],
        ["decisions", "3", "3", "0", "0", "0", "0", "100.0", "%"],
    ]
    assert "equivalent  bits       bit 3 of out.exponent is stuck at 0; none of all 16 inputs detects it" in out


def test_grade_json_has_the_documented_fields(poor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", "--unit", "flint_decoder", str(poor), "--json"]) == 1
    grade = json.loads(capsys.readouterr().out)

    assert {"set", "unit", "config", "rows", "classes", "survivors", "toggle", "seconds"} <= set(grade)
    assert (grade["set"], grade["unit"], grade["config"], grade["rows"]) == ("poor.npz", "flint_decoder", "flint4", 1)
    assert grade["inputs"] == grade["pool"] == 16
    bits = grade["classes"]["bits"]
    assert set(bits) == {"faults", "detected", "missed", "equivalent", "undecided", "raised"}
    assert (
        bits["missed"] == len([s for s in grade["survivors"] if s["class"] == "bits" and s["outcome"] == "missed"]) > 0
    )
    assert all(set(s) == {"class", "id", "fault", "outcome", "row", "reason"} for s in grade["survivors"])
    (row,) = {len(s["row"]["in.code"]) for s in grade["survivors"] if s["outcome"] == "missed"}
    assert row == 1


def test_missed_faults_are_listed_and_can_be_closed(
    poor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["grade", "--unit", "flint_decoder", str(poor), "--class", "bits,order"]
    assert main([*command, "--write-missing", str(tmp_path / "more")]) == 1
    out = capsys.readouterr().out
    assert "is stuck at 0; " in out and "shown by in.code 0x" in out and "detects every missed fault" in out

    arrays = {name: npz.read(poor.read_bytes(), "poor")[name] for name in ("in.code",)}
    more = golden.load(tmp_path / "more" / "flint_decoder-flint4").arrays
    npz.write(poor, {name: np.concatenate([array, more[name]]) for name, array in arrays.items()})
    assert main([*command, "--write-missing", str(tmp_path / "again")]) == 0
    assert "no fault is missed; nothing was written" in capsys.readouterr().out
    assert not (tmp_path / "again").exists()


def test_class_option_may_be_repeated(flint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", str(flint), "--class", "words", "--class", "bits,order", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["classes"]) == ["bits", "order", "words"]


def test_decisions_and_flags_are_counted(flint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", str(flint), "--class", "decisions"]) == 0
    out = capsys.readouterr().out
    assert "rows that detect a variant of a decision" in out and "D-olive-16    15" in out


@pytest.mark.long
def test_strict_fails_on_undecided_faults(flint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", str(flint), "--class", "bits", "--strict"]) == 0  # two bits of the exponent are never 1
    mac = ["grade", str(VECTORS / "olive_mac-wrap"), "--class", "use"]  # the operands can be exchanged
    assert main(mac) == 0
    assert main([*mac, "--strict"]) == 1
    pytest.importorskip("bitwuzla")
    capsys.readouterr()
    assert main([*mac, "--strict", "--prove"]) == 0
    assert "in.a_exp and in.b_exp are exchanged; equal for all legal inputs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--class", "lane"], "unknown fault class 'lane'; did you mean 'lanes'"),
        (["--all"], "--all needs --class model"),
        (["--config", "flint4"], "--config needs --unit"),
        (["--unit", "olive_pe8"], "must have all inputs of olive_pe8"),
        (["--unit", "flint_decodr"], "did you mean 'flint_decoder'"),
        (["--unit", "flint_decoder", "--config", "flint"], "did you mean 'flint4'"),
    ],
)
def test_invalid_stimulus_or_option_exits_with_2(
    words: list[str], message: str, flint: Path, poor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grade", str(poor if "--unit" in words else flint), *words]) == 2
    assert message in capsys.readouterr().err
