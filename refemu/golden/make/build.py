"""Arrays and manifest of a set, from a unit and its cases."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from refemu import formats
from refemu.golden.files import case_ids, manifest
from refemu.golden.make import cross_check
from refemu.golden.make.rows import COMPILED_FROM, FLAG_BITS, Block, columns, evaluate, led, stacked
from refemu.golden.rtl import keywords
from refemu.units import parameters
from refemu.units.ports import Port, Ports
from refemu.units.unit import AnyUnit, Cases

RESET = "a case starts from reset; inputs are those before the active edge, outputs and state those after it"
_PACKING = {"byte_order": "little", "element_0": "least significant"}


def build(
    unit: AnyUnit,
    config: str,
    cases: Iterable[Cases],
    *,
    generator: Mapping[str, Any],
    seed: int = 0,
    source: Mapping[str, Any] | None = None,
    version: str = manifest.RELEASES[-1],
    made_by: str = "",
    compiled_from: int = COMPILED_FROM,
    lead: bool = True,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Manifest (without exports and digest) and arrays of `unit` in its ready configuration `config`.

    generator: kind -> function and seed, for the manifest. source: the run that the cases of kind "model" come from.
    version: the last release that changed the set. made_by: version of the distribution of a plug-in's unit, by default
    the installed one. compiled_from: see `rows.evaluate`. lead: whether a case that detects a missing device is first;
    otherwise rows are in the order of the cases. Refused: no cases, ports that are keywords or not unique, values that
    do not fit their port, no case that can lead, or a unit outside refemu whose forms differ.
    """
    ports = unit.ports(unit.config(config))
    _require_names(unit, ports)
    blocks_given = list(cases)
    if not unit.unit_class.__module__.startswith("refemu."):
        cross_check.require_equal(unit, unit.config(config), blocks_given)
    evaluated = [evaluate(unit, unit.config(config), block, compiled_from) for block in blocks_given]
    blocks = led(unit, unit.config(config), evaluated, compiled_from) if lead else evaluated
    arrays = _joined(ports, blocks)
    described = _described(unit, config, blocks, arrays)
    kinds = {kind: manifest.plain(entry) for kind, entry in generator.items()}
    return {
        **described,
        **({} if config in unit.configs else {"parameters": config}),
        "generator": kinds,
        "seed": seed,
        "source": manifest.plain(source or {}),
        "refemu_version": version,
        **({"distribution_version": made_by or unit.origin.version} if unit.origin.distribution else {}),
    }, arrays


def _joined(ports: Ports, blocks: Sequence[Block]) -> dict[str, np.ndarray]:
    """All rows of all blocks; a mask that only one block has is all ones in the others."""
    arrays = {}
    for column in columns(ports):
        arrays[column.name] = stacked([block.arrays[column.name] for block in blocks])
        if any(column.name in block.care for block in blocks):
            arrays[f"{column.name}.care"] = stacked([block.mask(column.name, column.port.bits) for block in blocks])
    return {**arrays, "flags": stacked([block.flags for block in blocks])}


def _described(unit: AnyUnit, config: str, blocks: Sequence[Block], arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    rows = int(arrays["flags"].shape[0])
    return {
        "schema": manifest.SCHEMA,
        "name": parameters.set_name(unit, config),
        "unit": unit.key,
        "paper": unit.paper,
        "unit_version": unit.version,
        "config": {name: expanded(value) for name, value in unit.config(config).items()},
        "rows": rows,
        "min_rows": rows,
        "cases": list(_entries(blocks)),
        "flags": {name: {"bit": flag.bit, "why": flag.why} for name, flag in unit.flags.items()},
        "arrays": list(_array_entries(unit, unit.ports(unit.config(config)), arrays)),
        "timing": unit.timing,
        "reset": RESET if unit.timing == "event" else "",
        "packing": dict(_PACKING),
        "hex": {},
        "bin": {},
    }


def expanded(value: Any) -> Any:
    """A parameter with all its contents: a format is written in full, even if given by name."""
    if isinstance(value, str) and value in formats.__all__:  # the name of a constant
        ready: dict[str, Any] = {**formats.constants(), **formats.blocks()}
        if value in ready:
            return {"name": value, **expanded(ready[value])}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: expanded(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"type": type(value).__name__, **parts}
    return manifest.plain(value)


def _entries(blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    first = 0
    ids = case_ids.of_blocks((block.cases.kind, block.cases.why) for block in blocks)
    for block, id in zip(blocks, ids, strict=True):
        cases, rows = block.shape
        entry: dict[str, Any] = {
            "id": id,
            "first": first,
            "cases": cases,
            "rows": rows,
            "kind": block.cases.kind,
            "why": block.cases.why,
        }
        if block.cases.decision:
            entry["decision"] = block.cases.decision
        if block.cases.source:
            entry["source"] = manifest.plain(block.cases.source)
        yield entry
        first += cases * rows


def _array_entries(unit: AnyUnit, ports: Ports, arrays: Mapping[str, np.ndarray]) -> Iterator[dict[str, Any]]:
    for column in columns(ports):
        yield _array_entry(column.name, column.role, column.port, arrays[column.name], column.port.meaning)
        if (mask := f"{column.name}.care") in arrays:
            port = Port(column.port.name, column.port.bits, column.port.lanes)
            entry = _array_entry(mask, "mask", port, arrays[mask], f"bits of {column.name} to compare")
            partial = unit.partial_care.get(column.name, "")
            yield {**entry, "partial": partial} if partial else entry
    yield _array_entry("flags", "flags", Port("flags", FLAG_BITS), arrays["flags"], "one bit per name in `flags`")


def _array_entry(name: str, role: str, port: Port, array: np.ndarray, meaning: str) -> dict[str, Any]:
    return {
        "name": name,
        "role": role,
        "dtype": array.dtype.str[1:],
        "shape": list(array.shape),
        "bits": port.bits,
        "lanes": port.count,
        "signed": port.signed,
        "encoding": port.kind,
        "meaning": meaning,
        "sha256": manifest.array_sha256(array),
    }


def _require_names(unit: AnyUnit, ports: Ports) -> None:
    wires = [port.name for port in (*ports.inputs, *ports.outputs)]
    for names in (wires, [port.name for port in ports.state]):
        keywords.require_names(names, unit.name)
