"""The committed vectors are what refemu makes now: regeneration is an explicit act, and a changed bit is seen."""

from pathlib import Path

import numpy as np
import pytest

from refemu import golden, units
from refemu.golden.files import npz

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
LARGEST = 1_000_000  #: bytes of one file in git
ALL = 10_000_000  #: bytes of all of them


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


def test_vectors_are_deflated_and_small_together() -> None:
    """`make vectors` deflates them (tools/deflate.py); `refemu generate` alone does not."""
    archives = {path.parent.name: npz.Archive(path.read_bytes(), str(path)) for path in VECTORS.rglob("vectors.npz")}
    sizes = [path.stat().st_size for path in VECTORS.rglob("*") if path.is_file()]

    assert [name for name, archive in archives.items() if not archive.is_deflated] == []
    assert np.sum(sizes) < ALL
