"""Compiled forms of units without registers and with few inputs: both forms run on every input."""

import time
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.prove.equivalence import Outcome, Part, Proof
from refemu.prove.lift import name_of
from refemu.units.config import Config
from refemu.units.unit import AnyUnit

MOST = 1 << 16  #: inputs, at most


def compiled_equals(unit: AnyUnit, config: Mapping[str, Any]) -> Proof:
    """Compare the compiled form of a unit with its readable text on every input.

    Parameters
    ----------
    unit : Unit
        Descriptor of a unit without registers.
    config : Mapping
        Parameters of the unit.

    Returns
    -------
    Proof
        "proved", or "refuted" with an input on which the results differ, or which only one form rejects.

    Raises
    ------
    Refused
        The unit has registers or more than 65,536 inputs.
    """
    ports, began = unit.ports(Config(**config)), time.monotonic()
    lanes = [(port, lane) for port in ports.inputs for lane in range(port.count)]
    sizes = [port.limits[1] - port.limits[0] + 1 for port, _ in lanes]
    if unit.timing == "event" or prod(sizes) > MOST:
        raise Refused(f"{unit.name}: must have no registers and at most {MOST} inputs, got {prod(sizes)}")
    digits = dict(zip(lanes, np.indices(sizes).reshape(len(sizes), -1), strict=True))
    inputs = {
        port.name: np.stack([digits[port, lane] + port.limits[0] for lane in range(port.count)], -1)
        .reshape(-1, *port.shape)
        .astype(port.dtype)
        for port in ports.inputs
    }
    differs = _first(unit, Config(**config), inputs, np.arange(prod(sizes)))
    outcome: Outcome = "proved" if differs is None else "refuted"
    row = {} if differs is None else {name_of(port, lane): int(digits[port, lane][differs]) for port, lane in lanes}
    part = Part(f"{prod(sizes):,} inputs", outcome, time.monotonic() - began, "all tried", row)
    return Proof(outcome, [part], "enumeration")


def _first(unit: AnyUnit, config: Config, inputs: Mapping[str, np.ndarray], rows: np.ndarray) -> int | None:
    """The first of some rows on which the forms differ; rejected rows are found by halves."""
    results = [
        _result(unit, config, {name: array[rows] for name, array in inputs.items()}, jit) for jit in (True, False)
    ]
    if None in results:
        if len(rows) == 1:
            return None if results == [None, None] else int(rows[0])
        parts = (_first(unit, config, inputs, part) for part in np.array_split(rows, 2))
        return next((each for each in parts if each is not None), None)
    wrong = np.zeros(len(rows), bool)
    for one, other in zip(*results, strict=True):
        wrong |= (one != other).reshape(len(rows), -1).any(axis=-1)
    return int(rows[np.argmax(wrong)]) if wrong.any() else None


def _result(unit: AnyUnit, config: Config, inputs: Mapping[str, np.ndarray], jit: bool) -> list[np.ndarray] | None:
    """Bytes of outputs and registers; None if the unit rejects a row."""
    ports = unit.ports(config)
    try:
        result = unit.evaluate(config, inputs, jit=jit)
    except Refused:
        return None
    return [np.ascontiguousarray(getattr(result, port.name)).view(np.uint8) for port in ports.outputs + ports.state]


__all__ = ["compiled_equals"]
