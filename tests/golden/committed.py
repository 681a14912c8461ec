"""The committed sets; those of a unit that states masks are made anew, by what is under test."""

from functools import cache
from pathlib import Path

from refemu import units
from refemu.golden import generator_remake, sets
from refemu.golden import manifest as manifests

VECTORS = Path(__file__).parents[2] / "vectors"
NAMES = sorted(path.parent.name for path in VECTORS.glob("*/manifest.json"))


def read(name: str) -> sets.Golden:
    """One set by its name."""
    if units.find(name.partition("-")[0]).care is None:
        return sets.load(VECTORS / name)
    return _remade(name)


@cache
def _remade(name: str) -> sets.Golden:
    files = generator_remake.regenerate(manifests.parse((VECTORS / name / sets.MANIFEST).read_bytes(), name))
    made = manifests.parse(files[sets.MANIFEST], name)
    return sets.Golden(made, sets.arrays_of(made, files[sets.VECTORS], name))
