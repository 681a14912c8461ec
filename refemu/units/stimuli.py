"""Stimuli for golden cases: seeded random port values, columns of one length, sequences of events.

A module `cases.py` cites the sections of its unit: [olive §4.2]. It has stimuli only; outputs come from the unit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, prng
from refemu.units import Config, find
from refemu.units.ports import Port

__all__ = ["Block", "Blocks", "Seeds", "columns", "port_values", "random_inputs", "sequences", "validated", "words"]

Seeds: TypeAlias = int | range  #: one seed, or consecutive ones
Inputs: TypeAlias = Mapping[str, np.ndarray]  #: arrays by input port
#: golden cases with one reason: why, inputs, and the decision that the outputs follow, if any
Block: TypeAlias = tuple[str, Inputs, *tuple[str, ...]]
Blocks: TypeAlias = Iterator[Block]  #: golden cases of one kind


def words(label: str, seed: Seeds, count: int, after: int = 0) -> np.ndarray:
    """Draw the first `count` words of the sequence of a label, for every seed: uint64 (seeds, count).

    after: added to every seed.
    """
    return prng.words_of([prng.stream(label, number + after) for number in each(seed)], 0, count)


def tokens(label: str, seed: Seeds, shape: tuple[int, int], mask: int = 0x9FFF, after: int = 0) -> np.ndarray:
    """Draw finite fp16 words, (seeds, tokens, channels); without a `mask`, their exponents are within 8 of each other.

    mask: bits that are drawn; after: as for `words`.
    """
    drawn = (words(label, seed, prod(shape), after) >> np.uint64(48)).astype(np.int64)
    return finite(drawn.reshape(-1, *shape) & mask | (0x2000 if mask != 0xFFFF else 0))


def port_values(
    unit: str, port: Port, shape: tuple[int, ...], seed: Seeds, kind: str = "random", first: int = 0
) -> np.ndarray:
    """Draw uniform values of a port, int64 with lanes last, one sequence per unit, kind, port and seed.

    Words of an fp16 port are finite; values are within the port's limits. shape: of the values of one seed, without
    lanes; a range of seeds concatenates along the first axis. first: rows of the sequence to skip. Raises Refused for a
    seed out of range.
    """
    full = (*shape, *port.shape)
    streams = [prng.stream(f"{unit}/{kind}/{port.name}", number) for number in each(seed)]
    words = prng.words_of(streams, first * prod(full[1:]), prod(full))
    top = words.view(np.int64) if port.signed else words
    top >>= top.dtype.type(64 - port.bits)  # an arithmetic shift if the port is signed
    values = validated(port, top.view(np.int64))
    return values.reshape(len(streams) * full[0], *full[1:]) if isinstance(seed, range) else values.reshape(full)


def validated(port: Port, values: np.ndarray) -> np.ndarray:
    """Map int64 `values` of a port's bits to its limits, and fp16 patterns to finite ones; others are unchanged."""
    if port.kind == "f16":
        values = finite(values)
    low, high = port.limits
    if not values.size or (low <= int(values.min()) and int(values.max()) <= high):
        return values
    outside = (values < low) | (values > high)
    return np.where(outside, low + np.abs(values - low) % (high - low + 1), values)


def finite(words: np.ndarray) -> np.ndarray:
    """Replace infinities and NaN among fp16 words by finite ones."""
    return np.where(words & 0x7C00 == 0x7C00, words ^ 0x4000, words).astype(words.dtype)


def patterns16(values: ArrayLike) -> np.ndarray:
    """fp16 patterns of values, int64."""
    return fp16.bits(fp16.to_f16(np.asarray(values))).astype(np.int64)


def patterns32(values: ArrayLike) -> np.ndarray:
    """float32 patterns of values, int64."""
    return np.asarray(values, np.float32).view(np.uint32).astype(np.int64)


def random_inputs(unit: str, ports: Sequence[Port], shape: tuple[int, ...], seed: Seeds) -> dict[str, np.ndarray]:
    """Draw uniform values of every port, as `port_values` does; shape: without lanes, for one seed."""
    return {port.name: port_values(unit, port, shape, seed) for port in ports}


def uniform(unit: str, config: Mapping[str, Any], shape: tuple[int, ...], seed: Seeds) -> dict[str, np.ndarray]:
    """Draw uniform values of every input port of a unit, as `random_inputs` does."""
    return random_inputs(unit, find(unit).ports(Config(**config)).inputs, shape, seed)


def filled(unit: str, config: Mapping[str, Any], rows: int, **words: Any) -> dict[str, np.ndarray]:
    """Rows of every input port: `words` of those that the unit has, 0 at the others.

    words: that of all rows and lanes, or an array of rows or (rows, lanes).
    """
    inputs = {}
    for port in find(unit).ports(Config(**config)).inputs:
        word = words.get(port.name, 0)
        word = word if port.shape or not np.ndim(word) else np.ravel(word)
        inputs[port.name] = np.full((rows, *port.shape), word, np.int64)
    return inputs


def first_of_each(inputs: Mapping[str, np.ndarray], rows: int, few: int) -> dict[str, np.ndarray]:
    """The first `few` of every `rows` rows, those of one seed."""
    return {name: array[np.arange(len(array)) % rows < few] for name, array in inputs.items()}


def columns(**values: ArrayLike) -> dict[str, np.ndarray]:
    """Make arrays of one length from sequences and scalars: `columns(pair=[1, 2], bias=3)`."""
    arrays = {port: np.asarray(value) for port, value in values.items()}
    length = max(array.shape[0] for array in arrays.values() if array.ndim)
    return {port: array if array.ndim else np.full(length, array) for port, array in arrays.items()}


def crossed(**values: ArrayLike) -> dict[str, np.ndarray]:
    """Make arrays of all combinations of values, those of the last port in turn first."""
    return dict(zip(values, map(np.ravel, np.meshgrid(*values.values(), indexing="ij")), strict=True))


def repeated(rows: Iterable[ArrayLike], count: int) -> np.ndarray:
    """Rows of `count` values, each of a sequence that is repeated or cut off."""
    return np.array([np.resize(row, count) for row in rows])


def each(seed: Seeds) -> Sequence[int]:
    """The seeds."""
    return seed if isinstance(seed, range) else (seed,)


def sequences(names: Sequence[str], events: ArrayLike) -> dict[str, np.ndarray]:
    """Make inputs of cases that are sequences of events, int64 (cases, events).

    events: cases of equal length; an event has one value per name.
    """
    table = np.array(events, np.int64)
    return {name: table[:, :, column] for column, name in enumerate(names)}


#: rows of a case of a cycle-accurate unit: `start`, and the operation whose operands are on the ports
Edges: TypeAlias = Sequence[tuple[int, int]]


def joined(blocks: Iterable[Mapping[str, np.ndarray]], few: int | None = None) -> dict[str, np.ndarray]:
    """The first `few` rows of every block, or all, one after the other."""
    parts = list(blocks)
    return {name: np.concatenate([part[name][:few] for part in parts]) for name in parts[0]}


def edges(operations: Mapping[str, np.ndarray], cases: Sequence[Edges]) -> dict[str, np.ndarray]:
    """Inputs of a cycle-accurate unit; `cases` have one length, and each row has one of `operations`."""
    table = np.array(cases, np.int64)
    return {"start": table[..., 0]} | {name: array[table[..., 1]] for name, array in operations.items()}


def side_by_side(cases: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Inputs of several cases of equal length."""
    return {name: np.stack([each[name] for each in cases]) for name in cases[0]}


def in_turn(numbers: Sequence[int], events: int, gap: int = 0) -> list[tuple[int, int]]:
    """Operations in turn; idle rows have the operands of later operations, from the second next on.

    events: number of events of an operation. gap: idle rows between two operations.
    """
    rows: list[tuple[int, int]] = []
    for place, number in enumerate(numbers):
        others = [numbers[(place + row) % len(numbers)] for row in range(2, events + gap + 1)]
        rows += [(1, number), *((0, other) for other in others)]
    return rows[: len(rows) - gap]


def streamed(
    label: str, seed: Seeds, operations: Mapping[str, np.ndarray], rows: int, rare: int = 1
) -> dict[str, np.ndarray]:
    """Different operands in each of the `rows` rows of a case, one case per seed; `start` is drawn.

    operations: those of every seed in turn, equally many, repeated for further rows. rare: `start` is 1 in one row of
    2**rare.
    """
    drawn = words(label, seed, rows) >> np.uint64(64 - rare)
    few = len(next(iter(operations.values()))) // len(drawn)
    operation = np.arange(rows) % few + few * np.arange(len(drawn))[:, None]
    return {"start": (drawn == 0).astype(np.int64)} | {name: array[operation] for name, array in operations.items()}
