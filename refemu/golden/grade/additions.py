"""The cases that a stimulus lacks: a few of the pool that detect every missed fault, as a set of its own."""

from pathlib import Path

from refemu.golden.files import sets, store
from refemu.golden.grade import covering
from refemu.golden.grade.grading import Grading
from refemu.golden.make import build
from refemu.golden.make.regenerate import MISSING
from refemu.units import parameters


def write(grading: Grading, folder: Path) -> Path | None:
    """Write cases that detect every missed fault into `folder`/<unit>-<config>/, with `hex/`; None if none is missed.

    Refused: refemu did not write the folder of that name.
    """
    if not grading.missed:
        return None
    unit, config = grading.pool.unit, grading.pool.config
    target = folder / parameters.set_name(unit, config)
    store.require_replaceable(target)
    cases = covering.cases(grading.missed, "model", f"detects what {grading.grade.set} misses; from: ")
    manifest, arrays = build.build(unit, config, cases, generator={"model": {"function": MISSING, "seed": 0}})
    store.replace(target, sets.render(manifest, arrays, hex=True))
    return target
