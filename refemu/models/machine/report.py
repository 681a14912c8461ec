"""Record of a machine's work on one block: an entry for each operation, and the reasons of those it does not do."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from refemu import units
from refemu.units.unit import Config


@dataclass(frozen=True)
class Cost:
    """What some work costs; counts of zero may be left out of `macs` and `words`."""

    macs: Mapping[str, int] = field(default_factory=dict)  #: by mode: operand types, or part of the datapath
    index_operations: int = 0  #: positions whose indices are counted or concatenated
    comparisons: int = 0
    conversions: int = 0  #: values that get another format
    words: Mapping[str, int] = field(default_factory=dict)  #: moved: "weights", "activations", "kv"
    cycles: int = 0  #: of the machine; 0 where the paper gives none

    def __add__(self, other: "Cost") -> "Cost":
        """The cost of both, one after the other."""
        return Cost(
            _joined(self.macs, other.macs),
            self.index_operations + other.index_operations,
            self.comparisons + other.comparisons,
            self.conversions + other.conversions,
            _joined(self.words, other.words),
            self.cycles + other.cycles,
        )


def _joined(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


@dataclass(frozen=True)
class Operation:
    """One operation of a block at the ports of a unit."""

    name: str  #: "blk.0.q", "blk.0.attn_in"
    unit: str  #: unit whose ports carried it
    parameters: Mapping[str, Any]  #: configuration of the unit
    shape: tuple[int, ...]  #: of a product: rows, columns, length of the sums; else of the tensor
    elements: int  #: results that were compared
    differing: int  #: results that differ from the scheme's; 0 is due
    cycles: int  #: clock cycles; 0 where the paper gives the unit no timing
    use: Mapping[str, float] = field(default_factory=dict)  #: part -> share of its cycles in which it worked, 0 to 1
    words: Mapping[str, int] = field(default_factory=dict)  #: port or buffer -> words moved
    kind: str = ""  #: of work, as in `Cost` tables: "quantize", "linear", ...
    cost: Cost = field(default_factory=Cost)  #: what the unit counted
    counts: Mapping[str, int] = field(default_factory=dict)  #: what became of the data: tokens by precision, choices
    unchecked: tuple[str, ...] = ()  #: outputs of the unit that were not compared: the scheme has no such values


@dataclass(frozen=True)
class Absent:
    """An operation that the scheme does not give to the machine."""

    name: str
    reason: str  #: with the id of the decision


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a part of the block."""

    part: str  #: one of `runner.PARTS`
    inputs: tuple[Any, ...]  #: arguments between the layer and the watch
    output: Any


#: accelerator(prepared, layer, calls) -> operations, and what the scheme keeps to itself
Accelerator: TypeAlias = Callable[[Any, int, Sequence[Call]], tuple[list[Operation], list[Absent]]]
Costs: TypeAlias = Callable[[Any, int, Call], Iterable[tuple[str, Cost]]]  #: costs(prepared, layer, call) -> by kind


@dataclass(frozen=True)
class Report:
    """A machine's work on one block."""

    model: str
    scheme: str
    layer: int
    phase: str  #: "prompt" or "decode"
    tokens: int  #: of the prompt; the decode step is that of the token behind them
    prepare_seconds: float
    operations: tuple[Operation, ...]
    not_on_the_machine: tuple[Absent, ...]

    @property
    def differing(self) -> int:
        """Elements of all operations that differ from the scheme.

        Returns
        -------
        int
            0 where machine and scheme agree.
        """
        return sum(int(operation.differing) for operation in self.operations)

    def as_json(self) -> dict[str, Any]:
        """Plain lists, dictionaries and numbers.

        Returns
        -------
        dict
            Fields by name.
        """
        plain: dict[str, Any] = dataclasses.asdict(self)
        for operation in plain["operations"]:
            del operation["kind"], operation["cost"]
        return plain

    @property
    def costs(self) -> dict[str, Cost]:
        """Cost by kind of work, of all operations.

        Returns
        -------
        dict of str to Cost
            What the units counted.
        """
        costs: dict[str, Cost] = {}
        for operation in self.operations:
            costs[operation.kind] = costs.get(operation.kind, Cost()) + operation.cost
        return costs


def unchecked(unit: str, config: Mapping[str, Any], *compared: str) -> tuple[str, ...]:
    """Outputs at a unit's ports but those that were compared."""
    outputs = (port.name for port in units.find(unit).ports(Config(**config)).outputs)
    return tuple(name for name in outputs if name not in compared)


def differences(answer: np.ndarray, due: np.ndarray) -> int:
    """Number of elements that differ in some bit; shapes and item sizes must be equal."""
    left, right = (np.ascontiguousarray(array) for array in (answer, due))
    assert left.shape == right.shape and left.itemsize == right.itemsize
    word = np.dtype(f"u{left.itemsize}")
    return int(np.count_nonzero(left.view(word) != right.view(word)))
