"""Derived compiled forms: the Python text that numba compiles, on variables, compared with the readable text.

One event from any registers is proved, which is the induction step of a loop over events. Integers of numba have 64
bits: every operation must be shown to stay inside them, and every shift to be less than 64.
"""

import ast
import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from refemu.arith import integers
from refemu.arith.kernels import scalars
from refemu.prove import terms
from refemu.prove.arrays import FP16, Array, as_array, kind_of
from refemu.prove.equivalence import Part, Proof, ask, together
from refemu.prove.floats import ranges
from refemu.prove.inner import sums
from refemu.prove.inner.shared import Shared
from refemu.prove.interpreter import Interpreter
from refemu.prove.lift import Lift, NotLifted, name_of
from refemu.prove.merging import merge, ordered
from refemu.prove.terms import Term
from refemu.prove.values import Int, Real, Unsupported, fit, integer, number_of, real, truth, word
from refemu.units.compiled import scalars as lists
from refemu.units.compiled.form import EVENTS, Form
from refemu.units.compiled.scalars import COMPILED
from refemu.units.ports import Port

WIDTH = EVENTS.high.bit_length() + 1  #: bits of the number of an event
LEAST, MOST = -(1 << 63), (1 << 63) - 1


class Words(Interpreter):
    """Runs text as numba compiles it: what leaves 64 bits is an obligation.

    number: variable of the loop that numbers events; it gets any value, so that the event is any one.
    """

    composes = False

    def __init__(self, number: str = "") -> None:
        super().__init__()
        self.number = number

    def store(self, target: ast.expr, value: Any) -> None:
        """Assign; the number of the last event, set at reset, is free."""
        if isinstance(target, ast.Name) and target.id == self.number and value == EVENTS.low:
            value = Int(terms.variable(self.number, WIDTH), EVENTS.low, EVENTS.high)
        super().store(target, value)

    def operate(self, name: str, a: Any, b: Any) -> Any:
        if name == "Div" and isinstance(a, Real) and isinstance(b, Real):  # by 0 as in IEEE 754: NumPy's error model
            return number_of(terms.fp("fdiv", a.term, b.term))
        answer = super().operate(name, a, b)
        number = None if isinstance(answer, Array) else integer(answer)  # an element of an array wraps, as in numba
        shift = integer(b) if "Shift" in name else None
        if number is not None:
            self._inside(number, LEAST, MOST, "a value of more than 64 bits")
        if shift is not None:
            self._inside(shift, 0, 63, "a shift by more than 63")
        return answer

    def attribute(self, owner: Any, name: str) -> Any:
        """An attribute; an integer of numba has that of an element of an array."""
        if name == "view" and isinstance(owner, Int | Real):
            owner = Array(owner, np.int64 if isinstance(owner, Int) else np.float64)
        return super().attribute(owner, name)

    def of_Subscript(self, node: ast.Subscript) -> Any:
        """An element of an array is a number, as numba has it."""
        return _number(super().of_Subscript(node))

    def call(self, function: Any, *args: Any, **named: Any) -> Any:
        """Local arrays hold values that depend on inputs."""
        hardware = getattr(function, "py_func", function)
        if hardware in EMPTY or function is np.empty:
            return self._unset(args[0], np.dtype(args[1] if len(args) > 1 else EMPTY.get(hardware, np.float64)))
        if hardware in CONVERSIONS:
            return CONVERSIONS[hardware](*args)
        if hardware in HELPERS:
            return super().call(HELPERS[hardware], *args)
        if function in (max, min) and any(isinstance(each, Array) for each in args):
            return functools.reduce(functools.partial(self._extreme, function is max), args)
        answer = super().call(function, *args, **named)
        return Array(answer, answer.dtype) if function is np.zeros else _number(answer)

    def _extreme(self, largest: bool, a: Any, b: Any) -> Any:
        """The larger or smaller of two elements of arrays, which are not NaN: numba and Python differ there."""
        dtype = np.result_type(kind_of(a), kind_of(b))
        x, y = (as_array(each, dtype).values.item() for each in (a, b))
        if dtype.kind == "f":
            nan = terms.or_(*(terms.fp("isnan", real(each)) for each in (x, y)))
            self.demand(terms.not_(nan), "an extreme of NaN")
        return _number(Array(merge(ordered(x, y) if largest else ordered(y, x), y, x), dtype))

    def _unset(self, length: Any, dtype: np.dtype) -> Array:
        """An array whose elements may have any value."""
        words = [
            terms.variable(f"unset{self.fresh()}", 64)
            for _ in range(prod(length if isinstance(length, tuple) else (length,)))
        ]
        values = [Real(terms.fp("value64", w)) if dtype.kind == "f" else Int(w, LEAST, MOST) for w in words]
        return Array(values, dtype).reshape(length)

    def _inside(self, number: Any, low: int, high: int, what: str) -> None:
        least, most = (number.low, number.high) if isinstance(number, Int) else (number, number)
        if least < low or most > high:
            inside = terms.and_(truth(number >= low), truth(number <= high))
            self.demand(inside if isinstance(inside, Term) else terms.const(int(inside), 1), what)


#: conversions between fp16 and float32, as IEEE 754 has them and processors do them
CONVERSIONS: dict[Any, Callable[..., Any]] = {
    getattr(function, "py_func", function): form
    for function, form in (
        (scalars.round16, lambda x: FP16["round16"](None, x)),
        (scalars.widen, lambda word: as_array(word, np.uint16).view(np.float16).astype(np.float32)),
        (scalars.round16_of_f64, lambda x: FP16["round16"](None, x)),  # a lemma, see `rounds`
        (scalars.narrow, lambda x: as_array(x, np.float16).view(np.uint16)),
    )
}

#: functions that make an array whose elements are not set, and their dtypes
EMPTY: dict[Any, Any] = {
    getattr(function, "py_func", function): dtype
    for function, dtype in ((lists.empty, np.int64), (lists.empty_reals, np.float64))
}
#: compiled functions -> the functions of Python that they replace; `helpers` proves that they are equal
HELPERS: dict[Any, Callable[..., Any]] = {
    getattr(compiled, "py_func", compiled): function for function, compiled in COMPILED.items()
}


def _number(value: Any) -> Any:
    """A signed integer or a truth value, from an array without axes; numba has other types for the others."""
    plain = isinstance(value, Array) and not value.ndim and value.dtype in (np.int64, np.bool_, np.float64)
    return value.values.item() if plain else value


def compiled_equals(lifted: Lift, seconds: float = 60, device: Any = None) -> Proof:
    """Prove that the derived compiled form of a unit equals the terms of its readable text.

    Parameters
    ----------
    lifted : Lift
        Terms of the readable text.
    seconds : float
        Time limit of the solver.
    device : unit
        Device whose compiled form is meant; by default that of the lift.

    Returns
    -------
    Proof
        "proved", "refuted" or "undecided", for one event from any legal inputs and registers.

    Raises
    ------
    NotLifted
        The compiled text has no terms; the message names the line.
    Refused
        The unit has no derived form.
    """
    device = device or lifted.device
    form, ports = Form(device), device.ports
    if "event" in form.held:
        raise NotLifted(f"{lifted.unit.name}: the compiled form reads the name of the last event")
    assumed = [lifted.legal]
    initial = tuple(value_of_port(port, lifted.before.get(port.name) or _any(port), assumed) for port in form.kept)
    arrays = [_array(port, lifted.inputs.get(port.name), assumed) for port in ports.all]
    lengths = form.lengths_of(device)
    loop, run = form.module(*lengths).loop, Words(f"s_{form.kind.number}")
    constants = tuple(map(_constant, form.constants_of(device)))
    try:
        with run.running():
            run.call(getattr(loop, "py_func", loop), constants, tuple(lengths.values()), initial, *arrays)
    except (Unsupported, TypeError, ValueError) as error:
        where = getattr(error, "line", "") or run.line
        raise NotLifted(f"{lifted.unit.name}: {where.rpartition('.')[2]} of the compiled text: {error}") from error
    pairs = {
        port.name: list(zip(array.values.reshape(-1), lifted.terms.get(port.name, ()), strict=False))
        for port, array in zip(ports.all, arrays, strict=True)
    }
    return compared(assumed, run, ports.all, pairs, seconds)


def compared(
    assumed: Sequence[Term],
    run: Interpreter,
    ports: Sequence[Port],
    pairs: Mapping[str, Sequence[tuple[Any, Term]]],
    seconds: float,
) -> Proof:
    """Prove that a run of a compiled text writes the terms of ports, and that nothing is wrong in it.

    pairs: what the text writes and the term, of each lane of each port. Words of floats, and those that are proved
    equal, are first taken as free, which proves more than is asked. An open question is asked again when others are
    proved, since words that are equal become one term.
    """
    end = time.monotonic() + seconds
    wrong = {"rejected inputs": [run.illegal]}
    for condition, what in run.obligations:
        wrong.setdefault(what, []).append(terms.not_(condition))
    for port in ports:
        wrong[port.name] = [differs(port, value, term) for value, term in pairs[port.name]]
    shared, equal, by_name = Shared(assumed), dict[int, Term](), {port.name: port for port in ports}
    parts: dict[str, Part] = {}
    left = [what for what, each in wrong.items() if terms.any_of(each) is not terms.FALSE]
    same = [item for name in pairs if name not in left for item in _words(by_name[name], pairs[name]).items()]
    left = sorted(left, key=lambda what: -len(pairs.get(what, ())))  # registers first, from which outputs follow
    for patience, in_order in ((4, False), (2, True), (1, False), (1, True)):
        for at, what in enumerate(asked := list(left)):
            conditions = terms.substitute(wrong[what], equal)
            share = (end - time.monotonic()) / (len(asked) - at) / patience
            if in_order and sums.long(conditions):
                known = [term for name in pairs if name not in left for _, term in pairs[name]]
                part = _over_any(shared, what, terms.substitute(conditions, dict(same)), known, share / 8)
                if part.outcome == "proved":
                    left.remove(what)
                    parts[what] = part
                    continue
            conditions = sums.ordered(conditions) if in_order else conditions
            rounded = [each for each in terms.order(conditions) if each.op.startswith("pattern")]
            shared.points |= {each.number: each for each in (*rounded, *(sums.long(conditions) if in_order else ()))}
            share = (end - time.monotonic()) / (len(asked) - at) / patience
            parts[what] = _asked(shared, what, wrong[what], conditions, max(share, 0.1))
            if parts[what].outcome == "proved":
                left.remove(what)
                equal |= _words(by_name[what], pairs[what]) if what in pairs else {}
                shared.points |= {each.number: each for each in equal.values() if each.args}
        if not left or time.monotonic() > end or any(part.outcome == "refuted" for part in parts.values()):
            break
    return Proof(together(list(parts.values())), list(parts.values()), "miter")


def _over_any(shared: Shared, what: str, conditions: Sequence[Term], known: Sequence[Term], seconds: float) -> Part:
    """Whether none of some conditions ever holds, for any values of known words in their ranges."""
    words = {each.number: each for each in map(_unextended, known) if each.args}
    free = {number: terms.variable(f"any{number}", each.width) for number, each in words.items()}
    limits = {free[number].number: ranges.signed(each) for number, each in words.items()}
    part = Part(what, "proved", 0.0, "")
    for root in sums.ordered(terms.substitute(conditions, free), limits):
        part = ask(what, [*shared.bounds(root, words, free), root], max(seconds / len(conditions), 0.1))
        if part.outcome != "proved":
            break
    return part


def _unextended(term: Term) -> Term:
    return _unextended(term.args[0]) if term.op in ("sext", "zext") else term


def _asked(shared: Shared, what: str, wrong: list[Term], conditions: Sequence[Term], seconds: float) -> Part:
    """Whether none of some conditions ever holds: all at once, or one by one; proved ones are left out of `wrong`.

    conditions: those of `wrong`, in other words.
    """
    end, several = time.monotonic() + seconds, len(conditions) > 1
    whole = shared.ask(what, terms.any_of(conditions), seconds / 4 if several else seconds)
    if whole.outcome != "undecided" or not several:
        return whole
    for each, condition in zip(list(wrong), conditions, strict=True):
        part = shared.ask(what, condition, max((end - time.monotonic()) / 2, 0.1))
        if part.outcome == "refuted":
            return part
        if part.outcome == "proved":
            wrong.remove(each)
    return whole if wrong else dataclasses.replace(whole, outcome="proved")


def _words(port: Port, pairs: Sequence[tuple[Any, Term]]) -> dict[int, Term]:
    """Words that a compiled text wrote -> those of the readable text in their width, of lanes that are proved equal."""
    answer: dict[int, Term] = {}
    for value, term in pairs:
        written = integer(value)
        if isinstance(written, Int) and written.term.args:
            wide = term if port.signed else terms.zext(term, port.bits + 1)
            answer[written.term.number] = fit(wide, written.term.width)
            low = fit(written.term, port.bits)
            answer[low.number] = term
            if port.encoding in ("f16", "f32"):
                number = f"value{port.bits}"
                answer[terms.fp(number, low).number] = terms.fp(number, term)
    return answer


def value_of_port(port: Port, lanes: Sequence[Term], assumed: list[Term]) -> Any:
    """A scalar, or an array of the lanes of a vector, whose limits are assumed."""
    low, high = port.limits
    values = []
    for term in lanes:
        wide = term if port.signed else terms.zext(term, port.bits + 1)
        free = Int(wide, *integers.limits(port.bits, port.signed))
        assumed += [truth(free >= low), truth(free <= high)]
        values.append(Int(wide, low, high))
    return Array(values, np.int64) if port.lanes else values[0]


def _any(port: Port) -> list[Term]:
    """Variables of a register that an event does not read, as units without registers have them."""
    return [terms.variable(name_of(port, lane, "r_"), port.bits) for lane in range(port.count)]


def _array(port: Port, lanes: Sequence[Term] | None, assumed: list[Term]) -> Array:
    """An array of one device and one event: an input, or zeros."""
    if lanes is None:
        return Array(np.zeros((1, 1, *port.shape), int).tolist(), np.int64)
    value = value_of_port(port, lanes, assumed)
    return Array([[list(value.values) if port.lanes else value]], np.int64)


def _constant(value: Any) -> Any:
    """A constant of `loop`; arrays are nested tuples, of the integers that numba has."""

    def nested(part: Any) -> Any:
        return tuple(map(nested, part)) if isinstance(part, list) else part

    if isinstance(value, np.ndarray):
        if value.dtype not in (np.int64, np.float64):
            raise NotLifted(f"a constant of dtype {value.dtype} in a compiled form")
        return nested(value.tolist())
    return value


def differs(port: Port, value: Any, term: Term) -> Term:
    """Whether an output is not the term, or leaves its port."""
    number = integer(value)
    if number is None:
        raise NotLifted(f"port {port.name}: the compiled form writes no integer")
    low, high = integers.limits(port.bits, port.signed)
    if not isinstance(number, Int):
        return terms.not_(terms.eq(terms.const(int(number), port.bits), term)) if low <= number <= high else terms.TRUE
    written = fit(word(number, max(port.bits, number.term.width)), port.bits)
    inside = terms.and_(truth(number >= low), truth(number <= high))
    return terms.not_(terms.and_(inside, terms.eq(written, term)))
