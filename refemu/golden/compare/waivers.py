"""Rows that a comparison leaves out on request: those that carry a flag, those of a decision, those of a case.

The rows of a decision are those in which a device with another answer to it differs from the unit; where no such device
is known, those of the cases that name it. A verdict always says how many rows were left out, and by which words.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.golden.files import case_ids, fields, masks
from refemu.golden.files.sets import Golden, port_of
from refemu.golden.grade import answers, device
from refemu.units import alternative as other
from refemu.units.unit import AnyUnit, Config


def rows(golden: Golden, words: Sequence[str]) -> np.ndarray:
    """Mask of the waived rows, bool (rows,).

    words: names of row flags, ids of decisions, ids of cases or of blocks of cases. Refused: a word that is none of
    them or waives no row, and words that leave no row to compare.
    """
    waived = np.zeros(golden.rows, np.bool_)
    for word in words:
        named = _flag(golden, word) if word in golden.manifest["flags"] else _others(golden, word)
        if not named.any():
            raise Refused(f"{golden.name}: --waive {word}: no row of the set has it")
        waived |= named
    if waived.all():
        raise Refused(f"{golden.name}: --waive {' '.join(words)} leaves no row to compare")
    return waived


def without(golden: Golden, waived: np.ndarray) -> Golden:
    """The set with masks that leave the waived rows out."""
    arrays = dict(golden.arrays)
    for entry in golden.manifest["arrays"]:
        if entry["role"] in ("expected", "state"):
            full = np.full_like(arrays[entry["name"]], fields.mask_of(port_of(entry).bits))
            mask = golden.arrays.get(f"{entry['name']}.care", full).copy()
            mask[waived] = 0
            arrays[f"{entry['name']}.care"] = mask
    return dataclasses.replace(golden, arrays=arrays)


def of_result(
    unit: AnyUnit, config: Config, inputs: Mapping[str, np.ndarray], result: Any, words: Sequence[str]
) -> np.ndarray:
    """Mask of the waived rows of a Result, bool of the shape of its rows; words name flags and decisions."""
    shape = np.shape(getattr(result, (port := unit.ports(config).outputs[0]).name))
    waived = np.zeros(shape[:-1] if port.lanes > 1 else shape, np.bool_)
    marks = dict(unit.mark(config, inputs, result)) if unit.mark else {}
    decisions = {each.decision for each in unit.alternatives}
    for word in words:
        lookup(f"flag or decision of {unit.name}", word, dict.fromkeys([*unit.flags, *decisions]))
        waived |= np.broadcast_to(np.asarray(marks.get(word, False), np.bool_), waived.shape)
        for alternative in (each for each in unit.alternatives if each.decision == word):
            waived |= _unlike(unit, config, inputs, result, alternative, waived.shape)
    return waived


def _unlike(
    unit: AnyUnit,
    config: Config,
    inputs: Mapping[str, np.ndarray],
    result: Any,
    alternative: other.Alternative,
    shape: tuple[int, ...],
) -> np.ndarray:
    """Rows in which a device with another answer differs; none where there is no such device."""
    wrong = other.device(unit, config, [alternative])
    rows = np.zeros(shape, np.bool_)
    if wrong is None:
        return rows
    try:
        got = wrong.evaluate(inputs, jit=False)
    except (Refused, RefusedType):
        return rows
    care = masks.of_result(unit, config, inputs, result)
    for port in unit.ports(config).outputs:
        words = [fields.encode(getattr(each, port.name), port, unit.name) for each in (result, got)]
        unlike = masks.differing(words[0], words[1], port, care.get(f"out.{port.name}")) != 0
        rows |= unlike.any(axis=-1) if port.lanes > 1 else unlike
    return rows


def remark(words: Sequence[str], count: int) -> str:
    """The end of a verdict with waivers; "" without."""
    return f"; {count} rows waived by {', '.join(words)}" if words else ""


def _flag(golden: Golden, word: str) -> np.ndarray:
    return np.asarray(golden.arrays["flags"] >> np.uint32(golden.manifest["flags"][word]["bit"]) & np.uint32(1) != 0)


def _others(golden: Golden, word: str) -> np.ndarray:
    if word.startswith("D-"):
        return _decision(golden, word)
    waived = np.zeros(golden.rows, np.bool_)
    for id, entry in case_ids.blocks(golden.manifest):
        if id == word:
            waived[entry["first"] : entry["first"] + entry["cases"] * entry["rows"]] = True
            return waived
    if "/" not in word:
        lookup(f"flag, decision or case of {golden.name}", word, golden.manifest["flags"])
    first = case_ids.row_of(golden.manifest, word)
    waived[first : first + golden.entry(first)["rows"]] = True
    return waived


def _decision(golden: Golden, word: str) -> np.ndarray:
    """Rows that another answer to a decision tells."""
    waived, held = np.zeros(golden.rows, np.bool_), answers.of_set(golden)
    decided = {each.decision for each in held.unit.alternatives}
    cited = {entry["decision"] for entry in golden.manifest["cases"] if "decision" in entry}
    lookup(f"decision of {golden.name}", word, dict.fromkeys(decided | cited))
    for alternative in (each for each in held.unit.alternatives if each.decision == word):
        wrong = other.device(held.unit, held.config, [alternative])
        if wrong is None:
            continue
        try:
            waived |= device.wrong(held, wrong)
        except (Refused, RefusedType):
            continue
    if waived.any():
        return waived
    for _, entry, where in case_ids.of_cases(golden.manifest):
        if entry.get("decision") == word:
            waived[where] = True
    return waived
