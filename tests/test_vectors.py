"""The committed vectors are what refemu makes now: regeneration is an explicit act, and a changed bit is seen."""

from pathlib import Path

import pytest

from refemu import golden, units

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
LARGEST = 1_000_000  #: bytes of one file in git


@pytest.mark.long
def test_every_byte_is_regenerated() -> None:
    report = golden.check(VECTORS)

    assert [str(finding) for finding in report.findings] == []
    assert {one.how for one in report.sets} == {"regenerated"}


def test_every_unit_and_configuration_has_a_set() -> None:
    expected = {f"{name}-{config}" for name in units.names() for config in units.find(name).configs}

    assert expected == {path.parent.name for path in VECTORS.rglob("manifest.json")}


def test_files_stay_small() -> None:
    assert [path.name for path in VECTORS.rglob("*") if path.stat().st_size > LARGEST] == []
