"""Faults of class `rounding`: the arithmetic of a readable unit rounds, saturates, fuses or adds differently.

One primitive of refemu.arith is replaced while the readable unit runs. The first cases show which primitives the unit
uses, so that a fault changes only computations of the unit.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, get_args

import numpy as np

from refemu.arith import dot, fp16, fp32, integers, orders, rounding, sums
from refemu.arith.checks import Refused
from refemu.golden.grade import device, slices
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.fault import Fault

Change = tuple[Any, str, Callable[..., Any]]  #: module, name of a function, its replacement
_round, _require_mode, _reduce, _arithmetic = fp16._round, rounding.require_mode, sums.reduce, dot._arithmetic
_wrap, _saturate = integers.wrap, integers.saturate


def faults(answers: Answers) -> Iterator[Fault]:
    """Faults of the primitives that the unit uses."""
    present = used(answers)
    for name, says, changes in library():
        if name.split("/")[0] in present:
            yield Fault(name, says, partial(_wrong, changes), slices.tried)


def library() -> Iterator[tuple[str, str, list[Change]]]:
    """Id, what the device does, and the replaced functions; an id starts with the primitive."""
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
        changes: list[Change] = [(module, "reduce", partial(_reordered, order)) for module in (sums, dot)]
        yield f"order/{name}", f"sums are added {name}", changes
    yield "fused/separate", "a fused multiply-add rounds its product first", [(dot, "_arithmetic", _separate)]
    yield "separate/fused", "a product enters its sum unrounded", [(dot, "_arithmetic", _fused)]


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


def _wrong(changes: list[Change], answers: Answers) -> np.ndarray:
    different = np.zeros(answers.rows, np.bool_)
    with exchanged(changes):
        for first, block in slices.parts(answers):
            try:
                got = device.readable(answers.unit, answers, block)
            except Exception as error:  # a faulty device may raise anything
                raise Refused(f"{type(error).__name__}: {error}") from error
            rows = device.unlike(answers, block, got)
            different[first : first + len(rows)] = rows
            if rows.any():
                break
    return different


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

    changes: list[Change] = [
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


@contextmanager
def exchanged(changes: list[Change]) -> Iterator[None]:
    """Replace functions of modules in the block."""
    with ExitStack() as stack:
        for module, name, function in changes:
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, function)
        yield
