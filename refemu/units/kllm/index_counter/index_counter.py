"""The Index Distribution Counter: occurrences of each index among K positions, sixteen positions a cycle.

Paper: [kllm §IV-B; §III-B2 for "+n"; Table I for the 16 inputs]. An index is decoded to one-hot, bit counters sum the
columns, registers sum the cycles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import lshift, mul
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, reject, require_int, require_integers
from refemu.units import Changes, Config, Port, Ports, RunFunction, Sequential, Unit, constant, decides, stepping
from refemu.units.declaration import DeclaredState
from refemu.units.ports import Lanes

__all__ = ["INPUTS", "MOST_BITS", "UNIT", "IndexCounter", "Result", "State", "counts", "run"]

INPUTS = 16  #: Positions a cycle [kllm §IV-B, Table I]
MOST_BITS = 8  #: Largest width of an index: two of the Concat unit's 4-bit ports
ROW_BITS = 6  #: Largest width of an index whose one-hot row is a word of 64 bits


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(stepping.Result):
    """Counts and totals of a run; what a cycle adds is None from `counts`, and without such ports."""

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


class IndexCounter(Sequential):
    """Index Distribution Counter: one event is one cycle of `lanes` positions."""

    name = "index_counter"
    events: ClassVar[tuple[str, ...]] = ("count", "clear")
    counters: ClassVar[dict[str, str]] = {"indices": "valid lanes counted", "cycles": "cycles of counting since reset"}
    registers: ClassVar[dict[str, str]] = {"count_bits": "bits that the largest count since reset needs"}
    bits: Annotated[int, 1, MOST_BITS] = 8  #: width of an index, 1 to 8
    amount_bits: Annotated[int, 0, 8] = 0  #: width of the amount that "+n" adds, 0 to 8; with 0 every position counts 1
    counter_bits: Annotated[int, 1, 62] = 16  #: width of a register, 1 to 62
    lanes: Annotated[int, 1, INPUTS] = INPUTS  #: positions a cycle, 1 to 16

    @constant
    def ports(self) -> Ports:
        n, amount = self.lanes, []
        if self.amount_bits:
            amount.append(Port("amount", self.amount_bits, n, meaning='what an index counts, "+n"'))
        return Ports(
            inputs=(
                Port("clear", 1, meaning="registers start from 0 in this cycle"),
                Port("q", self.bits, n, meaning="concatenated indices"),
                Port("valid", 1, n, meaning="the lane holds a position that counts"),
                *amount,
            ),
            outputs=(Port("count", self.counter_bits, 1 << self.bits, meaning="registers after the cycle"),),
            state=self._added_in_a_cycle(),
        )

    def _added_in_a_cycle(self) -> tuple[Port, ...]:
        """Ports of what a cycle adds: with more than 64 columns only those of the lanes."""
        n, width = self.lanes, (self.lanes * max(1, (1 << self.amount_bits) - 1)).bit_length()  # bits of a column sum
        if self.bits > ROW_BITS:
            return (Port("hits", width, n, meaning="column sum at the index of each valid lane; all others are 0"),)
        return (
            Port("one_hot", 1 << self.bits, n, meaning="row of each lane, bit i for index i; 0 where it is not valid"),
            Port("sums", width, 1 << self.bits, meaning="column sums of the cycle"),
        )

    @constant
    def initial(self) -> Mapping[str, Any]:
        """Values of optional ports, present in every configuration."""
        none = (0,) * self.lanes
        return {"amount": none, "one_hot": none, "hits": none, "sums": (0,) * (1 << self.bits)}

    @constant
    def _ones(self) -> Lanes:
        return (1,) * self.lanes

    def cycle(self, clear: int, q: Lanes, valid: Lanes, *amount: Lanes) -> DeclaredState:
        """Run a cycle with inputs already checked, for units that contain this one."""
        return self._open(clear, q, valid, *amount)

    @decides("D-kllm-13")
    def count(self, clear: int, q: Lanes, valid: Lanes, amount: Lanes = ()) -> Changes:
        """Every valid lane adds 1, or its amount, to the register of its index."""
        before = self.state
        weights = map(mul, valid, amount) if self.amount_bits else valid
        sums = [0] * (1 << self.bits)
        count = list(sums if clear else before.count)
        for index, weight in zip(q, weights, strict=True):
            sums[index] += weight
            count[index] += weight
        largest = max(map(count.__getitem__, q))  # no other register grows
        if largest >> self.counter_bits:
            self._require_fits(count)
        return {
            "amount": amount if self.amount_bits else self._ones,
            "one_hot": tuple(map(lshift, valid, q)),
            "sums": tuple(sums),
            "hits": tuple(map(mul, valid, map(sums.__getitem__, q))),
            "count": tuple(count),
            "count_bits": max(before.count_bits, largest.bit_length()),
            "indices": valid.count(1),
            "cycles": 1,
        }

    def _require_fits(self, count: Sequence[int]) -> None:
        largest = max(count)
        if largest >> self.counter_bits:
            raise Refused(
                f"{self.name}: count {largest} of index {count.index(largest)} does not fit counter_bits="
                f"{self.counter_bits}"
            )

    def clear(self) -> DeclaredState:
        """Set the registers to 0 and count nothing; the counters are unchanged."""
        none = {**self.initial, "amount": self.state.amount, "count": self.initial["sums"]}
        return self._commit("clear", (), {**none, "clear": 1})


def counts(
    index: ArrayLike,
    bits: int,
    amount: ArrayLike | None = None,
    *,
    valid: ArrayLike | None = None,
    counter_bits: int = 62,
    amount_bits: int = 8,
) -> Result:
    """Count each index along the last axis, or with `amount` sum the amounts at each index. [kllm §IV-B, §III-B2]

    index: integers (..., K), below 2**bits where valid. amount: of the shape of `index`, below 2**amount_bits. valid:
    bool of that shape, positions that count; all by default. The widths are those of `IndexCounter`. The Result has
    `count` int64 (..., 2**bits). Raises Refused for an index or amount out of range or a count that does not fit,
    RefusedType for a wrong dtype or shape.
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
        raise RefusedType(f"{name}.index: must have an axis of positions, got a scalar")
    used = np.ones(q.shape, np.bool_) if valid is None else np.asarray(valid)
    if used.dtype != np.bool_ or used.shape != q.shape:
        raise RefusedType(f"{name}.valid: must be bool of shape {q.shape}, got {used.dtype} of shape {used.shape}")
    amounts = np.ones(q.shape, np.int64) if amount is None else require_integers(amount, f"{name}.amount")
    if amounts.shape != q.shape:
        raise RefusedType(f"{name}.amount: must have shape {q.shape}, got {amounts.shape}")
    for what, values, limit in (("index", q, 1 << bits), ("amount", amounts, 1 << amount_bits)):
        reject(used & ((values < 0) | (values >= limit)), f"{name}: {what} must be in [0, {limit})", values)
    return np.where(used, q, 0).astype(np.int64), used.astype(np.int64), np.where(used, amounts, 0).astype(np.int64)


UNIT: Unit[DeclaredState, Result] = Unit(
    unit_class=IndexCounter,
    paper="kllm §IV-B, Table I",
    meaning="counts of each index, sixteen positions a cycle",
    configs={
        "example": Config(bits=3, amount_bits=0, counter_bits=13),
        "w4a4": Config(bits=8, amount_bits=0, counter_bits=13),
        "integer": Config(bits=4, amount_bits=4, counter_bits=16),
    },
    result=Result,
)
State: type[DeclaredState] = IndexCounter.State
run: RunFunction[Result] = UNIT.run
