"""Versions of a set, case by case."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from refemu import golden
from refemu.arith.checks import Refused
from refemu.golden.files import sets
from refemu.golden.make import build
from refemu.units.unit import Cases, Unit
from tests.golden import fakes


def written(folder: Path, unit: Unit, *cases: Cases) -> Path:
    manifest, arrays = build.build(
        unit, next(iter(unit.configs)), cases, generator={"edge": {"function": "f", "seed": 0}}
    )
    folder.mkdir()
    for name, data in sets.render(manifest, arrays).items():
        (folder / name).write_bytes(data)
    return folder


def block(why: str, *first: int, decision: str = "") -> Cases:
    return Cases("edge", why, {"first": np.array(first), "second": np.full(len(first), 3)}, decision)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return written(tmp_path / "old", fakes.BLENDER, block("one", 5), block("two", 1, 2), block("three", 7))


def test_a_set_is_the_same_as_itself(old: Path) -> None:
    changes = golden.diff_cases(old, old)
    assert changes.same and changes.equal == 4


def test_differing_cases_are_listed_by_change(old: Path, tmp_path: Path) -> None:
    blocks = block("one", 5), block("two", 1, 9, 4), block("another name", 7), block("four", 8, decision="D-fake-1")
    changes = golden.diff_cases(old, written(tmp_path / "new", fakes.BLENDER, *blocks))

    assert changes.equal == 2 and not changes.same
    assert changes.added == ("edge/two/2", "edge/four/0") and changes.removed == ()
    assert changes.renamed == {"edge/three/0": "edge/another-name/0"}
    assert changes.changed == {"edge/two/1": ("in.first", "out.both", "out.ratio", "out.odd")}
    back = golden.diff_cases(tmp_path / "new", old)
    assert back.removed == changes.added and back.added == ()


def test_changed_field_of_a_case_is_named(old: Path, tmp_path: Path) -> None:
    other = dataclasses.replace(
        fakes.BLENDER, run=lambda first, second, *, overflow: one_more(first, second, overflow), compiled_run="none"
    )
    blocks = block("one, differently", 5), block("two", 1, 2, decision="D-fake-1"), block("three", 7)
    changes = golden.diff_cases(old, written(tmp_path / "new", other, *blocks))

    assert changes.changed["edge/one/0"] == ("why", "out.odd")
    assert set(changes.changed["edge/two/0"]) >= {"decision", "out.odd", "flags"}
    assert changes.changed["edge/three/0"] == ("out.odd",)


def one_more(first: np.ndarray, second: np.ndarray, overflow: str) -> fakes.Blend:
    right = fakes.blend(first, second, overflow=overflow)
    return dataclasses.replace(right, odd=~right.odd)


def test_sets_of_two_units_are_rejected(made: Path) -> None:
    with pytest.raises(Refused, match="has cases of blender"):
        golden.diff_cases(made / "meter-w4", made / "blender-wrap")
