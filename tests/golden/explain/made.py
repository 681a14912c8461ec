"""Tables of small generated sets, and wrong answers to them."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from refemu import units
from refemu.golden.compare import answer_files
from refemu.golden.explain import table as tables
from refemu.golden.explain.table import Table
from refemu.golden.files import manifest as manifests
from refemu.golden.files.sets import Golden
from refemu.golden.make import build, random_cases
from refemu.units.unit import Cases, Kind

Arrays = dict[str, np.ndarray]
KINDS: tuple[Kind, ...] = ("paper", "edge", "random")


@lru_cache
def golden(unit: str, config: str, kinds: tuple[Kind, ...] = KINDS) -> Golden:
    """A set in memory."""
    descriptor = units.find(unit)
    return _built(
        unit, config, [block for kind in kinds for block in descriptor.stimuli(descriptor.config(config), kind, 0)]
    )


def random(unit: str, config: str, seeds: int) -> Golden:
    """A set of random cases in memory."""
    return _built(unit, config, list(random_cases.random_cases(units.find(unit), config, 0, seeds)))


def _built(unit: str, config: str, cases: Sequence[Cases]) -> Golden:
    descriptor = units.find(unit)
    generator = {case.kind: {"function": f"{unit}.cases", "seed": 0} for case in cases}
    manifest, arrays = build.build(descriptor, config, cases, generator=generator, compiled_from=1)
    return Golden(manifests.sealed({**manifest, "hex": {}, "bin": {}}), arrays)


def outputs(rows: Golden) -> Arrays:
    """Right answers, writable."""
    names = [entry["name"] for entry in rows.manifest["arrays"] if entry["role"] == "expected"]
    return {name: rows.arrays[name].copy() for name in names}


def wrong(rows: Golden, arrays: Arrays) -> np.ndarray:
    """Rows in which answers differ."""
    answer = answer_files.Answer(arrays, {})
    unlike = np.zeros(rows.rows, np.bool_)
    for name in arrays:
        unlike |= (answer.differing(rows, name).reshape(rows.rows, -1) != 0).any(axis=1)
    return unlike


def table(rows: Golden, arrays: Arrays) -> Table:
    """All rows, with a device's answers."""
    return tables.whole(rows, answer_files.Answer(arrays, {}))
