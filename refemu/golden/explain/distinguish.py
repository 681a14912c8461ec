"""Rows that distinguish explanations with equal answers to all rows of a set."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from refemu import units
from refemu.golden.compare import answer_files
from refemu.golden.explain import table as tables
from refemu.golden.explain.diagnosis import Diagnosis
from refemu.golden.explain.guess import Story
from refemu.golden.explain.search import Search
from refemu.golden.explain.table import Table
from refemu.golden.files import manifest as manifests
from refemu.golden.files import sets, store
from refemu.golden.files.sets import Golden
from refemu.golden.grade.covering import cover
from refemu.golden.grade.pool import Pool
from refemu.golden.make import build
from refemu.golden.make.regenerate import MISSING
from refemu.units import parameters
from refemu.units.unit import AnyUnit, Cases

ROWS = 2_000  #: least number of random rows to search


def write(path: str | Path, diagnosis: Diagnosis, folder: Path) -> Path | None:
    """Write a set of cases in which the best explanations differ into `folder`/<unit>-<config>/.

    None if there is no second explanation, or no known legal row distinguishes them. path: directory of the compared
    set. Refused: refemu did not write the folder of that name.
    """
    if len(diagnosis.rivals) < 2:
        return None
    golden = sets.load(path)
    unit = units.find(golden.manifest["unit"])
    target = folder / parameters.set_name(unit, golden.config)
    store.require_replaceable(target)
    table = _pool(unit, golden)
    tells = _telling(table, diagnosis.rivals)
    if not tells.any():
        return None
    chosen = cover(tells[tells.any(axis=1)])
    cases = [Cases("model", f"tells apart what {golden.name} does not", _inputs(table, case)) for case in chosen]
    generator = {"model": {"function": MISSING, "seed": 0}}
    store.replace(target, sets.render(*build.build(unit, golden.config, cases, generator=generator)))
    return target


def _pool(unit: AnyUnit, golden: Golden) -> Table:
    """Legal rows of the unit, as a table answered by a right device."""
    blocks = Pool(unit, golden.config, golden.manifest["seed"], ROWS).answers.blocks
    cases = [Cases("model", block.cases.why, block.cases.inputs) for block in blocks]
    generator = {"model": {"function": MISSING, "seed": 0}}
    manifest, arrays = build.build(unit, golden.config, cases, generator=generator, compiled_from=1, lead=False)
    rows = Golden(manifests.sealed({**manifest, "hex": {}, "bin": {}}), arrays)
    right = {name: array for name, array in arrays.items() if name.startswith("out.") and not name.endswith(".care")}
    return tables.whole(rows, answer_files.Answer(right, {}))


def _telling(table: Table, stories: Sequence[Story]) -> np.ndarray:
    """Whether two stories differ in a case: bool (pairs, cases)."""
    predictions = [Search(table).predicted(story) for story in stories]
    tells = []
    for left, right in combinations(predictions, 2):
        rows = np.zeros(len(table.rows), np.bool_)
        for name in table.ports:
            bits = table.changed(name, left.words[name]) ^ table.changed(name, right.words[name])
            rows |= (bits != 0).any(axis=1)
        rows &= left.known & right.known
        cases = np.searchsorted(table.cases, table.first(table.rows[rows]))
        tells.append(np.bincount(cases, minlength=len(table.cases)) > 0)
    return np.array(tells)


def _inputs(table: Table, case: int) -> dict[str, np.ndarray]:
    """Stimulus of a case, as a block of one."""
    length = int(np.count_nonzero(table.first(table.rows) == table.cases[case]))
    return sets.inputs(table.golden, table.unit, int(table.cases[case]), 1, length)
