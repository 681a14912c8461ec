"""Report of an accelerator's work on one block: each operation, and reasons for the operations it does not run."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from refemu import units
from refemu.models.machine import totals
from refemu.models.machine.schedule import Placed, placed
from refemu.models.machine.system import System
from refemu.models.machine.work import Work
from refemu.units.unit import Config


@dataclass(frozen=True)
class Cost:
    """Cost of some work; zero counts may be left out of `macs` and `words`."""

    macs: Mapping[str, int] = field(
        default_factory=dict
    )  #: multiply-accumulates by mode: operand types, or part of the datapath
    index_operations: int = 0  #: positions whose indices are counted or concatenated
    comparisons: int = 0
    conversions: int = 0  #: values converted to another format
    words: Mapping[str, int] = field(default_factory=dict)  #: words moved: "weights", "activations", "kv"
    cycles: int = 0  #: clock cycles of the units, nothing overlapped; 0 where the paper gives none
    works: tuple[Work, ...] = ()  #: records of the operations, for a machine with a `System`

    def __add__(self, other: "Cost") -> "Cost":
        """The sum of two costs."""
        return Cost(
            _joined(self.macs, other.macs),
            self.index_operations + other.index_operations,
            self.comparisons + other.comparisons,
            self.conversions + other.conversions,
            _joined(self.words, other.words),
            self.cycles + other.cycles,
            self.works + other.works,
        )


def _joined(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


@dataclass(frozen=True)
class Operation:
    """One operation of a block at the ports of a unit."""

    name: str  #: "blk.0.q", "blk.0.attn_in"
    unit: str  #: unit whose ports carried it
    parameters: Mapping[str, Any]  #: configuration of the unit
    shape: tuple[int, ...]  #: rows, columns and length of the sums of a product; otherwise of the tensor
    elements: int  #: results that were compared
    differing: int  #: results that differ from the scheme's; 0 is expected
    cycles: int  #: clock cycles; 0 where the paper gives the unit no timing
    use: Mapping[str, float] = field(default_factory=dict)  #: part -> share of cycles in which it worked, 0 to 1
    words: Mapping[str, int] = field(default_factory=dict)  #: port or buffer -> words moved
    kind: str = ""  #: kind of work, as in `Cost` tables: "quantize", "linear", ...
    cost: Cost = field(default_factory=Cost)  #: counts of the unit
    counts: Mapping[str, int] = field(default_factory=dict)  #: outcomes by name: tokens by precision, choices
    unchecked: tuple[str, ...] = ()  #: outputs of the unit that the scheme does not have, so not compared
    blocks: tuple[Mapping[str, Any], ...] = ()  #: blocks of threads of a kernel, one a head, with their warps


@dataclass(frozen=True)
class Absent:
    """An operation that the accelerator does not run."""

    name: str
    reason: str  #: why, with the id of the decision


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a part of the block."""

    part: str  #: one of `runner.PARTS`
    inputs: tuple[Any, ...]  #: arguments after the layer, without the probe
    output: Any


#: accelerator(prepared, layer, calls) -> operations, and those that the accelerator does not run
#: a scheme with `options` gets them as last argument
Accelerator: TypeAlias = Callable[..., tuple[list[Operation], list[Absent]]]
#: costs(prepared, layer, call) -> by kind; a scheme with `options` gets them as last argument
Costs: TypeAlias = Callable[..., Iterable[tuple[str, Cost]]]


@dataclass(frozen=True)
class Blocks:
    """Cost of equal blocks of a model, from sizes alone."""

    layer: int  #: first block, from 0; -1 is the head
    count: int  #: blocks
    costs: tuple[tuple[str, Cost], ...]  #: of one of them, by kind, in the order of the work


#: shape(config, shape, tokens, phase, batch, options) -> blocks, and what is not on the machine
Shapes: TypeAlias = Callable[..., tuple[list[Blocks], list[Absent]]]


@dataclass(frozen=True)
class Report:
    """An accelerator's work on one block."""

    model: str
    scheme: str
    layer: int
    phase: str  #: "prompt" or "decode"
    tokens: int  #: tokens of the prompt; a decode step is that of the token after them
    prepare_seconds: float
    operations: tuple[Operation, ...]
    not_on_the_machine: tuple[Absent, ...]
    system: System | None = None  #: None: the machine has no records of work yet

    @property
    def differing(self) -> int:
        """Count the elements of all operations that differ from the scheme.

        Returns
        -------
        int
            0 where accelerator and scheme agree.
        """
        return sum(int(operation.differing) for operation in self.operations)

    def as_json(self) -> dict[str, Any]:
        """Return plain lists, dictionaries and numbers.

        Returns
        -------
        dict
            Fields by name.
        """
        measured = self._measured()
        rows = []
        for operation in self.operations:
            fields = (field.name for field in dataclasses.fields(operation) if field.name not in ("kind", "cost"))
            row = {name: getattr(operation, name) for name in fields}
            row |= {name: dict(row[name]) for name in ("parameters", "use", "words", "counts")}
            row |= {"cycles": operation.cycles or None} | measured.get(operation.name, {})
            if self.system and operation.name not in measured:
                row["cycles"] = None  # its record is that of another operation
            rows.append(
                row
                | {
                    "shape": list(operation.shape),
                    "unchecked": list(operation.unchecked),
                    "blocks": list(operation.blocks),
                }
            )
        head = {name: getattr(self, name) for name in ("model", "scheme", "layer", "phase", "tokens")}
        head |= {"prepare_seconds": self.prepare_seconds, "operations": rows}
        absent = [dataclasses.asdict(entry) for entry in self.not_on_the_machine]
        return {**head, "not_on_the_machine": absent, "total": self.total}

    @property
    def section(self) -> totals.Section:
        """The block as its records of work."""
        works = tuple(work for operation in self.operations for work in operation.cost.works)
        return totals.Section(self.layer, 1, works)

    @cached_property
    def line(self) -> list[Placed]:
        """The operations on the machine's schedule."""
        return placed(self.section.works, self.system) if self.system else []

    @property
    def total(self) -> dict[str, Any] | None:
        """What the block adds up to; None without records of work."""
        if self.system is None:
            return None
        return totals.total([self.section], [self.line], self.system, self.tokens if self.phase == "prompt" else 1)

    def _measured(self) -> dict[str, dict[str, Any]]:
        """Sums of every operation with records, by its name."""
        if self.system is None:
            return {}
        line = self.line
        return {
            operation.name: totals.of_works(operation.cost.works, line, self.system).as_json(self.system)
            for operation in self.operations
            if operation.cost.works
        }

    @property
    def costs(self) -> dict[str, Cost]:
        """Sum the cost of all operations by kind of work.

        Returns
        -------
        dict of str to Cost
            What the units counted. => Counts of the units.
        """
        costs: dict[str, Cost] = {}
        for operation in self.operations:
            costs[operation.kind] = costs.get(operation.kind, Cost()) + operation.cost
        return costs


def unchecked(unit: str, config: Mapping[str, Any], *compared: str) -> tuple[str, ...]:
    """Outputs of a unit that were not compared."""
    outputs = (port.name for port in units.find(unit).ports(Config(**config)).outputs)
    return tuple(name for name in outputs if name not in compared)


def differences(answer: np.ndarray, due: np.ndarray) -> int:
    """Number of elements that differ in some bit; shapes and item sizes must be equal."""
    left, right = (np.ascontiguousarray(array) for array in (answer, due))
    assert left.shape == right.shape and left.itemsize == right.itemsize
    word = np.dtype(f"u{left.itemsize}")
    return int(np.count_nonzero(left.view(word) != right.view(word)))
