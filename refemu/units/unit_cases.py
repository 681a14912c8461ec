"""Golden cases, the parts that every unit needs: random port values, and a first row that cannot pass by accident.

Citations stand in the units: `[olive §4.2]` and so on.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from refemu.arith import integers, prng
from refemu.arith.checks import Refused
from refemu.units.unit import Cases, Config, Port, Unit


def random(unit: str, port: Port, shape: tuple[int, ...], seed: int, kind: str = "random") -> np.ndarray:
    """Uniform values of `port`, one sequence per unit, kind, port and seed: `shape` (and lanes), int64 in the range."""
    full = (*shape, port.lanes) if port.lanes > 1 else shape
    words = prng.words(prng.stream(f"{unit}/{kind}/{port.name}", seed), 0, int(np.prod(full, dtype=np.int64)))
    low_bits = (words >> np.uint64(64 - port.bits)).astype(np.int64)
    return (integers.wrap(low_bits, port.bits, True) if port.signed else low_bits).reshape(full)


def same_length(cases: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Port values given as lists and scalars, stretched to arrays of one length."""
    arrays = {port: np.asarray(values) for port, values in cases.items()}
    length = max(array.shape[0] for array in arrays.values() if array.ndim)
    return {port: array if array.ndim else np.full(length, array) for port, array in arrays.items()}


def lead(unit: Unit, config: Config, cases: Cases) -> Cases:
    """`cases` rotated so that row 0 has a stimulus that is not zero and an answer that an absent device would not give.

    A two-state simulator that loaded nothing sees zeros in and zeros expected, and passes. Here the answer to row 0 is
    neither zero nor what an all-zero stimulus gives, at as many ports as any row among the first 4,096 cases offers;
    refused if none does at any port.
    """
    ports, inputs = unit.ports(config), {port: array[:4096] for port, array in cases.inputs.items()}
    result = unit.evaluate(config, inputs, jit=False)
    absent = unit.evaluate(config, {port: array[:1] * 0 for port, array in inputs.items()}, jit=False)
    rows = [(_first_row(unit, getattr(result, port.name)), _first_row(unit, getattr(absent, port.name)))
            for port in ports.outputs]
    telling = np.stack([(got != 0).any(axis=1) & (got != none).any(axis=1) for got, none in rows])
    stimulus = np.stack([(_first_row(unit, inputs[port.name]) != 0).any(axis=1) for port in ports.inputs])
    score = np.count_nonzero(telling, axis=0) * stimulus.any(axis=0)
    if not score.any():
        raise Refused(f"{unit.name}: no case of {cases.why!r} tells a working device from an absent one")
    first = int(np.argmax(score))
    return replace(cases, inputs={port: np.roll(array, -first, axis=0) for port, array in cases.inputs.items()})


def _first_row(unit: Unit, array: np.ndarray) -> np.ndarray:
    """(cases, lanes): what one port carries in the first row of every case."""
    return (array[:, 0] if unit.timing == "event" else array).reshape(array.shape[0], -1)
