"""Coverage of a set agrees with its grade."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from refemu import golden, units
from refemu.cli.main import main
from refemu.golden.report import coverage
from refemu.golden.report.coverage import CLASSES, FAST
from refemu.units.stimuli import Seeds
from refemu.units.unit import Cases, Config, Kind


def test_coverage_agrees_with_grade(made_once: Path) -> None:
    folder = made_once / "olive_mac-wrap"
    seen = coverage.coverage(folder, golden.load(folder), FAST)
    graded = golden.grade_set(folder, FAST)

    assert seen.grade == graded and set(graded.classes) == {"bits", "lanes", "order", "words"}
    assert seen.toggle == graded.toggle
    assert seen.flags == {name: rows for name, rows in graded.flags.items() if "+" not in name}
    assert sum(seen.kinds.values()) == graded.rows and set(seen.kinds) == {"paper", "edge"}
    acc = graded.toggle["out.acc"]
    assert seen.share[1] == 2 * sum(counts["bits"] for counts in graded.toggle.values())
    assert seen.share[0] >= acc["0"] + acc["1"]


def test_decisions_are_rows_of_their_cases(made_once: Path) -> None:
    folder = made_once / "bench" / "outlier_decoder-e2m1"
    manifest = golden.load(folder).manifest
    seen = coverage.coverage(folder, golden.load(folder), CLASSES["none"])

    assert seen.grade is None and seen.reason == ""
    assert seen.decisions and sum(seen.decisions.values()) == sum(
        case["cases"] * case["rows"] for case in manifest["cases"] if "decision" in case
    )


def test_unknown_unit_has_a_reason(made_once: Path) -> None:
    folder = made_once / "olive_mac-wrap"
    whole = golden.load(folder)
    for change, reason in (({"unit": "olive_mop"}, "did you mean"), ({"parameters": "wrap=9"}, "wrap")):
        other = dataclasses.replace(whole, manifest={**whole.manifest, **change})
        assert reason in coverage.coverage(folder, other, FAST).reason
    less = {name: array for name, array in whole.arrays.items() if name != "out.acc"}
    assert "lacks out.acc" in coverage.coverage(folder, dataclasses.replace(whole, arrays=less), FAST).reason


NAME = "int8_int8_saturate"


@pytest.mark.parametrize(("rows", "completed"), [(3, 0), (16, 5)])
def test_random_cases_shorter_than_an_operation_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: int, completed: int
) -> None:
    """An operation of olive_edp_clocked takes 4 rows."""
    unit = units.find("olive_edp_clocked")
    whole = unit.cases

    def cut(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
        for block in whole(config, kind, seed):
            inputs = {port: array[:, :rows] for port, array in block.inputs.items()}
            yield dataclasses.replace(block, inputs=inputs) if kind == "random" else block

    monkeypatch.setitem(vars(unit), "cases", cut)
    golden.generate(tmp_path, units=[unit], configs=[NAME], kinds=["paper", "random"])
    folder = tmp_path / f"olive_edp_clocked-{NAME}"
    line = "no random row completes an operation"

    assert coverage.coverage(folder, golden.load(folder), ()).completed == {"paper": 1, "random": completed}
    assert main(["grade", str(folder), "--class", "order"]) in (0, 1)
    assert (line in capsys.readouterr().out) == (completed == 0)
    assert main(["report", str(tmp_path), "--grade", "none"]) == 2  # no answer
    assert (line in (tmp_path / "report.html").read_text()) == (completed == 0)
    (document,) = json.loads((tmp_path / "report.json").read_text())["sets"]
    assert document["coverage"]["completed"] == {"paper": 1, "random": completed}


def test_single_event_units_have_no_count(made_once: Path) -> None:
    folder = made_once / "olive_mac-wrap"
    assert coverage.coverage(folder, golden.load(folder), ()).completed == {}
