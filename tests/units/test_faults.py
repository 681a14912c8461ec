"""Fault libraries: faulty devices of any unit, which grading and explanation try, and their errors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import golden, plugins, units
from refemu.arith.checks import Refused, RefusedType
from refemu.units import FaultLibrary, Unit, Variant, register_faults, unregister_faults
from tests.plugin_distribution import CLIPPER, installed, write

LIBRARY = """
from refemu.units import Variant, FaultLibrary


def odd(config, inputs, result):
    return {"clipped": result.clipped | 1}


LIBRARY = FaultLibrary("acme-clip/clipper", [Variant("F-lab-1", "the last bit is stuck", answer=odd)])
"""


def swapped(config: Any, inputs: Any, result: Any) -> dict[str, np.ndarray]:
    """A concat whose answer is inverted in its lowest bit."""
    return {"weight": result.weight ^ 1}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Path]:
    """A unit of one distribution, and faults for it of another, which is named after no unit."""
    folder = tmp_path / "site"
    write(folder, "acme-clip", {"units clipper": "acme_clip:UNIT"}, {"acme_clip.py": CLIPPER})
    write(folder, "test-lab", {"faults clipper": "test_lab:LIBRARY"}, {"test_lab.py": LIBRARY})
    with installed(folder):
        yield folder


def test_unit_is_graded_with_faults_of_another_distribution(lab: Path, tmp_path: Path) -> None:
    (written,) = golden.generate(tmp_path / "vec", units=["clipper:b4"])
    grade = golden.grade_set(written.path, ["decisions"])

    assert [each.decision for each in units.find("clipper").variants] == ["F-lab-1"]
    assert grade.decisions["F-lab-1"] > 100
    assert grade.classes["decisions"].detected == 1


def test_stimulus_without_detecting_row_misses_fault(lab: Path, tmp_path: Path) -> None:
    """Odd answers hide a last bit that is stuck at one."""
    np.savez(tmp_path / "odd.npz", **{"in.value": np.arange(-7, 8, 2)})
    grade = golden.grade_stimulus(tmp_path / "odd.npz", "clipper", "b4", ["decisions"])

    assert [(each.id, each.outcome) for each in grade.survivors] == [("F-lab-1/the last bit is stuck", "missed")]


def test_the_explainer_names_a_fault_of_a_library(lab: Path, tmp_path: Path) -> None:
    (written,) = golden.generate(tmp_path / "vec", units=["clipper:b4"])
    right = golden.load(written.path).arrays
    np.savez(tmp_path / "wrong.npz", **{"out.clipped": right["out.clipped"] | 1, "out.over": right["out.over"]})
    difference = golden.diff(written.path, tmp_path / "wrong.npz", explain=True)

    first = difference.explanations[0]

    assert "F-lab-1" in (first.id, *first.equivalent)


def test_by_call_for_a_unit_of_refemus_own() -> None:
    before = units.find("concat").variants
    library = FaultLibrary("concat", [Variant("F-lab-2", "the lowest bit is inverted", answer=swapped)])
    try:
        assert register_faults(library) is library
        assert [each.decision for each in units.find("concat").variants[len(before) :]] == ["F-lab-2"]
    finally:
        unregister_faults("concat")
    assert units.find("concat").variants == before


def test_failing_library_is_named_without_affecting_others(lab: Path) -> None:
    write(lab, "torn", {"faults clipper": "torn:LIBRARY"}, {"torn.py": "raise RuntimeError('no licence')\n"})
    plugins.refresh()

    with pytest.warns(plugins.PluginWarning, match=r"torn 1.2: fault clipper does not load: RuntimeError: no licence"):
        left = units.find("clipper").variants
    assert [each.decision for each in left] == ["F-lab-1"], "those of the other library are there"
    assert units.find("concat").variants
    assert [each.key for each in units.broken()] == ["torn/clipper"]


def test_library_of_missing_unit_is_named(lab: Path) -> None:
    text = LIBRARY.replace("acme-clip/clipper", "cliper")
    write(lab, "misspelt", {"faults cliper": "misspelt:LIBRARY"}, {"misspelt.py": text})
    plugins.refresh()
    (broken,) = units.broken()

    assert broken.key == "misspelt/cliper"
    assert "faults of cliper have no unit: unknown unit 'cliper'; did you mean 'clipper'" in broken.error


@pytest.mark.parametrize(
    ("library", "error", "message"),
    [
        (Variant("F-lab-1", "x"), RefusedType, "must be a FaultLibrary, got Variant"),
        (FaultLibrary("concat", ()), Refused, "must have at least one entry, got none"),
        (FaultLibrary("conkat", [Variant("F-lab-1", "x")]), Refused, "unknown unit 'conkat'"),
        (FaultLibrary("concat", [Variant("lab-1", "x")]), Refused, r"entry 0: its id must be .* got 'lab-1'"),
        (FaultLibrary("concat", [Variant("F-lab-1", "")]), Refused, "must say what the device does"),
        (FaultLibrary("concat", ["F-lab-1"]), RefusedType, "must be a Variant, got str"),  # type: ignore[list-item]
    ],
)
def test_faults_rejects_invalid_inputs(library: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        register_faults(library)
    assert not [each for each in units.find("concat").variants if each.decision.startswith("F-")]


def test_entry_point_has_name_of_its_librarys_unit(lab: Path) -> None:
    write(lab, "misnamed", {"faults concat": "test_lab:LIBRARY"}, {})
    plugins.refresh()
    with pytest.warns(plugins.PluginWarning, match="entry point must have the unit's name, got 'concat'"):
        assert units.find("concat").variants


def test_unit_names_its_own_faults_and_decisions_apart() -> None:
    """`FAULTS` in addition to `VARIANTS`; an id of the other kind is rejected."""
    from types import SimpleNamespace

    unit: Unit[Any, Any] = units.find("concat")
    fault = Variant("F-lab-2", "the lowest bit is inverted", answer=swapped)
    for name, good in (("FAULTS", True), ("VARIANTS", False)):
        other = SimpleNamespace(**{name: [fault]})
        fresh = units.Unit(**{key: value for key, value in vars(unit).items() if key in unit.__dataclass_fields__})
        vars(fresh)["_others"] = other
        if good:
            assert [each.decision for each in fresh.variants] == ["F-lab-2"]
        else:
            with pytest.raises(Refused, match="its id must be D-"):
                fresh.variants  # noqa: B018
