"""Every unit and configuration, for the protocol suite: cases, what both forms make of them, drawn inputs."""

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from refemu import units
from refemu.testing import inputs
from refemu.units.stimuli import admitted
from refemu.units.unit import KINDS, Cases, Unit

CONFIGS = [
    pytest.param(units.find(unit), name, id=f"{unit}-{name}")
    for unit in units.names()
    for name in units.find(unit).configs
]
#: one configuration of each unit; the others in slow runs
FIRST_CONFIGS = [
    pytest.param(units.find(unit), name, id=f"{unit}-{name}", marks=[pytest.mark.slow] if number else [])
    for unit in units.names()
    for number, name in enumerate(units.find(unit).configs)
]
UNITS = [pytest.param(units.find(unit), id=unit) for unit in units.names()]
OWN = KINDS[:-1]  # "model" comes from taps
WIDE = 16  #: lanes of a port from which on one row is enough


def blocks(unit: Unit, name: str) -> list[Cases]:
    """Every block of the unit's own cases."""
    return _blocks(unit.name, name)


@functools.cache
def _blocks(unit: str, name: str) -> list[Cases]:
    config = units.find(unit).configs[name]
    return [block for kind in OWN for block in units.find(unit).cases(config, kind, 0)]


def evaluated(unit: Unit, name: str, *, jit: bool) -> list[Any]:
    """What one form makes of every block; evaluated once."""
    return _evaluated(unit.name, name, jit)


@functools.cache
def _evaluated(unit: str, name: str, jit: bool) -> list[Any]:
    config = units.find(unit).configs[name]
    return [units.find(unit).evaluate(config, block.inputs, jit) for block in _blocks(unit, name)]


def rows(unit: Unit, stimulus: dict[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """About `count` rows from the start of a block."""
    per_case = next(iter(stimulus.values())).shape[1] if unit.timing == "event" else 1
    return {port: array[: -(-count // per_case)] for port, array in stimulus.items()}


def one_case(unit: Unit, stimulus: dict[str, np.ndarray], case: int) -> dict[str, np.ndarray]:
    """The events of one case, or one row of a combinational unit."""
    return {port: array[case] if unit.timing == "event" else array[case : case + 1] for port, array in stimulus.items()}


def drawn(unit: Unit, name: str, most: int) -> st.SearchStrategy[dict[str, np.ndarray]]:
    """At most `most` rows that the unit takes, of units with wide ports one."""
    wide = any(port.lanes > WIDE for port in unit.ports(unit.configs[name]).inputs)
    return inputs(unit, name, max_rows=1 if wide else most).map(functools.partial(_near, unit, name))


def _near(unit: Unit, name: str, stimulus: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Odd float32 words with exponents from -8 to 7, where formats decide; even ones may be any finite value."""
    config = unit.configs[name]
    floats = [port for port in unit.ports(config).inputs if port.kind == "f32"]
    for port in floats:
        words = stimulus[port.name].astype(np.int64)
        folded = words & 0x807FFFFF | (119 + (words >> 23) % 16) << 23
        stimulus[port.name] = admitted(port, np.where(words & 1, folded, words)).astype(port.dtype)
    return dict(unit.legal(config, stimulus)) if floats and unit.legal else stimulus
