"""Waivers: bits that a comparison leaves out, such as rows of a flag or case, or what a decision changes.

A decision leaves out, row by row, the bits that its variants change. Several decisions also leave out the bits that a
device with a variant of each changes. A decision without variants leaves out the rows of the cases that name it. The
result says how much was left out, and by which words.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.golden.faults.fault import FaultClass
from refemu.golden.files import case_ids, fields
from refemu.golden.files.sets import Golden, port_of
from refemu.golden.grade import answers, device
from refemu.golden.grade.grading import LIBRARY
from refemu.units import variant as other
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Config

Left: TypeAlias = dict[str, np.ndarray]  #: array -> bits that are left out, of its shape

SHARE = 10  #: a flag leaves out at most one row in ten, unless forced
FAST: tuple[FaultClass, ...] = ("bits", "lanes", "order", "words")  #: faults made from the answers alone


def bits(golden: Golden, words: Sequence[str], force: bool = False) -> Left:
    """Bits that `words` leave out, by output and register.

    words: names of row flags, ids of decisions, ids of cases or of blocks of cases. Refused: a word is unknown or
    matches nothing, words leave nothing to compare, or, unless `force`, a flag or decision leaves out more than a
    tenth of the rows.
    """
    left = {name: np.zeros_like(golden.arrays[name]) for name in _compared(golden)}
    changing: list[str] = []
    for word in words:
        if word.startswith("D-") and _changes(golden, [word], left):
            changing.append(word)
            continue
        rows = _flag(golden, word) if word in golden.manifest["flags"] else _others(golden, word)
        if not rows.any():
            raise Refused(f"{golden.name}: --waive {word}: no row of the set has it")
        if (word in golden.manifest["flags"] or word.startswith("D-")) and not force:
            _require_few(golden, word, rows)
        for array in left.values():
            array[rows] = np.iinfo(array.dtype).max
    if len(changing) > 1:
        _changes(golden, changing, left)
    if not counts(golden, left)[0]:
        raise Refused(f"{golden.name}: --waive {' '.join(words)} leaves no row to compare")
    return left


def without(golden: Golden, left: Left) -> Golden:
    """The set with masks without these bits."""
    masks = {f"{name}.care": care(golden, name) & ~array for name, array in left.items()}
    return dataclasses.replace(golden, arrays={**golden.arrays, **masks})


def counts(golden: Golden, left: Left) -> tuple[int, int]:
    """Rows with a compared bit in these arrays, and waived bits of these rows."""
    return _counts((care(golden, name), array) for name, array in left.items())


def coverage(golden: Golden, left: Left) -> tuple[int, list[str]]:
    """Number of faults of FAST that the set detects without the waiver, and ids of those it misses with it."""
    before, after = answers.of_set(golden), answers.of_set(without(golden, left))
    detected = [fault for name in FAST for fault in LIBRARY[name](before) if fault.wrong(before).any()]
    return len(detected), [fault.id for fault in detected if not fault.wrong(after).any()]


def of_result(
    unit: AnyUnit, config: Config, inputs: Mapping[str, np.ndarray], result: Any, words: Sequence[str]
) -> Left:
    """Waived bits of a Result's outputs, by port; words name flags and decisions."""
    ports = unit.ports(config).outputs
    codes = {port.name: fields.encode(getattr(result, port.name), port, unit.name) for port in ports}
    left = {name: np.zeros_like(array) for name, array in codes.items()}
    marks = dict(unit.mark(config, inputs, result)) if unit.mark else {}
    decisions = {each.decision for each in unit.variants}
    for word in words:
        lookup(f"flag or decision of {unit.name}", word, dict.fromkeys([*unit.flags, *decisions]))
        for port in ports:
            array = left[port.name]
            rows = np.broadcast_to(marks.get(word, False), array.shape[: array.ndim - (port.count > 1)])
            array[rows] = fields.mask_of(port.bits)
    for wrong in _devices(unit, config, words):
        try:
            got = wrong.evaluate(inputs, jit=False)
        except (Refused, RefusedType):
            continue
        for port in ports:
            left[port.name] |= codes[port.name] ^ fields.encode(getattr(got, port.name), port, unit.name)
    return left


def remark_of_result(
    words: Sequence[str], ports: Mapping[str, Port], care: Mapping[str, np.ndarray], left: Left
) -> str:
    """The remark for outputs of a Result; see `remark`. care: masks by array, from `masks.of_result`."""
    pairs = []
    for name, array in left.items():
        mask = care.get(f"out.{name}", np.full_like(array, fields.mask_of(ports[name].bits)))
        rows = array.size // ports[name].count
        pairs.append((mask.reshape(rows, -1), array.reshape(rows, -1)))
    return remark(words, rows, *_counts(pairs)) if words else ""


def remark(words: Sequence[str], rows: int, compared: int, masked: int) -> str:
    """The end of a result line with waivers; "" without."""
    return f"; waived by {', '.join(words)}: compared {compared} of {rows} rows, {masked} bits masked" if words else ""


def _counts(pairs: Any) -> tuple[int, int]:
    """Rows with a compared bit, and waived bits of these rows, from pairs (bits that count, waived bits)."""
    both = [(mask.reshape(len(mask), -1), (mask & array).reshape(len(mask), -1)) for mask, array in pairs]
    compared = np.any([(mask != out).any(axis=1) for mask, out in both], axis=0)
    return int(np.count_nonzero(compared)), sum(
        int(np.count_nonzero(np.unpackbits(out[compared].view(np.uint8)))) for _, out in both
    )


def _compared(golden: Golden) -> list[str]:
    return [entry["name"] for entry in golden.manifest["arrays"] if entry["role"] in ("expected", "state")]


def care(golden: Golden, name: str) -> np.ndarray:
    """Bits of an array that count."""
    full = np.full_like(golden.arrays[name], fields.mask_of(port_of(golden.array(name)).bits))
    return golden.arrays.get(f"{name}.care", full)


def _require_few(golden: Golden, word: str, rows: np.ndarray) -> None:
    count = int(np.count_nonzero(rows))
    if SHARE * count > golden.rows:
        raise Refused(
            f"{golden.name}: --waive {word} leaves out {count} of {golden.rows} rows, more than a tenth: "
            f"waive the decision or the cases that you mean, or add --force (with a Makefile: FORCE=1)"
        )


def _flag(golden: Golden, word: str) -> np.ndarray:
    return np.asarray(golden.arrays["flags"] >> np.uint32(golden.manifest["flags"][word]["bit"]) & np.uint32(1) != 0)


def _others(golden: Golden, word: str) -> np.ndarray:
    """Rows of a case, of a block of cases, or of the cases that name a decision."""
    waived = np.zeros(golden.rows, np.bool_)
    if word.startswith("D-"):
        for _, entry, where in case_ids.of_cases(golden.manifest):
            waived[where] |= entry.get("decision") == word
        return waived
    for id, entry in case_ids.blocks(golden.manifest):
        if id == word:
            waived[entry["first"] : entry["first"] + entry["cases"] * entry["rows"]] = True
            return waived
    if "/" not in word:
        lookup(f"flag, decision or case of {golden.name}", word, golden.manifest["flags"])
    first = case_ids.row_of(golden.manifest, word)
    waived[first : first + golden.entry(first)["rows"]] = True
    return waived


def _changes(golden: Golden, words: Sequence[str], left: Left) -> bool:
    """Add the bits that variants of these decisions change; False if none are known."""
    held = answers.of_set(golden)
    cited = {entry["decision"] for entry in golden.manifest["cases"] if "decision" in entry}
    known = {each.decision for each in held.unit.variants} | cited
    for word in words:
        lookup(f"decision of {golden.name}", word, dict.fromkeys(known))
    changed = False
    for wrong in _devices(held.unit, held.config, words):
        for block, entry in zip(held.blocks, golden.manifest["cases"], strict=True):
            inputs, rows = answers.values(held.unit, held.config, block), entry["rows"]
            for first, stop, got in device._parts(held, wrong, block, inputs):
                where = slice(entry["first"] + first * rows, entry["first"] + stop * rows)
                if isinstance(got, (Refused, RefusedType)):
                    continue
                for name in left.keys() & got.arrays.keys():
                    unlike = golden.arrays[name][where] ^ got.arrays[name].reshape(left[name][where].shape)
                    left[name][where] |= unlike
                    changed = changed or bool((unlike & care(golden, name)[where]).any())
    return changed


def _devices(unit: AnyUnit, config: Config, words: Sequence[str]) -> Iterator[other.Device]:
    """Devices with variants of some of these decisions, in every combination."""
    choices = [[each for each in unit.variants if each.decision == word] for word in words]
    for chosen in itertools.product(*([None, *some] for some in choices)):
        different = [each for each in chosen if each is not None]
        wrong = other.device(unit, config, different) if different else None
        if wrong is not None:
            yield wrong
