"""Guesses of different arithmetic below a unit: class `rounding` of `grade`, overflows, function tables."""

import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from refemu.arith import fp16, tables
from refemu.golden.explain.guess import Guess
from refemu.golden.explain.table import Table
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import rounding
from refemu.golden.grade.rounding import Change
from refemu.units.unit import Cases

#: prefix of an id in the library of `grade` -> structural class
_CLASSES = {"order": "order", "fused": "fused", "separate": "fused", "wrap": "saturate", "saturate": "wrap"}
_ROUNDINGS = ("truncate", "half_away", "odd", "flush", "saturate")  #: of a table; some tables have no tie
_table16 = tables.table16


def guesses(table: Table) -> Iterator[Guess]:
    """A guess for each primitive of the unit and its replacement."""
    present = _used(table)
    for name, says, changes in (*rounding.library(), *_overflows(), *_tables()):
        first, _, mode = name.partition("/")
        if first not in present:
            continue
        id = _CLASSES.get(first, mode if mode in ("flush", "saturate") else "rounding")
        parameters = {"port": _ports(table), "mode": mode} if id == "rounding" else {}
        yield Guess("structure", id, f"right if {says}", parameters, arithmetic=changes)


def _used(table: Table) -> set[str]:
    """Primitives that the readable unit calls in its first cases: those of `grade`, and `table`."""
    seen: set[str] = set()

    def table16(name: Any) -> np.ndarray:
        seen.add("table")
        return _table16(name)

    group = table.groups[0].pick(slice(0, 4))
    block = answers_of.of_cases(table.unit, table.config, [Cases("edge", "a wrong answer", group.inputs)])
    with rounding.exchanged(_in_place_of_tables(table16)):
        return rounding.used(block) | seen


def _overflows() -> Iterator[tuple[str, str, list[Change]]]:
    """Guesses for units whose overflows differ from those of the library's mode."""
    says = "fp16 results: truncate, infinity where they overflow"
    yield "fp16/truncate", says, [(fp16, "_round", partial(_infinite, "truncate"))]
    says = "fp16 results: the largest number where they overflow, infinity where an operand is infinite"
    yield "fp16/saturate", says, [(fp16, "_round", _finite)]


def _infinite(rule: str, x: np.ndarray, mode: fp16.Fp16Mode) -> np.ndarray:
    nearest = rounding.rounded16("half_away", x, mode)
    return np.where(np.isinf(nearest), nearest, rounding.rounded16(rule, x, mode))


def _finite(x: np.ndarray, mode: fp16.Fp16Mode) -> np.ndarray:
    return np.where(np.isfinite(x), rounding.rounded16("saturate", x, mode), rounding.rounded16("half_away", x, mode))


def _tables() -> Iterator[tuple[str, str, list[Change]]]:
    """Function tables that are rounded differently; other computations round as before, or like the table."""
    for rule in _ROUNDINGS:
        changes = _in_place_of_tables(partial(_entries, rule))
        beside: list[Change] = [(fp16, "_round", partial(rounding.rounded16, rule))]
        yield f"table/{rule}", f"entries of the function table: {rule}", changes
        yield f"table/{rule}", f"entries of the function table and fp16 results: {rule}", [*changes, *beside]


def _in_place_of_tables(function: Callable[..., Any]) -> list[Change]:
    """Replace `table16` in every module that has it."""
    return [
        (module, "table16", function)
        for name, module in sorted(sys.modules.items())
        if name.startswith("refemu.") and getattr(module, "table16", None) is _table16
    ]


@lru_cache(maxsize=64)
def _entries(rule: str, name: tables.FunctionName) -> np.ndarray:
    """Words of a function table rounded by another rule."""
    with np.errstate(all="ignore"):
        values = rounding.rounded16(rule, tables.exact16(name), fp16.IEEE)
        return fp16.bits(fp16.canonical(fp16.narrow(values)))


def _ports(table: Table) -> str:
    return ", ".join(name.partition(".")[2] for name in table.ports)
