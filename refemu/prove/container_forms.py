"""Forms of builtins on lists, tuples, dicts, sets and iterators whose elements depend on inputs."""

import copy
import functools
import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from refemu.arith import checks
from refemu.prove import merging, terms
from refemu.prove.forms import HANDLERS, WHOLE, form_of, run_is_array
from refemu.prove.frames import Dead, Filtered, SymbolicRange
from refemu.prove.interpreter import Interpreter
from refemu.prove.merging import is_symbolic, merge, spread
from refemu.prove.values import (
    Bool,
    Int,
    Real,
    Unsupported,
    bounds,
    demand,
    integer,
    made,
    truth,
    truth_of,
)


@form_of(len)
def _len(run: Interpreter, values: Any) -> Any:
    if isinstance(values, Filtered):
        return values_sum(truth_of(condition) for condition, _ in values.pairs)
    if isinstance(values, merging.Members):
        raise Unsupported("the size of a set that depends on inputs")
    if not isinstance(values, SymbolicRange):
        return len(merging.whole(values))
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


WHOLE.update({_tuple, _list})


@form_of(set, frozenset)
def _set(run: Interpreter, values: Any) -> Any:
    return merging.Members(_listed(run, values))


@form_of(dict)
def _dict(run: Interpreter, values: Any = (), **named: Any) -> Any:
    return run.new(dict(merging.whole(values), **named))


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
    return run.new([(start + at, each) for at, each in enumerate(_listed(run, values))])


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
        if isinstance(each, float | Real):
            raise Unsupported("a sum of floats, which versions of Python round differently")
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
        if not pairs and not default and run.now() is not terms.TRUE:
            run.demand(terms.FALSE, "an extreme of an empty selection")
            raise Dead
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
            sure = key is None and condition is there is terms.TRUE
            merged = merge(better, each, best)
            best_key = merge(better, its, best_key) if key else merged
            best = _within(merged, best, each, largest) if sure else merged
            best_key = best_key if key else best
            there = terms.or_(there, condition)
        return merge(there, best, default["default"]) if default else best

    return of


def _within(value: Any, a: Any, b: Any, largest: bool) -> Any:
    """The larger or smaller of two integers, with the bounds that it has from both."""
    if not isinstance(value, Int) or isinstance(value, Bool):
        return value
    (p, q), (r, s) = bounds(integer(a)), bounds(integer(b))
    low, high = (max(p, r), value.high) if largest else (value.low, min(q, s))
    return made(value.term, low, high)


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
            more = dict(*args, **named)
            for key, value in merging.joined(owner, more).items():
                if key in more:
                    run.put(owner, key, value)
            return None
        merging.whole(owner)
        if not run.certain(owner):
            raise Unsupported(f"a dict whose keys depend on inputs ({_name})")
        return getattr(owner, _name)(*args, **named)

    HANDLERS[(dict, _name)] = _changed_dict


def _get(run: Interpreter, owner: dict[Any, Any], key: Any, default: Any = None) -> Any:
    if not is_symbolic(key):
        return merging.present(owner[key], default) if key in owner else default
    merging.whole(owner)
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
HANDLERS[operator.eq] = lambda run, a, b: truth_of(merging.equal(a, b))
HANDLERS[operator.ne] = lambda run, a, b: truth_of(terms.not_(merging.equal(a, b)))
HANDLERS[operator.not_] = lambda run, a: truth_of(terms.not_(truth(a)))
for _symbol, _name in (("Lt", "lt"), ("Gt", "gt"), ("LtE", "le"), ("GtE", "ge")):
    HANDLERS[getattr(operator, _name)] = lambda run, a, b, _symbol=_symbol: truth_of(run.compare(_symbol, a, b))


for _function in (checks.at, checks.first_index):
    HANDLERS[_function] = lambda run, *args, _function=_function, **named: (
        "a message" if any(map(is_symbolic, args)) else _function(*args, **named)
    )
