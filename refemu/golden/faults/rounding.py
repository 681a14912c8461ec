"""Faults of class `rounding`: the arithmetic of a readable unit rounds, saturates, fuses or adds differently.

One primitive of refemu.arith is replaced while the readable unit runs. The first cases show which primitives the unit
uses, so that a fault changes only computations of the unit.
"""

import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, get_args

import numpy as np

from refemu.arith import dot, fp16, fp32, integers, orders, rounding, sums, tables
from refemu.golden.faults.fault import Exchange, Fault, exchanged, short
from refemu.golden.grade import device, slices
from refemu.golden.grade.answers import Answers

_round, _require_mode, _reduce, _arithmetic = fp16._round, rounding.require_mode, sums.reduce, dot._arithmetic
_wrap, _saturate, _table16 = integers.wrap, integers.saturate, tables.table16
#: prefix of an id -> name in a diagnosis
_NAMES = {"order": "order", "fused": "fused", "separate": "fused", "wrap": "saturate", "saturate": "wrap"}


def faults(answers: Answers) -> Iterator[Fault]:
    """Faults of the primitives that the unit uses."""
    present = used(answers)
    for id, says, changes in library():
        first, mode = id.split("/")[:2]
        if first in present:
            name = _NAMES.get(first, mode if mode in ("flush", "saturate") else "rounding")
            parameters = {"port": ", ".join(map(short, answers.ports)), "mode": mode} if name == "rounding" else {}
            yield Fault(id, says, name, parameters, arithmetic=changes)


def library() -> Iterator[tuple[str, str, list[Exchange]]]:
    """Id, what the device does, and the functions that are exchanged; an id starts with the primitive."""
    for mode in ("truncate", "half_away", "half_up", "half_down", "odd", "flush", "saturate"):
        yield f"fp16/{mode}", f"fp16 results: {mode}", [(fp16, "_round", partial(rounded16, mode))]
    for old in get_args(rounding.Rounding):
        for new in get_args(rounding.Rounding):
            if old != new:
                changed = partial(_other_mode, old, new)
                yield f"{old}/{new}", f"integers round {new} for {old}", [(rounding, "require_mode", changed)]
    yield "wrap/saturate", "a sum that leaves its width saturates", [(integers, "wrap", _saturate)]
    yield "saturate/wrap", "a sum that leaves its width wraps", [(integers, "saturate", _wrap)]
    for name, order in _ORDERS.items():
        changes: list[Exchange] = [(module, "reduce", partial(_reordered, order)) for module in (sums, dot)]
        yield f"order/{name}", f"sums are added {name}", changes
    yield "fused/separate", "a fused multiply-add rounds its product first", [(dot, "_arithmetic", _separate)]
    yield "separate/fused", "a product enters its sum unrounded", [(dot, "_arithmetic", _fused)]
    says = "fp16 results: truncate, infinity where they overflow"
    yield "fp16/truncate/overflow", says, [(fp16, "_round", partial(_infinite, "truncate"))]
    says = "fp16 results: the largest number where they overflow, infinity where an operand is infinite"
    yield "fp16/saturate/finite", says, [(fp16, "_round", _finite)]
    for rule, says in _OF_TABLES.items():
        changes = _in_place_of_tables(partial(_entries, rule))
        yield f"table/{rule}", f"entries of the function table: {says}", changes
        alike: list[Exchange] = [(fp16, "_round", _by(rule))]
        yield f"table/{rule}/fp16", f"entries of the function table and fp16 results: {says}", [*changes, *alike]


#: rule -> what a device does; some tables have no tie
_OF_TABLES = {rule: rule for rule in ("truncate", "half_away", "odd", "flush", "saturate")} | {
    "truncate/overflow": "truncate, infinity where they overflow"
}
_ORDERS: dict[str, Any] = {
    "descending": None,
    "pairwise": orders.Tree(1 << 20),
    "in 4 lanes": orders.Lanes(4, "strided", orders.Tree(4)),
    "in 32 blocks": orders.Lanes(32, "blocked", orders.Tree(32)),
}


def rounded16(rule: str, x: np.ndarray, mode: fp16.Fp16Mode) -> np.ndarray:
    """float32 or float64 rounded to fp16 values by a rule other than nearest even."""
    if mode != fp16.IEEE:
        return _round(x, mode)
    if rule in ("truncate", "flush", "saturate"):
        changed: dict[str, Any] = {"truncate": {"rounding": rule}, "flush": {"subnormals": rule}}
        return _round(x, fp16.Fp16Mode(**changed.get(rule, {"overflow": rule})))
    exact, even = x.astype(np.float64), _round(x, mode)
    low = _round(x, fp16.Fp16Mode(rounding="truncate"))
    words = fp16.bits(fp16.narrow(low))
    with np.errstate(all="ignore"):
        high = fp16.to_f32(fp16.values((words + 1).astype(np.uint16)))  # the next magnitude
        tie = (exact - low == high - exact) & np.isfinite(high)
    if rule == "odd":
        odd = np.where(words & 1 == 1, low, high)
        return np.where((exact == low) | ~np.isfinite(high), even, odd).astype(np.float32)
    away = np.ones(x.shape, np.bool_) if rule == "half_away" else (exact > 0) == (rule == "half_up")
    return np.where(tie, np.where(away, high, low), even).astype(np.float32)


def _other_mode(old: str, new: Any, mode: Any, thing: str) -> Any:
    known = _require_mode(mode, thing)
    return new if known == old else known


def _reordered(order: Any, old: Any, terms: Any, *rest: Any, **named: Any) -> Any:
    """Add in an order other than the requested one; a tree inside lanes is unchanged."""
    if isinstance(old, orders.Tree | orders.Halves):
        return _reduce(old, terms, *rest, **named)
    return _reduce(old, list(terms)[::-1], *rest, **named) if order is None else _reduce(order, terms, *rest, **named)


def _separate(request: Any) -> Any:
    add, step, leaf = _arithmetic(request)
    return (
        (add, lambda s, term: add(s, leaf(term)), leaf)
        if request.acc in ("fp16_fma", "fp32_fma")
        else (add, step, leaf)
    )


def _fused(request: Any) -> Any:
    add, step, leaf = _arithmetic(request)
    if request.acc == "fp16":
        return add, lambda s, term: dot._fma16(term[0], term[1], s), leaf
    return (add, lambda s, term: fp32.fma32(term[0], term[1], s), leaf) if request.acc == "fp32" else (add, step, leaf)


def _by(rule: str) -> Callable[[np.ndarray, fp16.Fp16Mode], np.ndarray]:
    """The function that rounds by a rule of `_OF_TABLES`."""
    return partial(_infinite if rule == "truncate/overflow" else rounded16, rule.partition("/")[0])


def _infinite(rule: str, x: np.ndarray, mode: fp16.Fp16Mode) -> np.ndarray:
    nearest = rounded16("half_away", x, mode)
    return np.where(np.isinf(nearest), nearest, rounded16(rule, x, mode))


def _finite(x: np.ndarray, mode: fp16.Fp16Mode) -> np.ndarray:
    return np.where(np.isfinite(x), rounded16("saturate", x, mode), rounded16("half_away", x, mode))


def _in_place_of_tables(function: Callable[..., Any]) -> list[Exchange]:
    """A function in the place of `table16` in every module that has it."""
    return [
        (module, "table16", function)
        for name, module in sorted(sys.modules.items())
        if name.startswith("refemu.") and getattr(module, "table16", None) is _table16
    ]


@lru_cache(maxsize=64)
def _entries(rule: str, name: tables.FunctionName) -> np.ndarray:
    """Words of a function table that is rounded by another rule."""
    with np.errstate(all="ignore"):
        values = _by(rule)(tables.exact16(name), fp16.IEEE)
        return fp16.bits(fp16.canonical(fp16.narrow(values)))


def used(answers: Answers) -> set[str]:
    """Primitives that the readable unit calls in the first cases."""
    seen: set[str] = set()

    def spy(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            seen.add(name)
            return function(*args, **named)

        return called

    def mode(value: Any, thing: str) -> Any:
        seen.add(_require_mode(value, thing))
        return _require_mode(value, thing)

    def arithmetic(request: Any) -> Any:
        seen.add({"fp16": "separate", "fp32": "separate"}.get(request.acc, "fused"))
        return _arithmetic(request)

    changes: list[Exchange] = [
        *_in_place_of_tables(spy("table", _table16)),
        (fp16, "_round", spy("fp16", _round)),
        (rounding, "require_mode", mode),
        (sums, "reduce", spy("order", _reduce)),
        (dot, "reduce", spy("order", _reduce)),
        (dot, "_arithmetic", arithmetic),
        (integers, "wrap", spy("wrap", _wrap)),
        (integers, "saturate", spy("saturate", _saturate)),
    ]
    with exchanged(changes):
        for _, (_, block) in zip(range(3), slices.parts(answers), strict=False):
            device.readable(answers.unit, answers, block)
    return seen
