"""Guesses for which the unit runs: alternatives of its decisions, parameters of ready configurations, arithmetic."""

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.formats import spelling
from refemu.golden.explain.guess import Guess
from refemu.golden.explain.table import Table
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import rounding
from refemu.units.alternative import Alternative
from refemu.units.unit import Cases, Config

#: prefix of an id in the library of `grade` -> structural class, and whether the rest of the id is a mode of rounding
_CLASSES = {"order": "order", "fused": "fused", "separate": "fused", "wrap": "saturate", "saturate": "wrap"}


def decisions(table: Table) -> Iterator[Guess]:
    """One for each alternative of the unit, then for parameters that other ready configurations have."""
    changed: set[str] = set()
    for alternative in table.unit.alternatives:
        values = parameters(table.config, alternative)
        changed.update(values)
        detail = f"right if {alternative.decision}: {alternative.says}"
        yield Guess("decision", alternative.decision, detail, values, alternative=alternative)
    for parameter, current in table.config.items():
        for value in _candidates(table, parameter, current):
            if parameter not in changed:
                says = f"{parameter} is {text(value)} (here {text(current)})"
                alternative = Alternative("", says, partial(_with, parameter, value))
                shown = {parameter: text(value)}
                yield Guess("decision", "parameter", f"right if {says}", shown, 1, alternative=alternative)


def arithmetic(table: Table) -> Iterator[Guess]:
    """One for each primitive that the unit uses, with its exchange."""
    group = table.groups[0].pick(slice(0, 4))
    block = answers_of.of_cases(table.unit, table.config, [Cases("edge", "a wrong answer", group.inputs)])
    present = rounding.used(block)
    for name, says, changes in (*rounding.library(), *_infinite()):
        first, _, mode = name.partition("/")
        if first not in present:
            continue
        id = _CLASSES.get(first, mode if mode in ("flush", "saturate") else "rounding")
        parameters = {"port": _only(table), "mode": mode} if id == "rounding" else {}
        yield Guess("structure", id, f"right if {says}", parameters, arithmetic=changes)


def _infinite() -> Iterator[tuple[str, str, list[Any]]]:
    """Truncation as of a unit that rounds nothing up, and yet overflows to infinity."""
    says = "fp16 results: truncate, infinity where they overflow"
    yield "fp16/truncate", says, [(fp16, "_round", partial(_overflowing, "truncate"))]


def _overflowing(rule: str, x: np.ndarray, mode: fp16.Fp16Mode) -> np.ndarray:
    nearest = rounding.rounded16("half_away", x, mode)
    return np.where(np.isinf(nearest), nearest, rounding.rounded16(rule, x, mode))


def text(value: Any) -> str:
    """A value of a parameter for people."""
    return repr(value.value if isinstance(value, Enum) else value)


def _only(table: Table) -> str:
    names = [name.partition(".")[2] for name in table.ports]
    return names[0] if len(names) == 1 else ", ".join(names)


def parameters(config: Config, alternative: Alternative) -> Mapping[str, Any]:
    """Parameters that an alternative sets; of one that changes the device itself what it says."""
    try:
        changed = alternative.apply(config)
    except Refused:
        return {}
    texts = {name: (_plain(config.get(name)), _plain(value)) for name, value in changed.items()}
    pairs = {name: new for name, (old, new) in texts.items() if f"{old}[]" != new and old != new}
    return pairs or {"device": alternative.says}


def _plain(value: Any) -> Any:
    """A number or word as it is; an object as a command line has it."""
    value = value.value if isinstance(value, Enum) else value
    return value if isinstance(value, int | float | str | bool | type(None)) else spelling.write(value)


def _candidates(table: Table, parameter: str, current: Any) -> list[Any]:
    offered = [config[parameter] for config in table.unit.configs.values() if parameter in config]
    if isinstance(current, bool):
        offered.append(not current)
    if isinstance(current, Enum):
        offered += list(type(current))
    return [value for at, value in enumerate(offered) if value != current and value not in offered[:at]]


def _with(parameter: str, value: Any, config: Config) -> Config:
    return Config(**{**config, parameter: value})
