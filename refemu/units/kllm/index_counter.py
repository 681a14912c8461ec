"""The Index Distribution Counter: how often each index occurs among K positions, sixteen positions a cycle.

Paper: [kllm §IV-B; §III-B2 for "+n"; Table I for the 16 inputs]. An index is decoded to one-hot, bit counters sum the
columns, registers add up the cycles. Decision: D-kllm-13 (a position that is left out is invalid, not index 0).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from operator import add
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType, at, first_index, require_int, require_integers
from refemu.units import index_counter_cases, unit
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit_events, collect, fields, lanes
from refemu.units.unit_cases import Seeds

INPUTS = 16  #: positions a cycle [kllm §IV-B, Table I]
MOST_BITS = 8  #: of an index: two of the Concat unit's 4-bit ports


@dataclass(frozen=True)
class State:
    """Ports and registers after one cycle, and what happened since reset."""

    event: str  #: "reset", "clear" or "count"
    index: int  #: number of the cycle since reset, -1 for the reset
    clear: int
    q: tuple[int, ...]  #: the indices of the cycle
    valid: tuple[int, ...]
    amount: tuple[int, ...]
    one_hot: tuple[int, ...]  #: row of each lane as a word, bit i for index i; 0 where it is not valid
    sums: tuple[int, ...]  #: column sums of the cycle, what the bit counters give
    count: tuple[int, ...]  #: the registers
    indices: int  #: valid lanes so far
    cycles: int
    count_bits: int  #: of the largest count so far


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the counter."""

    count: np.ndarray  #: int64 (..., 2**bits) from `run`; the registers after every cycle from the ports
    indices: int  #: positions counted
    cycles: int
    count_bits: int  #: of the largest count


class IndexCounter(Stepped):
    """The block of [kllm §IV-B]; one event is one cycle of `lanes` positions."""

    name = "index_counter"

    def __init__(self, bits: int = 8, amount_bits: int = 0, counter_bits: int = 16, lanes: int = INPUTS) -> None:
        """bits: of an index, 1 to 8. amount_bits: of "+n", 0 counts 1 each. counter_bits: of a register. lanes: at
        most 16.
        """
        require_int(bits, 1, MOST_BITS, self.name, "bits")
        require_int(amount_bits, 0, 8, self.name, "amount_bits")
        require_int(counter_bits, 1, 62, self.name, "counter_bits")
        require_int(lanes, 1, INPUTS, self.name, "lanes")
        self.bits, self.amount_bits, self.counter_bits, self.lanes = bits, amount_bits, counter_bits, lanes
        config = {"bits": bits, "amount_bits": amount_bits, "counter_bits": counter_bits, "lanes": lanes}
        self.ports = ports(config)
        zeros, none = _lanes([0] * lanes), (0,) * (1 << bits)
        self.state = State("reset", -1, 0, zeros, zeros, zeros, (0,) * lanes, none, none, 0, 0, 0)

    def step(self, clear: Any, q: Any, valid: Any, amount: Any = None) -> State:
        """One cycle; returns the State after it. With `clear` the registers start from 0, then the lanes are counted.

        Refused, and nothing changed: a register that would leave `counter_bits`.
        """
        inputs = (clear, q, valid) if amount is None else (clear, q, valid, amount)
        if len(inputs) != len(self.ports.inputs):
            raise RefusedType(f"{self.name}: step takes amounts if amount_bits is not 0, and only then")
        return self.cycle(*self.accept(*inputs))

    def cycle(self, clear: int, q: Any, valid: Any, amount: Any = 1) -> State:
        """`step` for inputs that are known to lie in the ports' ranges, as Python ints or tuples of them."""
        before, used = self.state, fields(valid)
        amounts = fields(amount) if self.amount_bits else (1,) * self.lanes
        rows, sums = [0] * self.lanes, [0] * (1 << self.bits)
        for lane, (index, counts, n) in enumerate(zip(fields(q), used, amounts, strict=True)):
            if counts:
                rows[lane] = 1 << index
                sums[index] += n
        count = tuple(sums) if clear else tuple(map(add, before.count, sums))
        largest = max(count)
        if largest >> self.counter_bits:
            self._require_fits(count)
        self.state = State(
            "count",
            before.index + 1,
            clear,
            q,
            valid,
            amount if self.amount_bits else lanes(amounts),
            tuple(rows),
            tuple(sums),
            count,
            before.indices + used.count(1),
            before.cycles + 1,
            max(before.count_bits, largest.bit_length()),
        )
        return self.state

    def _require_fits(self, count: tuple[int, ...]) -> None:
        largest = max(count)
        if largest >> self.counter_bits:
            raise Refused(
                f"{self.name}: count {largest} of index {count.index(largest)} does not fit counter_bits="
                f"{self.counter_bits}"
            )

    def clear(self) -> State:
        """Zero the registers, without a cycle of counting; returns the State."""
        none = (0,) * (1 << self.bits)
        before = self.state
        self.state = State(
            "clear",
            before.index,
            1,
            before.q,
            before.valid,
            before.amount,
            (0,) * self.lanes,
            none,
            none,
            before.indices,
            before.cycles,
            before.count_bits,
        )
        return self.state

    def steps(self, clear: Any, q: Any, valid: Any, amount: Any = None) -> Iterator[State]:
        """Yield the State after every cycle of one device; arguments (cycles,) and (cycles, lanes), or broadcast."""
        given = (clear, q, valid) if amount is None else (clear, q, valid, amount)
        arrays = admit_events(self.name, self.ports.inputs, given)
        if arrays[0].ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of cycles, got shape {arrays[0].shape}")
        for event in zip(*(array.tolist() for array in arrays), strict=True):
            yield self.cycle(event[0], *(tuple(x) if isinstance(x, list) else x for x in event[1:]))

    def __repr__(self) -> str:
        return (
            f"IndexCounter(bits={self.bits}, amount_bits={self.amount_bits}, counter_bits={self.counter_bits}, "
            f"lanes={self.lanes})"
        )


def _lanes(values: Any) -> Any:
    return lanes(list(values))


def run(
    index: Any, bits: int, amount: Any = None, *, valid: Any = None, counter_bits: int = 62, amount_bits: int = 8
) -> Result:
    """How often each index occurs along the last axis, or with `amount` the sum of the amounts at each index.

    index: integers (..., K), below 2**bits where valid. amount: integers of that shape, in [0, 2**amount_bits).
    valid: bool, the positions that count; default all. counter_bits: width of a register, 62 hardly has an end.
    Returns the Result, count int64 (..., 2**bits). Refused: an index or amount out of range, a count that does not fit.
    Paper: [kllm §IV-B; §III-B2].
    """
    q, used, amounts = admitted(index, bits, amount, valid, amount_bits)
    counter = IndexCounter(bits, amount_bits if amount is not None else 0, counter_bits)
    shape, k = q.shape[:-1], q.shape[-1]
    count = np.zeros((prod(shape), 1 << bits), np.int64)
    for row, *vectors in zip(range(prod(shape)), *(x.reshape(prod(shape), k) for x in (q, used, amounts)), strict=True):
        counter.clear()
        for low in range(0, k, INPUTS):
            chunks = [tuple(x[low : low + INPUTS].tolist()) for x in vectors[: 2 + (amount is not None)]]
            counter.cycle(0, *(chunk + (0,) * (INPUTS - len(chunk)) for chunk in chunks))
        count[row] = counter.state.count
    last = counter.state
    return Result(count.reshape(*shape, 1 << bits), last.indices, last.cycles, last.count_bits)


def admitted(index: Any, bits: int, amount: Any, valid: Any, amount_bits: int) -> tuple[np.ndarray, ...]:
    """index, valid and amount of one shape, checked: int64 with 0 where not valid, int64 0 or 1, int64."""
    name = IndexCounter.name
    require_int(bits, 1, MOST_BITS, name, "bits")
    require_int(amount_bits, 1, 8, name, "amount_bits")
    q = require_integers(index, f"{name}.index")
    if q.ndim < 1:
        raise RefusedType(f"{name}.index: an axis of positions is needed, got a scalar")
    used = np.ones(q.shape, np.bool_) if valid is None else np.asarray(valid)
    if used.dtype != np.bool_ or used.shape != q.shape:
        raise RefusedType(f"{name}.valid: bool of shape {q.shape} is needed, got {used.dtype} of shape {used.shape}")
    amounts = np.ones(q.shape, np.int64) if amount is None else require_integers(amount, f"{name}.amount")
    if amounts.shape != q.shape:
        raise RefusedType(f"{name}.amount: shape {q.shape} is needed, got {amounts.shape}")
    for what, values, limit in (("index", q, 1 << bits), ("amount", amounts, 1 << amount_bits)):
        bad = used & ((values < 0) | (values >= limit))
        if bad.any():
            where = first_index(bad)
            raise Refused(f"{name}: {what} {int(values[where])}{at(where)} is outside [0, {limit})")
    return np.where(used, q, 0).astype(np.int64), used.astype(np.int64), np.where(used, amounts, 0).astype(np.int64)


def run_ports(
    clear: Any,
    q: Any,
    valid: Any,
    amount: Any = None,
    *,
    bits: int = 8,
    amount_bits: int = 0,
    counter_bits: int = 16,
    lanes: int = INPUTS,
) -> Result:
    """Every cycle of one device or of many: arguments (..., cycles) and (..., cycles, lanes), as for `IndexCounter`.

    clear: 0 or 1. q, valid, amount: one value per lane. bits, amount_bits, counter_bits, lanes: as for IndexCounter.
    Returns the Result: count (..., cycles, 2**bits), the registers after each cycle.
    """
    counter = IndexCounter(bits, amount_bits, counter_bits, lanes)
    given = (clear, q, valid) if amount is None else (clear, q, valid, amount)
    arrays = admit_events(counter.name, counter.ports.inputs, given)
    shape, reset, states = arrays[0].shape, counter.state, list[State]()
    devices, cycles = prod(shape[:-1]), shape[-1]
    counted = count_bits = 0
    for device in range(devices):
        counter.state = reset
        columns = [array.reshape(devices, cycles, -1)[device].tolist() for array in arrays]
        states += [counter.cycle(event[0][0], *map(_lanes, event[1:])) for event in zip(*columns, strict=True)]
        counted, count_bits = counted + counter.state.indices, max(count_bits, counter.state.count_bits)
    return Result(
        **collect(states, counter.ports.outputs, shape), indices=counted, cycles=len(states), count_bits=count_bits
    )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    bits, amount_bits, n = config["bits"], config["amount_bits"], config.get("lanes", INPUTS)
    amount = [Port("amount", amount_bits, n, meaning='what an index counts, "+n"')] if amount_bits else []
    return Ports(
        inputs=(
            Port("clear", 1, meaning="registers start from 0 in this cycle"),
            Port("q", bits, n, meaning="concatenated indices"),
            Port("valid", 1, n, meaning="the lane holds a position that counts"),
            *amount,
        ),
        outputs=(Port("count", config["counter_bits"], 1 << bits, meaning="registers after the cycle"),),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see index_counter_cases.py."""
    return index_counter_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="index_counter",
    paper="kllm §IV-B, Table I",
    meaning="counts of each index, sixteen positions a cycle",
    configs={
        "example": Config(bits=3, amount_bits=0, counter_bits=13),
        "w4a4": Config(bits=8, amount_bits=0, counter_bits=13),
        "integer": Config(bits=4, amount_bits=4, counter_bits=16),
    },
    ports=ports,
    run=run_ports,
    twin="refemu.units.index_counter_jit:run_ports",
    unit_class=IndexCounter,
    timing="event",
    cases=cases,
)
