"""A few cases with the coverage of all."""

from pathlib import Path

import numpy as np
import pytest

from refemu import golden, units
from refemu.arith.checks import Refused
from refemu.golden.faults.fault import QUICK
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import minimize
from refemu.golden.grade.grading import LIBRARY
from refemu.golden.make.generate import collect


@pytest.mark.long
@pytest.mark.parametrize("name", ["bfp_accumulator", "orizuru"])
def test_subset_has_coverage_of_all_cases(name: str, tmp_path: Path) -> None:
    config = next(iter(units.find(name).configs))
    kinds = ["paper", "edge", "random"]
    golden.generate(tmp_path / "all", units=[f"{name}:{config}"], kinds=kinds)
    (few,) = golden.generate_minimal(tmp_path / "few", [f"{name}:{config}"], kinds)

    every, subset = (answers_of.of_set(golden.load(tmp_path / kind / f"{name}-{config}")) for kind in ("all", "few"))
    faults = [fault for klass in QUICK for fault in LIBRARY[klass](every) if minimize._is_detected(fault, every)]
    assert faults and [fault.id for fault in faults if not minimize._is_detected(fault, subset)] == []
    assert few.rows < few.rows_of_all / 5 and few.path == str(tmp_path / "few" / f"{name}-{config}")
    report = golden.check(tmp_path / "few")
    assert report.equal and "`refemu grade` chose these cases" in report.sets[0].note


def test_cases_remain_if_nothing_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = units.find("outlier_decoder")
    cases, _ = collect(unit, "e2m1", ["edge"], 0, ())
    monkeypatch.setattr(minimize, "_faults", lambda answers: [])
    assert minimize.subset(unit, unit.configs["e2m1"], cases) == cases


def test_lost_fault_adds_neighbours() -> None:
    assert minimize._neighbours(np.array([2, 5]), {2, 5}, 9) == {1, 2}
    assert minimize._neighbours(np.array([2, 5]), {1, 2}, 9) == {4, 5}
    assert minimize._neighbours(np.array([0]), {0}, 9) == {1}


def test_model_cases_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="kinds must be one of"):
        golden.generate_minimal(tmp_path, ["olive_mac"], ["model"])
