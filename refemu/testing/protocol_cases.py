"""Material for the protocol of units: cases, results of both forms, drawn inputs, errors."""

import functools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from refemu.arith.checks import Refused, RefusedType
from refemu.testing.strategies import inputs
from refemu.units.stimuli import validated
from refemu.units.unit import KINDS, AnyUnit, Cases, Config

OWN = KINDS[:-1]  #: kinds of cases that a unit itself has
WIDE = 16  #: lanes of a port; with as many, one row is enough
Stimulus: TypeAlias = Mapping[str, np.ndarray]


def require(holds: object, message: str) -> None:
    """Raise AssertionError unless `fact` is true."""
    if not holds:
        raise AssertionError(message)


@contextmanager
def refused(error: type[Exception], pattern: str) -> Iterator[None]:
    """Require that the block raises `error` with a message in which `pattern` is found."""
    try:
        yield
    except error as raised:
        require(re.search(pattern, str(raised)), f"the error must match {pattern!r}, got {str(raised)!r}")
        return
    raise AssertionError(f"{error.__name__} must be raised with {pattern!r}, got none")


@functools.cache
def _material(unit: "_ById", name: str) -> list[Cases]:
    config = unit.unit.configs[name]
    return [block for kind in OWN for block in unit.unit.cases(config, kind, 0)]


@functools.cache
def _answers(unit: "_ById", name: str, jit: bool) -> list[Any]:
    config = unit.unit.configs[name]
    return [unit.unit.evaluate(config, block.inputs, jit) for block in _material(unit, name)]


class _ById:
    """A unit as a key of caches; descriptors have mappings, so no hash."""

    def __init__(self, unit: AnyUnit) -> None:
        self.unit = unit

    def __hash__(self) -> int:
        return id(self.unit)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.unit is self.unit


def blocks(unit: AnyUnit, name: str) -> list[Cases]:
    """Every block of the unit's own cases."""
    return _material(_ById(unit), name)


def evaluated(unit: AnyUnit, name: str, *, jit: bool) -> list[Any]:
    """Results of one form for every block; evaluated once."""
    return _answers(_ById(unit), name, jit)


def rows(unit: AnyUnit, stimulus: Stimulus, count: int) -> dict[str, np.ndarray]:
    """The first rows of a block, about `count`."""
    per_case = next(iter(stimulus.values())).shape[1] if unit.timing == "event" else 1
    return {port: array[: -(-count // per_case)] for port, array in stimulus.items()}


def one_case(unit: AnyUnit, stimulus: Stimulus, case: int) -> dict[str, np.ndarray]:
    """The events of one case, or one row of a combinational unit."""
    return {port: array[case] if unit.timing == "event" else array[case : case + 1] for port, array in stimulus.items()}


def drawn(unit: AnyUnit, name: str, most: int) -> st.SearchStrategy[dict[str, np.ndarray]]:
    """At most `most` valid rows; one for units with wide ports."""
    wide = any(port.count > WIDE for port in unit.ports(unit.configs[name]).inputs)
    return inputs(unit, name, max_rows=1 if wide else most).map(functools.partial(_near, unit, name))


def _near(unit: AnyUnit, name: str, stimulus: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Odd float32 words with exponents from -8 to 7, where formats decide; even ones may be any finite value."""
    config = unit.configs[name]
    floats = [port for port in unit.ports(config).inputs if port.kind == "f32"]
    for port in floats:
        words = stimulus[port.name].astype(np.int64)
        folded = words & 0x807FFFFF | (119 + (words >> 23) % 16) << 23
        stimulus[port.name] = validated(port, np.where(words & 1, folded, words)).astype(port.dtype)
    return dict(unit.legal(config, stimulus)) if floats and unit.legal else stimulus


def neighbours(unit: AnyUnit) -> Iterator[tuple[str, Config]]:
    """Texts and configurations that differ from the first ready one in a parameter: switches, small numbers."""
    for name, value in next(iter(unit.configs.values())).items():
        others: list[Any] = [not value] if isinstance(value, bool) else []
        if type(value) is int:
            others = sorted({1, value + 1} - {value})
        for other in others:
            text = f"{name}={str(other).lower() if isinstance(other, bool) else other}"
            try:
                config = unit.config(text)
                unit.unit_class(**config)
            except (Refused, RefusedType):
                continue
            yield text, config
