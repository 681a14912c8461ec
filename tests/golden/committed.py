"""The committed sets; those of a unit that states masks are made anew, by what is under test."""

from functools import cache
from pathlib import Path

from refemu import units
from refemu.golden.files import manifest, sets
from refemu.golden.make import regenerate

VECTORS = Path(__file__).parents[2] / "vectors"
NAMES = sorted(path.parent.name for path in VECTORS.glob("*/manifest.json"))


def read(name: str) -> sets.Golden:
    """One set by its name."""
    if units.find(name.partition("-")[0]).care is None:
        return sets.load(VECTORS / name)
    return _remade(name)


@cache
def _remade(name: str) -> sets.Golden:
    files = regenerate.regenerate(manifest.parse((VECTORS / name / sets.MANIFEST).read_bytes(), name))
    made = manifest.parse(files[sets.MANIFEST], name)
    return sets.Golden(made, sets.arrays_of(made, files[sets.VECTORS], name))
