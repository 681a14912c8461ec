"""Forms of builtins, `math` and `arith.scalar32` on values that depend on inputs.

Each says where it is exact: outside of that domain it demands that no input gets there.
"""

import builtins
import copy
import functools
import inspect
import itertools
import math
import operator
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np

from refemu.arith import checks, rounding, scalar32
from refemu.prove import merging, terms
from refemu.prove.frames import Dead, Filtered, SymbolicRange
from refemu.prove.interpreter import Interpreter
from refemu.prove.merging import Choice, is_symbolic, merge, spread
from refemu.prove.values import (
    Bool,
    Int,
    Real,
    Symbolic,
    Unsupported,
    bounds,
    demand,
    integer,
    made,
    number_of,
    real,
    real_compare,
    truth,
    truth_of,
    word,
)
from refemu.units.declaration import Declared
from refemu.units.ports import in_order
from refemu.units.stepping import Stepped

HANDLERS = Interpreter.handlers


def form_of(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the form of a function; it runs only where an argument depends on inputs."""

    def mark(form: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:

            def handler(run: Interpreter, *args: Any, _function: Any = function, **named: Any) -> Any:
                if not any(map(_special, (*args, *named.values()))):
                    return _function(*args, **named)
                args = tuple(
                    each.values.item() if getattr(each, "ndim", 1) == 0 and run_is_array(each) else each
                    for each in args
                )
                place = next((at for at, each in enumerate(args) if isinstance(each, Choice)), None)
                if place is not None and form not in WHOLE:
                    return run.each_way(
                        args[place], lambda each: handler(run, *args[:place], each, *args[place + 1 :], **named)
                    )
                return form(run, *args, **named)

            HANDLERS[function] = handler
        return form

    return mark


LARGEST = 136  #: bits of an integer from a real number: more than float32 has
WHOLE: set[Any] = set()  #: forms that take a Choice as it is


def run_is_array(value: Any) -> bool:
    """Whether a value is an array that depends on inputs."""
    return type(value).__name__ == "Array"


def _special(value: Any) -> bool:
    return (
        is_symbolic(value)
        or isinstance(value, SymbolicRange | Filtered)
        or type(value).__module__ == "refemu.prove.frames"
        or (callable(value) and not isinstance(value, type))
    )


# numbers


@form_of(int)
def _int(run: Interpreter, value: Any = 0) -> Any:
    if isinstance(value, Real):
        limit = float(1 << LARGEST)
        demand(terms.and_(truth(value < limit), truth(-limit < value)), f"an integer of {LARGEST} bits or more")
        return made(terms.truncated(value.term, LARGEST + 1), -(1 << LARGEST), (1 << LARGEST) - 1)
    return integer(value)


@form_of(operator.index)
def _index(run: Interpreter, value: Any) -> Any:
    return integer(value)


@form_of(bool)
def _bool(run: Interpreter, value: Any) -> Any:
    if isinstance(value, Filtered):
        return truth_of(value.condition())
    return truth_of(truth(value)) if isinstance(value, Symbolic) else bool(len(value))


@form_of(float, np.float64)
def _float(run: Interpreter, value: Any) -> Any:
    return number_of(real(value))


@form_of(round)
def _round(run: Interpreter, value: Any) -> Any:
    return integer(value) if integer(value) is not None else _int(run, number_of(terms.fp("frint", value.term)))


@form_of(math.floor)
def _floor(run: Interpreter, value: Any) -> Any:
    return integer(value) if integer(value) is not None else _int(run, number_of(terms.fp("ffloor", value.term)))


@form_of(math.ceil)
def _ceil(run: Interpreter, value: Any) -> Any:
    return -_floor(run, -value)


@form_of(math.trunc)
def _trunc(run: Interpreter, value: Any) -> Any:
    return _int(run, value)


@form_of(abs)
def _abs(run: Interpreter, value: Any) -> Any:
    return abs(value)


@form_of(divmod)
def _divmod(run: Interpreter, a: Any, b: Any) -> Any:
    return a // b, a % b


@form_of(math.isnan)
def _isnan(run: Interpreter, x: Any) -> Any:
    return truth_of(terms.fp("isnan", real(x)))


@form_of(math.isinf)
def _isinf(run: Interpreter, x: Any) -> Any:
    return truth_of(terms.fp("isinf", real(x)))


@form_of(math.isfinite)
def _isfinite(run: Interpreter, x: Any) -> Any:
    return truth_of(terms.not_(terms.or_(terms.fp("isnan", real(x)), terms.fp("isinf", real(x)))))


@form_of(math.sqrt)
def _sqrt(run: Interpreter, x: Any) -> Any:
    demand(terms.not_(terms.fp("flt", real(x), terms.real(0.0))), "a square root of a negative number")
    return number_of(terms.fp("fsqrt", real(x)))


def _bits(x: Any) -> terms.Term:
    """Pattern of a real number; NaN is the positive quiet one."""
    return terms.fp("pattern64", real(x))


@form_of(math.copysign)
def _copysign(run: Interpreter, x: Any, y: Any) -> Any:
    # the sign of a NaN has no term
    demand(terms.not_(terms.or_(terms.fp("isnan", real(x)), terms.fp("isnan", real(y)))), "a sign of NaN")
    sign, rest = terms.extract(_bits(y), 63, 1), terms.extract(_bits(x), 0, 63)
    return number_of(terms.fp("value64", terms.concat(sign, rest)))


def power_of_two(exponent: Any) -> terms.Term:
    """2**exponent, of a normal number."""
    low, high = bounds(exponent)
    if low < -1022 or high > 1023:
        demand(terms.and_(truth(exponent >= -1022), truth(exponent <= 1023)), "a power of two beyond normal numbers")
    field = terms.extract(word(exponent + 1023, 64), 0, 11)
    return terms.fp("value64", terms.concat(terms.concat(terms.const(0, 1), field), terms.const(0, 52)))


@form_of(math.ldexp)
def _ldexp(run: Interpreter, x: Any, exponent: Any) -> Any:
    """One rounding, as `ldexp`; Python raises where a finite number becomes infinite."""
    result = number_of(terms.fp("fmul", real(x), power_of_two(integer(exponent))))
    fits = terms.or_(terms.not_(truth(_isinf(run, result))), truth(_isinf(run, x)))
    demand(fits, "a result of ldexp beyond real numbers")
    return result


@form_of(math.frexp)
def _frexp(run: Interpreter, x: Any) -> Any:
    """Fraction and exponent of a normal number; 0, infinities and NaN have exponent 0."""
    bits = _bits(x)
    field = terms.extract(bits, 52, 11)
    zero = terms.fp("feq", real(x), terms.real(0.0))
    special = terms.eq(field, terms.const(2047, 11))
    demand(terms.or_(zero, terms.not_(terms.eq(field, terms.const(0, 11)))), "frexp of a subnormal number")
    fraction = terms.concat(terms.extract(bits, 63, 1), terms.concat(terms.const(1022, 11), terms.extract(bits, 0, 52)))
    as_it_is = terms.or_(zero, special)
    exponent = merge(as_it_is, 0, made(terms.zext(field, 12), 0, 2047) - 1022)
    return number_of(terms.ite(as_it_is, real(x), terms.fp("value64", fraction))), exponent


# arith.scalar32


def _pattern(bits: int) -> Callable[..., Any]:
    return lambda run, x: made(terms.zext(terms.fp(f"pattern{bits}", real(x)), bits + 1), 0, (1 << bits) - 1)


def _value(bits: int) -> Callable[..., Any]:
    def of(run: Interpreter, pattern: Any) -> Any:
        low, high = bounds(pattern)
        if low < 0 or high >> bits:
            demand(terms.and_(truth(pattern >= 0), truth(pattern < 1 << bits)), f"a word of more than {bits} bits")
        return number_of(terms.fp(f"value{bits}", word(pattern, bits)))

    return of


form_of(scalar32.pattern16)(_pattern(16))
form_of(scalar32.pattern32)(_pattern(32))
form_of(scalar32.value16)(_value(16))
form_of(scalar32.value32)(_value(32))


@form_of(scalar32.f32)
def _f32(run: Interpreter, x: Any) -> Any:
    return number_of(terms.fp("f32", real(x)))


@form_of(scalar32.div32)
def _div32(run: Interpreter, a: Any, b: Any) -> Any:
    """IEEE 754's quotient, which `div32` has for zeros as well."""
    return number_of(terms.fp("f32", terms.fp("fdiv", real(a), real(b))))


@form_of(scalar32.odd_sum)
def _odd_sum(run: Interpreter, a: Any, b: Any) -> Any:
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    bits = _bits(total)
    exact = terms.or_(terms.not_(truth(_isfinite(run, error))), real_compare("feq", error, 0.0))
    away = terms.eq(terms.fp("flt", terms.real(0.0), real(error)), terms.not_(terms.extract(bits, 63, 1)))
    part_word = terms.const(1, 64)
    other = terms.ite(
        away, terms.add(bits, part_word), terms.sub(bits, part_word)
    )  # as nextafter: total is not 0 where inexact
    stays = terms.or_(exact, terms.extract(bits, 0, 1))
    return number_of(terms.ite(stays, real(total), terms.fp("value64", other)))


@form_of(rounding.shift_round)
def _shift_round(run: Interpreter, n: Any, s: Any, mode: Any) -> Any:
    """n / 2**s, rounded; a negative s shifts left, and the result must fit 64 bits."""
    kind, number, shift = str(getattr(mode, "value", mode)), integer(n), integer(s)
    if kind not in ROUNDED:
        raise Unsupported(f"rounding {kind!r}")
    demand(terms.and_(truth(number > -(1 << 61)), truth(number < 1 << 61)), "a number of shift_round beyond 61 bits")
    low, _high = bounds(shift)
    right = merge(truth(shift < 1), 1, merge(truth(shift > 62), 62, shift))
    half, odd = 1 << (right - 1), (number >> right) & 1
    result = (number + ROUNDED[kind](number, half, odd, right)) >> right
    if low < 1:
        left = merge(truth(shift > 0), 0, -shift)
        if bounds(left)[1] > 62:
            demand(terms.or_(truth(left <= 62), truth(number == 0)), "a shift of shift_round by more than 62")
            left = merge(truth(left > 62), 62, left)
        exact = number << left
        fits = terms.and_(truth(exact >= -(1 << 63)), truth(exact < 1 << 63))
        demand(terms.or_(truth(shift > 0), fits), "a result of shift_round beyond 64 bits")
        result = merge(truth(shift > 0), result, exact)
    return result


#: added before a shift to the right: what carries exactly the values that go up
ROUNDED: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "floor": lambda n, half, odd, s: 0,
    "ceil": lambda n, half, odd, s: (1 << s) - 1,
    "truncate": lambda n, half, odd, s: merge(truth(n < 0), (1 << s) - 1, 0),
    "half_even": lambda n, half, odd, s: half - 1 + odd,
    "half_away": lambda n, half, odd, s: half - merge(truth(n < 0), 1, 0),
    "half_up": lambda n, half, odd, s: half,
}


# containers


@form_of(len)
def _len(run: Interpreter, values: Any) -> Any:
    if isinstance(values, Filtered):
        return values_sum(truth_of(condition) for condition, _ in values.pairs)
    if isinstance(values, merging.Members):
        raise Unsupported("the size of a set that depends on inputs")
    if not isinstance(values, SymbolicRange):
        return len(values)
    return merge(truth(values.stop > values.start), values.stop - values.start, 0)


@form_of(range)
def _range(run: Interpreter, *ends: Any) -> Any:
    start, stop = (0, ends[0]) if len(ends) == 1 else ends[:2]
    if isinstance(start, Int) or len(ends) > 2:
        raise Unsupported("a range whose start or step depends on inputs", _together(ends))
    return SymbolicRange(start, integer(stop))


def _together(values: Any) -> terms.Term:
    """A term that depends on everything that some integers depend on."""
    return functools.reduce(terms.concat, [each.term for each in values if isinstance(each, Int)])


def values_sum(values: Iterable[Any]) -> Any:
    """Sum of integers."""
    return functools.reduce(operator.add, values, 0)


def _listed(run: Interpreter, values: Any) -> list[Any]:
    return [value for _, value in run.whole(values)]


@form_of(tuple)
def _tuple(run: Interpreter, values: Any = ()) -> Any:
    return spread([values], lambda each: tuple(_listed(run, each)))


@form_of(list)
def _list(run: Interpreter, values: Any = ()) -> Any:
    return run.new(_listed(run, _tuple(run, values)))


WHOLE |= {_tuple, _list}


@form_of(set, frozenset)
def _set(run: Interpreter, values: Any) -> Any:
    return merging.Members(_listed(run, values))


@form_of(dict)
def _dict(run: Interpreter, values: Any = (), **named: Any) -> Any:
    return run.new(dict(values, **named))


@form_of(map)
def _map(run: Interpreter, function: Any, *values: Any) -> Any:
    lists = [_listed(run, each) for each in values]
    return run.new([run.call(function, *each) for each in zip(*lists, strict=False)])


@form_of(filter)
def _filter(run: Interpreter, function: Any, values: Any) -> Any:
    kept = [(truth(run.call(function, each) if function else each), each) for each in _listed(run, values)]
    if any(condition.op != "const" for condition, _ in kept):
        return Filtered([pair for pair in kept if pair[0] is not terms.FALSE])
    return [value for condition, value in kept if condition.name]


@form_of(zip)
def _zip(run: Interpreter, *values: Any, strict: bool = False) -> Any:
    endless = [each if isinstance(each, itertools.count | itertools.repeat) else _listed(run, each) for each in values]
    return run.new(list(zip(*endless, strict=strict)))


@form_of(enumerate)
def _enumerate(run: Interpreter, values: Any, start: int = 0) -> Any:
    return run.new(list(enumerate(_listed(run, values), start)))


@form_of(reversed)
def _reversed(run: Interpreter, values: Any) -> Any:
    return run.new(_listed(run, values)[::-1])


@form_of(iter)
def _iter(run: Interpreter, values: Any) -> Any:
    return iter(_listed(run, values))


@form_of(sum)
def _sum(run: Interpreter, values: Any, start: Any = 0) -> Any:
    if isinstance(values, Filtered):
        values = [merge(condition, value, 0) for condition, value in values.pairs]
    for each in _listed(run, values):
        start = run.operate("Add", start, each)
    return start


def _some(values: Any) -> list[tuple[terms.Term, Any]]:
    return list(values.pairs) if isinstance(values, Filtered) else [(terms.TRUE, each) for each in values]


@form_of(any)
def _any(run: Interpreter, values: Any) -> Any:
    return truth_of(terms.any_of(terms.and_(condition, truth(value)) for condition, value in _some(values)))


@form_of(all)
def _all(run: Interpreter, values: Any) -> Any:
    return truth_of(terms.all_of(terms.or_(terms.not_(condition), truth(value)) for condition, value in _some(values)))


def _extreme(largest: bool) -> Callable[..., Any]:
    def of(run: Interpreter, *values: Any, key: Any = None, **default: Any) -> Any:
        pairs = _some(values if len(values) > 1 else values[0])
        if not default:
            demand(terms.any_of(condition for condition, _ in pairs), "an extreme of an empty selection")
        if not pairs:
            return default["default"]
        there, best = pairs[0]
        best_key = run.call(key, best) if key else best
        for condition, each in pairs[1:]:
            its = run.call(key, each) if key else each
            better = merging.ordered(best_key, its) if largest else merging.ordered(its, best_key)
            better = terms.and_(condition, terms.or_(better, terms.not_(there)))
            best, best_key = merge(better, each, best), merge(better, its, best_key)
            there = terms.or_(there, condition)
        return merge(there, best, default["default"]) if default else best

    return of


form_of(max)(_extreme(True))
form_of(min)(_extreme(False))


def _next(run: Interpreter, values: Any, *default: Any) -> Any:
    if isinstance(values, list):  # a generator, whose next element would be the same one again
        run.require_change(values)
        run.freeze(values)
        return next(iter(values), *default)
    if not isinstance(values, Filtered):
        if run.now() is not terms.TRUE:
            raise Unsupported("the next element under a condition that depends on inputs")
        return next(values, *default)
    run.require_change(values)
    run.freeze(values)
    if not default:
        demand(values.condition(), "next of an empty selection")
    result = default[0] if default else values.pairs[-1][1]
    for condition, value in reversed(values.pairs):
        result = merge(condition, value, result)
    return result


HANDLERS[next] = _next


@form_of(sorted)
def _sorted(run: Interpreter, values: Any, *, key: Any = None, reverse: bool = False) -> Any:
    """A stable sort: each element moves left past those that it precedes."""
    items = [(run.call(key, each) if key else each, each) for each in _listed(run, values)]
    if len(items) > 32:
        raise Unsupported(f"a sort of {len(items)} values that depend on inputs")
    for end in range(1, len(items)):
        for at in range(end, 0, -1):
            (a, x), (b, y) = items[at - 1], items[at]
            swap = merging.ordered(a, b) if reverse else merging.ordered(b, a)
            items[at - 1] = merge(swap, b, a), merge(swap, y, x)
            items[at] = merge(swap, a, b), merge(swap, x, y)
    return run.new([value for _, value in items])


@form_of(functools.reduce)
def _reduce(run: Interpreter, function: Any, values: Any, *initial: Any) -> Any:
    items = [*initial, *_listed(run, values)]
    result = items[0]
    for each in items[1:]:
        result = run.call(function, result, each)
    return result


@form_of(itertools.accumulate)
def _accumulate(run: Interpreter, values: Any, function: Any = operator.add, *, initial: Any = None) -> Any:
    items = [*([] if initial is None else [initial]), *_listed(run, values)]
    sums = items[:1]
    for each in items[1:]:
        sums.append(run.call(function, sums[-1], each))
    return run.new(sums)


@form_of(itertools.chain)
def _chain(run: Interpreter, *values: Any) -> Any:
    return run.new([value for each in values for value in _listed(run, each)])


@form_of(isinstance)
def _isinstance(run: Interpreter, value: Any, kinds: Any) -> Any:
    if run_is_array(value):
        return isinstance(np.empty(0, value.dtype), kinds)
    like = {Bool: False, Int: 0, Real: 0.0}
    return isinstance(like.get(type(value), value), kinds)


HANDLERS[getattr] = lambda run, owner, name, *default: spread(
    [owner, name],
    lambda each, word_: run.attribute(each, word_) if not default or hasattr(each, word_) else default[0],
)


@form_of(vars)
def _vars(run: Interpreter, owner: Any) -> Any:
    return vars(owner)


@form_of(copy.copy)
def _copy(run: Interpreter, value: Any) -> Any:
    return copy.copy(value)


for _name in ("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"):

    def _changed(run: Interpreter, owner: list[Any], *args: Any, _name: str = _name, **named: Any) -> Any:
        if not run.certain(owner):
            raise Unsupported(f"a list whose length depends on inputs ({_name})")
        if _name == "sort" and is_symbolic(owner):
            owner[:] = _sorted(run, owner, **named)
            return None
        if (_name in ("pop", "insert") and is_symbolic(args[:1])) or (_name == "remove" and is_symbolic([owner, args])):
            raise Unsupported(f"{_name} at a place that depends on inputs")
        if _name == "extend":
            args = (_listed(run, args[0]),)
        return getattr(owner, _name)(*args, **named)

    HANDLERS[(list, _name)] = _changed

for _name in ("update", "setdefault", "popitem", "clear", "pop"):

    def _changed_dict(run: Interpreter, owner: dict[Any, Any], *args: Any, _name: str = _name, **named: Any) -> Any:
        if _name == "update":
            for key, value in dict(*args, **named).items():
                run.put(owner, key, value)
            return None
        if not run.certain(owner):
            raise Unsupported(f"a dict whose keys depend on inputs ({_name})")
        return getattr(owner, _name)(*args, **named)

    HANDLERS[(dict, _name)] = _changed_dict


def _get(run: Interpreter, owner: dict[Any, Any], key: Any, default: Any = None) -> Any:
    if not is_symbolic(key):
        return owner.get(key, default)
    result = default
    for known, value in owner.items():
        result = merge(merging.equal(key, known), value, result)
    return result


def _item(run: Interpreter, owner: Any, index: Any) -> Any:
    return spread([index], lambda each: run.item(owner, each))


def _count(run: Interpreter, owner: Any, value: Any) -> Any:
    return values_sum(truth_of(merging.equal(each, value)) for each in owner)


def _place(run: Interpreter, owner: Any, value: Any) -> Any:
    tests = [merging.equal(each, value) for each in owner]
    demand(terms.any_of(tests), "index of a value that is missing")
    result: Any = len(owner) - 1
    for at in range(len(owner) - 2, -1, -1):
        result = merge(tests[at], at, result)
    return result


HANDLERS[(dict, "get")] = _get
for _kind in (tuple, list):
    HANDLERS[(_kind, "count")], HANDLERS[(_kind, "index")], HANDLERS[(_kind, "__getitem__")] = _count, _place, _item
HANDLERS[(dict, "__getitem__")] = _item


@form_of(operator.itemgetter)
def _itemgetter(run: Interpreter, *places: Any) -> Any:
    return operator.itemgetter(*places)


@form_of(operator.getitem)
def _getitem(run: Interpreter, owner: Any, index: Any) -> Any:
    return _item(run, owner, index)


HANDLERS[(str, "join")] = lambda run, owner, parts: spread(list(parts), lambda *words: owner.join(words))
HANDLERS[bytearray] = lambda run, values=0: [0] * values if isinstance(values, int) else list(values)
HANDLERS[Stepped.reset] = lambda run, device, state, **registers: Stepped.reset(device, state, **registers)
HANDLERS[operator.eq] = lambda run, a, b: truth_of(merging.equal(a, b))
HANDLERS[operator.ne] = lambda run, a, b: truth_of(terms.not_(merging.equal(a, b)))
HANDLERS[operator.not_] = lambda run, a: truth_of(terms.not_(truth(a)))
for _symbol, _name in (("Lt", "lt"), ("Gt", "gt"), ("LtE", "le"), ("GtE", "ge")):
    HANDLERS[getattr(operator, _name)] = lambda run, a, b, _symbol=_symbol: truth_of(run.compare(_symbol, a, b))


for _function in (checks.at, checks.first_index):
    HANDLERS[_function] = lambda run, *args, _function=_function, **named: (
        "a message" if any(map(is_symbolic, args)) else _function(*args, **named)
    )


# events of units


def commit(run: Interpreter, device: Any, event: Any, inputs: Any, changes: Any) -> Any:
    """As `Declared._commit`, under the present condition; counters are not followed."""
    before = device.state
    after = copy.copy(before)
    fields = vars(after)
    if inputs:
        fields.update({port.name: value for port, value in zip(device.ports.inputs, inputs, strict=True)})
        fields[device.number] = fields[device.number] + 1
    fields["event"] = event
    unknown = set(changes) - set(fields)
    if unknown:
        raise Unsupported(f"a change of {min(unknown)}, which is not an output, register or counter")
    fields.update({name: value for name, value in changes.items() if name not in type(device).counters})
    device.state = after if run.now() is terms.TRUE else merge(run.now(), after, before)
    return after


def event_of(run: Interpreter, device: Any, event: Any, inputs: Any) -> Any:
    """Run one of the events that may come, each under its condition, and commit its changes."""
    before = device.state
    ways = event.ways if isinstance(event, Choice) else [(terms.TRUE, event)]
    after: Any = merging.NEVER
    for condition, name in ways:
        with run.under(condition):
            device.state = before
            changes = run.alive(functools.partial(run.call, getattr(device, name), *inputs))
            if changes is merging.NEVER:
                continue
            inside = device.state  # an event may set the State itself
            for also, each in changes.ways if isinstance(changes, Choice) else [(terms.TRUE, changes)]:
                with run.under(also):
                    device.state = inside
                    state = run.call(device._commit, name, inputs, each)
                after = merge(terms.and_(condition, also), state, after)
    device.state = before
    if after is merging.NEVER:
        raise Dead
    device.state = after if run.now() is terms.TRUE else merge(run.now(), after, before)
    return device.state


def changed(run: Interpreter, device: Any, **fields: Any) -> Any:
    """As `Stepped.changed`."""
    after = copy.copy(run.attribute(device, "state"))
    vars(after).update(fields)
    return after


def latched(run: Interpreter, device: Any, *inputs: Any, **fields: Any) -> Any:
    """As `Stepped.latched`."""
    ports = {port.name: value for port, value in zip(device.ports.inputs, inputs, strict=True)}
    return changed(run, device, **{"index": run.attribute(device, "state").index + 1, **ports, **fields})


def restore(run: Interpreter, device: Any, state: Any) -> None:
    """As `Stepped.restore`, of values that fit their ports."""
    if isinstance(inspect.getattr_static(type(device), "state", None), property):
        run.call(type(device).state.fset, device, state)
    else:
        before = vars(device).get("state", state)
        device.state = state if run.now() is terms.TRUE else merge(run.now(), state, before)


def validate_event(run: Interpreter, device: Any, *values: Any, **named: Any) -> Any:
    """As `Stepped.validate_event`: inputs outside their ports are illegal."""
    inputs = in_order(device.name, device.ports.inputs, values, named)
    for port, value in zip(device.ports.inputs, inputs, strict=True):
        low, high = port.limits
        for lane in value if port.lanes else (value,):
            number = integer(lane)
            least, most = bounds(number)
            if least < low or most > high:
                fits = terms.and_(truth(number >= low), truth(number <= high))
                run.illegal = terms.or_(run.illegal, terms.and_(run.now(), terms.not_(fits)))
    if type(device)._require is not Stepped._require:
        raise Unsupported(f"inputs of {device.name}, which it checks as arrays")
    return inputs


HANDLERS[Stepped.validate_event] = validate_event
HANDLERS[Stepped.changed], HANDLERS[Stepped.latched], HANDLERS[Stepped.restore] = changed, latched, restore
HANDLERS[Declared._commit] = commit
HANDLERS[Declared._open] = lambda run, device, *inputs: event_of(run, device, run.call(device.opens, *inputs), inputs)
HANDLERS[Declared._continue] = lambda run, device: event_of(run, device, run.call(device.follows), ())
__all__ = ["SimpleNamespace", "builtins", "power_of_two"]
