"""Evaluation of cases: stimulus, answers, flags and masks of every row as bit patterns.

The answers come from the readable unit, or from its compiled form if there are many rows; both are equal.

Row 0 distinguishes a working device from an absent one. A two-state simulator that loads nothing reads zeros as
stimulus and as expected values, so it would pass. The first stimulus is therefore not zero, and its answer differs from
zero and from the answer to zeros.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.files import fields, masks
from refemu.units.ports import Port, Ports
from refemu.units.unit import AnyUnit, Cases, Config, Kind
from refemu.units.variant import Device

COMPILED_FROM = 32768  #: rows of a block that are worth compiling: smaller blocks use the readable form
FLAG_BITS = 8  #: bits of a row's flags
#: kinds that give the first row if the wanted kinds cannot
_SPARE_KINDS: tuple[Kind, ...] = ("paper", "edge", "random")


@dataclass(frozen=True)
class Column:
    """One array of a set: a port in one role, or the flags."""

    name: str  #: `in.<port>`, `out.<port>`, `st.<register>`
    role: str
    port: Port


@dataclass(frozen=True, eq=False)
class Block:
    """Evaluated cases that share a reason: rows of all columns, each (cases, rows) and lanes."""

    cases: Cases
    arrays: Mapping[str, np.ndarray]
    flags: np.ndarray
    care: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of cases, rows of each."""
        return self.flags.shape[0], self.flags.shape[1]

    def mask(self, name: str, bits: int) -> np.ndarray:
        """The mask of an array, by default all ones of its `bits` bits."""
        full = np.array(fields.mask_of(bits), self.arrays[name].dtype)
        return self.care.get(name, np.broadcast_to(full, self.arrays[name].shape))

    def pick(self, order: np.ndarray | slice) -> "Block":
        """The same block with the cases of `order` only, in that order."""
        care = {name: mask[order] for name, mask in self.care.items()}
        return Block(self.cases, {name: array[order] for name, array in self.arrays.items()}, self.flags[order], care)


def stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of blocks, each (cases, rows) and lanes, as one array (rows,) and lanes."""
    return np.ascontiguousarray(np.concatenate([part.reshape(-1, *part.shape[2:]) for part in parts]))


def columns(ports: Ports) -> list[Column]:
    """The arrays of a unit's ports in the order of the manifest and of the packed words."""
    groups = (("in", "stimulus", ports.inputs), ("out", "expected", ports.outputs), ("st", "state", ports.state))
    return [Column(f"{prefix}.{port.name}", role, port) for prefix, role, group in groups for port in group]


def evaluate(
    unit: AnyUnit,
    config: Config,
    cases: Cases,
    compiled_from: int = COMPILED_FROM,
    keep_nan: bool = False,
    device: Device | None = None,
) -> Block:
    """The rows of one block of cases: stimulus, answers, flags and masks as bit patterns.

    device: gives the answers in place of the unit, with variants of decisions; `config` is then its configuration.
    compiled_from: rows from which the compiled form computes the answers; 0 for a caller with many blocks.
    keep_nan: whether a NaN of the stimulus retains its bits; in sets most ports have one NaN only (D-arith-1).
    """
    ports = unit.ports(config)
    thing = f"{unit.name}: {cases.kind} cases ({cases.why})"
    _require_ports(ports, cases, thing)
    stimulus = {}
    for port in ports.inputs:
        codes = fields.encode(cases.inputs[port.name], port, f"{thing}: {port.name}")
        stimulus[port.name] = _rows(unit, codes if keep_nan else fields.stimulus(codes, port), port)
    shape = _common_shape(stimulus, thing)
    inputs = {port.name: _unrowed(unit, fields.decode(stimulus[port.name], port)) for port in ports.inputs}
    compiled = shape[0] * shape[1] >= compiled_from
    result = device.evaluate(inputs, jit=compiled) if device else unit.evaluate(config, inputs, jit=compiled)
    arrays = {f"in.{name}": array for name, array in stimulus.items()}
    for column in columns(ports)[len(ports.inputs) :]:
        answer = fields.encode(getattr(result, column.port.name), column.port, f"{unit.name}: {column.name}")
        arrays[column.name] = _rows(unit, answer, column.port)
    care = {
        name: mask.reshape(arrays[name].shape) for name, mask in masks.of_result(unit, config, inputs, result).items()
    }
    return Block(cases, arrays, _flags(unit, config, cases, inputs, result, shape), care)


def _require_ports(ports: Ports, cases: Cases, thing: str) -> None:
    names = [port.name for port in ports.inputs]
    if sorted(names) != sorted(cases.inputs):
        raise Refused(f"{thing}: inputs must be {', '.join(names)}, got {', '.join(cases.inputs)}")


def _common_shape(stimulus: Mapping[str, np.ndarray], thing: str) -> tuple[int, int]:
    shapes = {name: array.shape[:2] for name, array in stimulus.items()}
    cases, rows = next(iter(shapes.values()))
    if any(shape != (cases, rows) for shape in shapes.values()) or cases * rows == 0:
        raise Refused(f"{thing}: every port needs the same number of cases and rows, at least one, got {shapes}")
    return cases, rows


def _rows(unit: AnyUnit, array: np.ndarray, port: Port) -> np.ndarray:
    """Values as (cases, rows) and lanes; a case of a combinational unit is one row."""
    rows = array if unit.timing == "event" else array[:, None]
    lanes = (port.count,) if port.count > 1 else ()
    if rows.ndim != 2 + len(lanes) or rows.shape[2:] != lanes:
        axes = "(cases, rows" if unit.timing == "event" else "(cases"
        raise Refused(
            f"{unit.name}: {port.name} must have shape {axes}{', lanes' if lanes else ''}), got {array.shape}"
        )
    return rows


def _unrowed(unit: AnyUnit, array: np.ndarray) -> np.ndarray:
    return array if unit.timing == "event" else array[:, 0]


def _flags(
    unit: AnyUnit, config: Config, cases: Cases, inputs: Mapping[str, np.ndarray], result: Any, shape: tuple[int, int]
) -> np.ndarray:
    """u1 per row; a block whose cases follow from a decision is UNSPECIFIED if the unit has that flag."""
    marks = dict(unit.mark(config, inputs, result)) if unit.mark else {}
    if cases.decision and "UNSPECIFIED" in unit.flags:
        marks["UNSPECIFIED"] = np.ones(shape, np.bool_)
    word = np.zeros(shape, np.uint8)
    for name, mark in marks.items():
        rows = np.broadcast_to(np.asarray(mark, np.bool_).reshape(-1), shape[0] * shape[1]).reshape(shape)
        word |= rows.astype(np.uint8) << np.uint8(unit.flags[name].bit)
    return word


def led(unit: AnyUnit, config: Config, blocks: list[Block], compiled_from: int = COMPILED_FROM) -> list[Block]:
    """`blocks` with a row 0 that detects an absent device.

    The first block with such a case comes first, rotated to it; if there is none, a case of another kind precedes all
    blocks. compiled_from: see `evaluate`. Refused: no blocks, or no such case.
    """
    if not blocks:
        raise Refused(f"{unit.name}: must have cases of the wanted kinds, got none")
    silent = _silence(unit, config, blocks[0], compiled_from)
    for position, block in enumerate(blocks):
        if (telling := _telling(block, silent)).size:
            cases = np.arange(block.shape[0])
            rotated = block.pick(np.roll(cases, -int(telling[0]))) if telling[0] else block
            return [rotated, *blocks[:position], *blocks[position + 1 :]]
    return [_spare(unit, config, silent), *blocks]


def _silence(unit: AnyUnit, config: Config, block: Block, compiled_from: int) -> dict[str, np.ndarray]:
    """Outputs of one row of zeros; {} if zeros are invalid."""
    zeros = {
        name: np.zeros(
            (1,) + (1,) * (unit.timing == "event") + np.shape(array)[1 + (unit.timing == "event") :], np.uint8
        )
        for name, array in block.cases.inputs.items()
    }
    try:
        answer = evaluate(unit, config, Cases(block.cases.kind, "all inputs zero", zeros), compiled_from)
    except (Refused, RefusedType):
        return {}
    return {name: array[0, 0] for name, array in answer.arrays.items() if name.startswith("out.")}


def _telling(block: Block, silent: Mapping[str, np.ndarray]) -> np.ndarray:
    """Cases whose first row detects an absent device: neither zero nor answered as zeros are."""
    first = {name: array[:, 0].reshape(block.shape[0], -1) for name, array in block.arrays.items()}
    out = [name for name in first if name.startswith("out.")]
    stimulus = np.any([first[name].any(axis=1) for name in first if name.startswith("in.")], axis=0)
    answer = np.any([first[name].any(axis=1) for name in out], axis=0)
    other = np.any([(first[name] != silent.get(name, ~first[name])).any(axis=1) for name in out], axis=0)
    return np.flatnonzero(stimulus & answer & other)


def _spare(unit: AnyUnit, config: Config, silent: Mapping[str, np.ndarray]) -> Block:
    for kind in _SPARE_KINDS:
        for cases in unit.stimuli(config, kind, 0):
            block = evaluate(unit, config, cases)
            if (telling := _telling(block, silent)).size:
                why = f"{cases.why}; here because a set must not begin with a row that an empty simulation passes"
                spare = Cases(cases.kind, why, cases.inputs, cases.decision)
                return Block(spare, block.arrays, block.flags, block.care).pick(telling[:1])
    raise Refused(f"{unit.name}: no case distinguishes a working device from an absent one")
