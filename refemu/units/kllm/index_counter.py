"""The Index Distribution Counter: occurrences of each index among K positions, sixteen positions a cycle.

Paper: [kllm §IV-B; §III-B2 for "+n"; Table I for the 16 inputs]. An index is decoded to one-hot, bit counters sum the
columns, registers add up the cycles. Decision: D-kllm-13 (a position that is left out is invalid, not index 0).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import add, mul
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, at, first_index, require_int, require_integers
from refemu.units import stepped
from refemu.units.kllm.cases import index_counter as index_counter_cases
from refemu.units.ports import Lanes, Port, Ports, fields
from refemu.units.ports import lanes as value_of
from refemu.units.stepped import Clocked
from refemu.units.unit import Config, RunFunction, Unit

__all__ = ["INPUTS", "MOST_BITS", "UNIT", "IndexCounter", "Result", "State", "counts", "run"]


INPUTS = 16  #: Positions a cycle [kllm §IV-B, Table I]
MOST_BITS = 8  #: Largest width of an index: two of the Concat unit's 4-bit ports
ROW_BITS = 6  #: Largest width of an index whose one-hot row is a word of 64 bits


@dataclass(frozen=True)
class State:
    """Ports and registers after one cycle, and what happened since reset."""

    #: "reset": the registers are 0; "clear": they are set to 0, and nothing is counted; "count": every valid lane adds
    #: 1, or its amount, to the register of its index
    event: str
    index: int  #: number of the cycle since reset, from 0; -1 at reset
    clear: int
    q: Lanes  #: the indices of the cycle
    valid: Lanes
    amount: Lanes  #: what each lane adds to the register of its index ("+n"); 1 where it is no input
    one_hot: Lanes  #: row of each lane: a word with the bit of its index set, 0 where the lane is not valid
    sums: tuple[int, ...]  #: what this cycle adds to each register: the column sums of the rows
    hits: Lanes  #: what this cycle adds to the register of each lane's index; 0 where the lane is not valid
    count: tuple[int, ...]  #: the registers
    indices: int  #: valid lanes counted
    cycles: int  #: cycles of counting since reset
    count_bits: int  #: bits that the largest count since reset needs


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(stepped.Result):
    """Counts and totals of a run; what a cycle adds is None from `counts`, and where a configuration shows it not."""

    count: np.ndarray  #: registers after every cycle; from `counts` int64 (..., 2**bits) at the end of a vector
    one_hot: np.ndarray | None = None  #: rows of the lanes
    sums: np.ndarray | None = None  #: column sums
    hits: np.ndarray | None = None  #: column sums at the indices of the lanes
    indices: int  #: positions counted
    cycles: int

    @property
    def count_bits(self) -> int:
        """Bits of the largest count."""
        return int(self.count.max(initial=0)).bit_length()


class IndexCounter(Clocked[State]):
    """Index Distribution Counter: one event is one cycle of `lanes` positions.

    References
    ----------
    [kllm §IV-B]
    """

    name = "index_counter"

    def __init__(self, bits: int = 8, amount_bits: int = 0, counter_bits: int = 16, lanes: int = INPUTS) -> None:
        """Configure the counter.

        Parameters
        ----------
        bits : int
            Width of an index, 1 to 8.
        amount_bits : int
            Width of the amount that "+n" adds, 0 to 8; with 0 every position counts 1.
        counter_bits : int
            Width of a register, 1 to 62.
        lanes : int
            Positions a cycle, 1 to 16.

        Raises
        ------
        Refused
            A parameter is out of range.
        """
        self.bits: int = require_int(bits, 1, MOST_BITS, self.name, "bits")
        self.amount_bits: int = require_int(amount_bits, 0, 8, self.name, "amount_bits")
        self.counter_bits: int = require_int(counter_bits, 1, 62, self.name, "counter_bits")
        self.lanes: int = require_int(lanes, 1, INPUTS, self.name, "lanes")
        config = {"bits": self.bits, "amount_bits": self.amount_bits, "counter_bits": self.counter_bits}
        self.ports: Ports = ports({**config, "lanes": self.lanes})
        none, rows = (0,) * (1 << self.bits), value_of((0,) * self.lanes)
        self.state: State = self.reset(State, amount=rows, one_hot=rows, hits=rows, sums=none)

    def step(
        self,
        clear: int,
        q: Sequence[int] | int,
        valid: Sequence[int] | int,
        amount: Sequence[int] | int | None = None,
    ) -> State:
        """Count the positions of one cycle; with `clear` the registers start from 0.

        A port of one lane takes an int. `amount` is given if `amount_bits` is not 0, and only then. A register that
        would leave `counter_bits` is refused, and nothing changes.
        """
        amounts = {} if amount is None else {"amount": amount}
        return self._open(*self.accept(clear, q, valid, **amounts))

    def _open(self, *inputs: Any) -> State:
        return self.cycle(*inputs)

    def cycle(self, clear: int, q: Lanes, valid: Lanes, amount: Lanes = 1) -> State:
        """Count one cycle without checking inputs.

        Parameters
        ----------
        clear : int
            1 to start from 0.
        q : int or tuple of int
            Indices below 2**bits, one per lane.
        valid : int or tuple of int
            1 where the lane counts (D-kllm-13).
        amount : int or tuple of int
            Amounts below 2**amount_bits; ignored if `amount_bits` is 0.

        Returns
        -------
        State
            Registers after the cycle.

        Raises
        ------
        Refused
            A count does not fit `counter_bits`; nothing changes.
        """
        before, used = self.state, fields(valid)
        amounts = fields(amount) if self.amount_bits else (1,) * self.lanes
        rows, sums, indices = [0] * self.lanes, [0] * (1 << self.bits), fields(q)
        for lane, (index, counts, n) in enumerate(zip(indices, used, amounts, strict=True)):
            if counts:
                rows[lane] = 1 << index
                sums[index] += n
        count = tuple(sums) if clear else tuple(map(add, before.count, sums))
        largest = max(count)
        if largest >> self.counter_bits:
            self._require_fits(count)
        self.state = self.changed(
            event="count",
            index=before.index + 1,
            clear=clear,
            q=q,
            valid=valid,
            amount=amount if self.amount_bits else value_of(amounts),
            one_hot=value_of(rows),
            sums=tuple(sums),
            hits=value_of(tuple(map(mul, used, map(sums.__getitem__, indices)))),
            count=count,
            indices=before.indices + used.count(1),
            cycles=before.cycles + 1,
            count_bits=max(before.count_bits, largest.bit_length()),
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
        """Zero the registers without a cycle of counting.

        Returns
        -------
        State
            Registers after the reset; the counters go on.
        """
        none, rows = (0,) * (1 << self.bits), value_of((0,) * self.lanes)
        self.state = replace(self.state, event="clear", clear=1, one_hot=rows, sums=none, hits=rows, count=none)
        return self.state


def counts(
    index: ArrayLike,
    bits: int,
    amount: ArrayLike | None = None,
    *,
    valid: ArrayLike | None = None,
    counter_bits: int = 62,
    amount_bits: int = 8,
) -> Result:
    """Count each index along the last axis, or with `amount` add up the amounts at each index.

    Parameters
    ----------
    index : array_like of integers (..., K)
        Below 2**bits where valid.
    bits : int
        Width of an index, 1 to 8.
    amount : array_like of integers, shape of `index`, optional
        Below 2**amount_bits.
    valid : array_like of bool, shape of `index`, optional
        Positions that count; all by default.
    counter_bits : int
        Width of a register, 1 to 62.
    amount_bits : int
        Width of an amount, 1 to 8.

    Returns
    -------
    Result
        `count` int64 (..., 2**bits), and the counters.

    Raises
    ------
    Refused
        An index or amount is out of range, or a count does not fit.
    RefusedType
        A dtype or shape is wrong.

    References
    ----------
    [kllm §IV-B, §III-B2]
    """
    q, used, amounts = require_input(index, bits, amount, valid, amount_bits)
    counter = IndexCounter(bits, amount_bits if amount is not None else 0, counter_bits)
    shape, k = q.shape[:-1], q.shape[-1]
    count = np.zeros((prod(shape), 1 << bits), np.int64)
    for row, *vectors in zip(range(prod(shape)), *(x.reshape(prod(shape), k) for x in (q, used, amounts)), strict=True):
        counter.clear()
        for low in range(0, k, INPUTS):
            chunks = [tuple(x[low : low + INPUTS].tolist()) for x in vectors[: 2 + (amount is not None)]]
            counter.cycle(0, *(chunk + (0,) * (INPUTS - len(chunk)) for chunk in chunks))
        count[row] = counter.state.count
    after = counter.state
    return Result(count=count.reshape(*shape, 1 << bits), indices=after.indices, cycles=after.cycles)


def require_input(
    index: ArrayLike, bits: int, amount: ArrayLike | None, valid: ArrayLike | None, amount_bits: int
) -> tuple[np.ndarray, ...]:
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
            place = first_index(bad)
            raise Refused(f"{name}: {what} {int(values[place])}{at(place)} is outside [0, {limit})")
    return np.where(used, q, 0).astype(np.int64), used.astype(np.int64), np.where(used, amounts, 0).astype(np.int64)


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
        state=_registers(bits, (n * max(1, (1 << amount_bits) - 1)).bit_length(), n),
    )


def _registers(bits: int, width: int, n: int) -> tuple[Port, ...]:
    """What a cycle adds; width: of a column sum. Of many columns, only those that one of the n lanes is in."""
    if bits > ROW_BITS:
        return (Port("hits", width, n, meaning="column sum at the index of each valid lane; all others are 0"),)
    return (
        Port("one_hot", 1 << bits, n, meaning="row of each lane, bit i for index i; 0 where it is not valid"),
        Port("sums", width, 1 << bits, meaning="column sums of the cycle"),
    )


UNIT: Unit[State, Result] = Unit(
    name="index_counter",
    paper="kllm §IV-B, Table I",
    meaning="counts of each index, sixteen positions a cycle",
    configs={
        "example": Config(bits=3, amount_bits=0, counter_bits=13),
        "w4a4": Config(bits=8, amount_bits=0, counter_bits=13),
        "integer": Config(bits=4, amount_bits=4, counter_bits=16),
    },
    ports=ports,
    unit_class=IndexCounter,
    cases=index_counter_cases.cases,
    counters=("indices", "cycles"),
    result=Result,
)
run: RunFunction[Result] = UNIT.run
