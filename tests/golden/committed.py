"""The committed sets."""

from pathlib import Path

from refemu.golden.files import sets

VECTORS = Path(__file__).parents[2] / "vectors"
NAMES = sorted(path.parent.name for path in VECTORS.glob("*/manifest.json"))


def read(name: str) -> sets.Golden:
    """A committed set by its name."""
    return sets.load(VECTORS / name)
