"""Running sums of page counts by a network: what tells every head its own region of the list of free pages.

Paper: [leankv §5.2]. Decision: D-leankv-39 (the network of Hillis and Steele).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, require_int
from refemu.units import prefix_sum_cases, unit
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit, collect, fields, lanes
from refemu.units.unit_cases import Seeds

BITS = 32  #: of an adder; sums wrap
COUNTERS = ("levels", "adds")


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset", "load" or "level"
    index: int  #: number of the operation, -1 for the reset
    counts: Any  #: an int where there is one element, as every port of one lane
    base: int
    inclusive: Any  #: partial sums while an operation is on its way
    level: int  #: levels of this operation done
    levels: int  #: of all operations
    adds: int


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """One row of sums per operation."""

    inclusive: np.ndarray  #: (..., elements) uint32
    levels: int
    adds: int


@dataclass(frozen=True)
class Scan:
    """Sums of one operation and what it took."""

    inclusive: tuple[int, ...]
    levels: int
    adds: int


def depth(elements: int) -> int:
    """Levels of the network: ceil(log2 elements)."""
    return max(elements - 1, 0).bit_length()


def add_level(values: Sequence[int], level: int) -> tuple[list[int], int]:
    """One level: to every element the one 2**level before it, all at once (D-leankv-39). Also the additions made."""
    reach = 1 << level
    summed = [(value + values[i - reach]) % (1 << BITS) if i >= reach else value for i, value in enumerate(values)]
    return summed, max(len(values) - reach, 0)


def scan(counts: Sequence[int], base: int = 0) -> Scan:
    """Inclusive sums of any number of counts. The base stands where element 0 is loaded, so no level adds it."""
    values, adds = list(counts), 0
    if values:
        values[0] = (values[0] + base) % (1 << BITS)
    for level in range(depth(len(values))):
        values, made = add_level(values, level)
        adds += made
    return Scan(tuple(values), depth(len(values)), adds)


class PrefixSum(Stepped):
    """The network. An operation is `load`, then as many times `level` as the number of elements has bits."""

    name = "prefix_sum"

    def __init__(self, elements: int = 8) -> None:
        """elements: m, counts of one operation."""
        require_int(elements, 1, 1 << 16, self.name, "elements")
        self.elements = elements
        self.ports = ports({"elements": elements})
        zeros = lanes((0,) * elements)
        self.state = State("reset", -1, zeros, 0, zeros, 0, 0, 0)

    @property
    def busy(self) -> bool:
        """Whether levels are left."""
        return self.state.event != "reset" and self.state.level < depth(self.elements)

    def step(self, *inputs: Any) -> State:
        """With (counts, base): load them. Without: the next level. Refused: the one where the other is due."""
        if bool(inputs) == self.busy:
            raise Refused(f"{self.name}: step takes {'no inputs' if self.busy else 'the inputs of an operation'} now")
        before = self.state
        if inputs:
            counts, base = self.accept(*inputs)
            first, *others = fields(counts)
            loaded = lanes(((first + base) % (1 << BITS), *others))
            self.state = replace(
                before, event="load", index=before.index + 1, counts=counts, base=base, inclusive=loaded, level=0
            )
            return self.state
        values, adds = add_level(fields(before.inclusive), before.level)
        self.state = replace(
            before,
            event="level",
            inclusive=lanes(tuple(values)),
            level=before.level + 1,
            levels=before.levels + 1,
            adds=before.adds + adds,
        )
        return self.state

    def steps(self, counts: Any, base: Any) -> Iterator[State]:
        """Yield the State after every event of every operation, in C order; arguments broadcast beside the lanes."""
        yield from self.operations(admit(self.name, self.ports.inputs, (counts, base)))

    def __repr__(self) -> str:
        return f"PrefixSum(elements={self.elements})"


def run(counts: Any, base: Any, *, elements: int = 8) -> Result:
    """Inclusive sums, modulo 2**32, of rows of counts.

    counts: (..., elements). base: (...), added to every sum of its row: the place in the ring where the first region
    begins. Region k is [sum k - 1, sum k), the first one [base, sum 0). Returns the Result, arrays (..., elements).
    Refuses what is not an unsigned integer of 32 bits. Paper: [leankv §5.2].
    """
    device = PrefixSum(elements)
    arrays = admit(device.name, device.ports.inputs, (counts, base))
    states = list[State]()
    for state in device.steps(*arrays):
        if not device.busy:
            states.append(state)
    return Result(
        **collect(states, device.ports.outputs, arrays[1].shape),
        **{name: getattr(device.state, name) for name in COUNTERS},
    )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    elements = config["elements"]
    return Ports(
        inputs=(
            Port("counts", BITS, elements, meaning="pages of every head"),
            Port("base", BITS, meaning="place in the ring where the first region begins"),
        ),
        outputs=(Port("inclusive", BITS, elements, meaning="where the region of every head ends"),),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see prefix_sum_cases.py."""
    return prefix_sum_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="prefix_sum",
    paper="leankv §5.2",
    meaning="running sums of page counts, level by level",
    configs={"paper": Config(elements=8), "odd": Config(elements=13)},
    ports=ports,
    run=run,
    twin="refemu.units.prefix_sum_jit:run",
    unit_class=PrefixSum,
    cases=cases,
)
