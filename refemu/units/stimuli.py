"""Golden cases, the parts that every unit needs: seeded random port values, and columns of one length.

A module `<unit>_cases.py` holds the cases of a unit whose own module would grow too long with them; its citations, such
as [olive §4.2], are those of the unit.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from refemu.arith import prng
from refemu.units.unit import Port

Seeds: TypeAlias = int | range  #: one seed, or consecutive ones


def words(label: str, seed: Seeds, count: int, after: int = 0) -> np.ndarray:
    """The first `count` words of the sequence named `label` of every seed, each with `after` added: (seeds, count)."""
    seeds = seed if isinstance(seed, range) else (seed,)
    return prng.words_of([prng.stream(label, one + after) for one in seeds], 0, count)


def random(
    unit: str, port: Port, shape: tuple[int, ...], seed: Seeds, kind: str = "random", first: int = 0
) -> np.ndarray:
    """Uniform values of `port`, one sequence per unit, kind, port and seed: int64 of `shape` (and lanes).

    Words of an fp16 port are finite; a port with limits of its own gets values between them. A range of seeds: what
    each of them draws, one after the other along the first axis. first: rows that are left out before `shape`.
    """
    full = (*shape, port.lanes) if port.lanes > 1 else shape
    seeds = seed if isinstance(seed, range) else (seed,)
    streams = [prng.stream(f"{unit}/{kind}/{port.name}", one) for one in seeds]
    words = prng.words_of(streams, first * prod(full[1:]), prod(full))
    drawn = words.view(np.int64) if port.signed else words
    drawn >>= drawn.dtype.type(64 - port.bits)  # of a signed port with its sign
    values = admitted(port, drawn.view(np.int64))
    return values.reshape(len(seeds) * full[0], *full[1:]) if isinstance(seed, range) else values.reshape(full)


def admitted(port: Port, values: np.ndarray) -> np.ndarray:
    """int64 `values` of the port's bits as ones between its limits, and finite for fp16; most stay as they are."""
    if port.kind == "f16":
        values = np.where(values & 0x7C00 == 0x7C00, values ^ 0x4000, values)
    low, high = port.limits
    if not values.size or (low <= int(values.min()) and int(values.max()) <= high):
        return values
    outside = (values < low) | (values > high)
    return np.where(outside, low + np.abs(values - low) % (high - low + 1), values)


def random_inputs(unit: str, ports: Sequence[Port], shape: tuple[int, ...], seed: Seeds) -> dict[str, np.ndarray]:
    """`random` for every port, by name."""
    return {port.name: random(unit, port, shape, seed) for port in ports}


def first_of_each(inputs: Mapping[str, np.ndarray], rows: int, few: int) -> dict[str, np.ndarray]:
    """The `few` first of every `rows` rows, which are what a seed drew."""
    return {
        name: np.concatenate([array[low : low + few] for low in range(0, len(array), rows)])
        for name, array in inputs.items()
    }


def columns(**values: Any) -> dict[str, np.ndarray]:
    """Port values given as sequences and scalars, as arrays of one length: `columns(pair=[1, 2], bias=3)`."""
    arrays = {port: np.asarray(value) for port, value in values.items()}
    length = max(array.shape[0] for array in arrays.values() if array.ndim)
    return {port: array if array.ndim else np.full(length, array) for port, array in arrays.items()}


def sequences(names: Sequence[str], events: Sequence[Sequence[Sequence[int]]]) -> Mapping[str, np.ndarray]:
    """Inputs of cases that are sequences of events, all equally long; an event holds one value per name."""
    table = np.array(events, np.int64)
    return {name: table[:, :, column] for column, name in enumerate(names)}
