"""One value for two ways that the text may take, and operations on values that are not numbers."""

import copy
import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refemu.prove import terms
from refemu.prove.terms import Term
from refemu.prove.values import (
    Bool,
    Int,
    Obligations,
    Real,
    Unsupported,
    bounds,
    demand,
    integer,
    made,
    number_of,
    real,
    real_compare,
    same,
    truth,
    truth_of,
    word,
)
from refemu.units.declaration import DeclaredState

COMBINED = 1024  #: combinations of values of the arguments of a function that becomes a table
FEW = 64  #: most values of an integer that becomes a word or a key


NEVER: Any = type("Never", (), {"__repr__": lambda self: "no value"})()  #: result of a call that always raises


ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "no entry"})()  #: value of a key that a dict may lack


class Choice:
    """One of several values that no term has, such as words: each with the condition under which it is the value."""

    def __init__(self, ways: Sequence[tuple[Term, Any]]) -> None:
        self.ways = ways

    def condition(self) -> Term:
        """What a test takes of the value."""
        return terms.any_of(terms.and_(condition, truth(value)) for condition, value in self.ways)

    def __bool__(self) -> bool:
        raise Unsupported("a truth value that depends on inputs", self.ways[0][0])

    __hash__: Any = None

    def __deepcopy__(self, memo: object) -> "Choice":
        return self


class Members(tuple[Any, ...]):
    """Elements of a set that depend on inputs; some may be equal."""


def choice(ways: Sequence[tuple[Term, Any]]) -> Any:
    """A Choice, or its only value."""
    kept = [(condition, value) for condition, value in ways if condition is not terms.FALSE]
    return kept[0][1] if len(kept) == 1 else Choice(kept)


def ways_of(value: Any) -> Sequence[tuple[Term, Any]]:
    """Conditions and values of a Choice, or of an integer with few values."""
    if isinstance(value, Choice):
        return value.ways
    number = integer(value)
    if isinstance(number, Int) and number.high - number.low < FEW:
        return [(same(number, each), each) for each in range(number.low, number.high + 1)]
    return [(terms.TRUE, value)]


def combined(values: Sequence[Any]) -> list[tuple[Term, tuple[int, ...]]]:
    """Each combination of values of some integers, with its condition; none if they are too many, or one is certain."""
    numbers = [integer(each) for each in values]
    if any(each is None for each in numbers) or not any(isinstance(each, Int) for each in numbers):
        return []
    if math.prod(high - low + 1 for low, high in map(bounds, numbers)) > COMBINED:
        return []
    each = [
        [(same(number, value), value) for value in range(low, high + 1)]
        for number in numbers
        for low, high in [bounds(number)]
    ]
    return [
        (terms.all_of(test for test, _ in row), tuple(value for _, value in row)) for row in itertools.product(*each)
    ]


def table(rows: Sequence[tuple[Term, Any]]) -> Any:
    """The result in a table: tuples of one length are one value, others are a choice."""
    groups: dict[Any, Any] = {}
    for condition, value in rows:
        kind = type(value), len(value) if isinstance(value, tuple) else None
        known = groups.get(kind)
        groups[kind] = (
            (terms.or_(known[0], condition), merge(condition, value, known[1])) if known else (condition, value)
        )
    return choice(list(groups.values()))


def is_symbolic(value: Any) -> bool:
    """Whether a value depends on inputs."""
    kind = type(value)
    if kind in PLAIN:
        return False
    if kind in (Int, Bool, Real, Choice) or kind.__name__ in ("Array", "Filtered", "SymbolicRange"):
        return True
    if isinstance(value, tuple | list):
        return any(is_symbolic(each) for each in value if type(each) not in PLAIN)
    if isinstance(value, dict):
        return any(map(is_symbolic, value.values()))
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(map(is_symbolic, value.flat))
    if isinstance(value, DeclaredState) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return any(map(is_symbolic, vars(value).values())) if hasattr(value, "__dict__") else False
    return False


PLAIN = frozenset((int, bool, float, str, bytes, type(None), slice, range))


def merge(test: Term, a: Any, b: Any) -> Any:
    """`a` where `test` holds, else `b`."""
    if a is b or test is terms.TRUE or b is NEVER:
        return a
    if test is terms.FALSE or a is NEVER:
        return b
    if isinstance(a, bool | Bool) and isinstance(b, bool | Bool):
        return truth_of(terms.ite(test, _bit(a), _bit(b)))
    x, y = integer(a), integer(b)
    if x is not None and y is not None:
        return _integers(test, x, y)
    if isinstance(a, float | Real) and isinstance(b, float | Real):
        return number_of(terms.ite(test, real(a), real(b)))
    if type(a) is type(b):
        merged = _alike(test, a, b)
        if merged is not None:
            if Obligations.current is not None and isinstance(a, list | dict):
                Obligations.current.freeze(a, b, merged)
            return merged
    return choice(
        [(terms.and_(test, each), value) for each, value in _ways(a)]
        + [(terms.and_(terms.not_(test), each), value) for each, value in _ways(b)]
    )


def _ways(value: Any) -> Sequence[tuple[Term, Any]]:
    return value.ways if isinstance(value, Choice) else [(terms.TRUE, value)]


def _bit(value: Any) -> Term:
    return value.term if isinstance(value, Bool) else terms.const(value, 1)


def _integers(test: Term, a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and a == b:
        return a
    (p, q), (r, s) = bounds(a), bounds(b)
    low, high = min(p, r), max(q, s)
    if isinstance(a, Int) and isinstance(b, Int) and a.term is b.term:
        return Int(a.term, low, high)
    width = max(low.bit_length(), high.bit_length()) + 1
    return made(terms.ite(test, word(a, width), word(b, width)), low, high)


def _alike(test: Term, a: Any, b: Any) -> Any:
    """Two values of one type; None if they do not match."""
    if type(a).__name__ == "Array":
        if a.shape != b.shape or a.dtype != b.dtype:
            return None
        parts = [merge(test, x, y) for x, y in zip(a.values.ravel(), b.values.ravel(), strict=True)]
        answer = np.empty(len(parts), object)
        answer[:] = parts
        return type(a)(answer.reshape(a.shape), a.dtype)
    if isinstance(a, tuple | list) and len(a) == len(b):
        parts = [merge(test, x, y) for x, y in zip(a, b, strict=True)]
        return a._make(parts) if hasattr(a, "_make") else type(a)(parts)
    if isinstance(a, dict) and a.keys() == b.keys():
        return {name: merge(test, value, b[name]) for name, value in a.items()}
    if isinstance(a, np.ndarray) and a.shape == b.shape:
        if a.dtype != object and b.dtype != object and np.array_equal(a, b):
            return a
        merged = np.empty(a.shape, object)
        merged.flat[:] = [merge(test, x, y) for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)]
        return merged
    if isinstance(a, DeclaredState) or dataclasses.is_dataclass(a):
        if not hasattr(a, "__dict__"):
            return None
        record: Any = copy.copy(a)
        vars(record).update({name: merge(test, value, vars(b)[name]) for name, value in vars(a).items()})
        return record
    if isinstance(a, str | range | type | frozenset | set) and a == b:
        return a
    return None


def absence(value: Any) -> Term:
    """Whether a dict lacks the key of a value."""
    if value is ABSENT:
        return terms.TRUE
    ways = value.ways if isinstance(value, Choice) else ()
    return terms.any_of(condition for condition, each in ways if each is ABSENT)


def present(value: Any, default: Any) -> Any:
    """A value of a dict, or a default where the dict lacks its key."""
    if absence(value) is terms.FALSE:
        return value
    result = default
    for condition, each in reversed(_ways(value)):
        result = merge(condition, default if each is ABSENT else each, result)
    return result


def given(value: Any) -> Any:
    """A value of a dict that has its key."""
    ways = [(condition, each) for condition, each in value.ways if each is not ABSENT]
    result = ways[-1][1]
    for condition, each in ways[-2::-1]:
        result = merge(condition, each, result)
    return result


def united(value: Any) -> Any:
    """One dict for several, which may lack keys; other values as they are."""
    if not isinstance(value, Choice) or not all(isinstance(each, dict) for _, each in value.ways):
        return value
    answer: dict[Any, Any] = {}
    for name in dict.fromkeys(name for _, each in value.ways for name in each):
        answer[name] = ABSENT
        for condition, each in reversed(value.ways):
            answer[name] = merge(condition, each.get(name, ABSENT), answer[name])
    return answer


def joined(first: dict[Any, Any], second: dict[Any, Any]) -> dict[Any, Any]:
    """The entries of two dicts, as `|`; those of the second count where it has them."""
    return first | {name: present(value, first.get(name, ABSENT)) for name, value in second.items()}


def whole(values: Any) -> Any:
    """A dict that has all of its keys, whatever the inputs are."""
    if isinstance(values, dict):
        for name, value in values.items():
            if absence(value) is not terms.FALSE:
                raise Unsupported(f"a dict that may lack {name!r}", absence(value))
    return values


def spread(values: Sequence[Any], operation: Callable[..., Any]) -> Any:
    """An operation on values of which some are Choices: one result for all ways."""
    place = next((at for at, each in enumerate(values) if isinstance(each, Choice)), None)
    if place is None:
        return operation(*values)
    return of_ways(values[place].ways, lambda each: spread([*values[:place], each, *values[place + 1 :]], operation))


def of_ways(ways: Sequence[tuple[Term, Any]], operation: Callable[[Any], Any]) -> Any:
    """Results of an operation on each way, as one value; ways that cannot be taken may fail."""
    result: Any = None
    started = False
    for condition, value in reversed(list(ways)):
        each = operation(value)
        result = merge(condition, each, result) if started else each
        started = True
    return result


def equal(a: Any, b: Any) -> Term:
    """Whether two values are equal, as `==`."""
    if isinstance(a, Choice) or isinstance(b, Choice):
        pairs = [(terms.and_(p, q), equal(x, y)) for p, x in _ways(a) for q, y in _ways(b)]
        return terms.any_of(terms.and_(condition, each) for condition, each in pairs)
    if isinstance(a, Members) or isinstance(b, Members):
        raise Unsupported("a comparison of sets that depend on inputs")
    x, y = integer(a), integer(b)
    if x is not None and y is not None:
        return same(x, y)
    if isinstance(a, float | Real) or isinstance(b, float | Real):
        if all(isinstance(each, float | Real | Int | int) for each in (a, b)):
            return real_compare("feq", a, b)
        return terms.FALSE
    if isinstance(a, tuple | list) and isinstance(b, tuple | list) and isinstance(a, tuple) == isinstance(b, tuple):
        if len(a) != len(b):
            return terms.FALSE
        return terms.all_of(equal(p, q) for p, q in zip(a, b, strict=True))
    if is_symbolic(a) or is_symbolic(b):
        if a is None or b is None or isinstance(a, str) or isinstance(b, str):
            return terms.FALSE
        raise Unsupported(f"a comparison of {type(a).__name__} and {type(b).__name__}")
    return terms.const(bool(a == b), 1)


def contained(value: Any, values: Any) -> Term:
    """Whether a value is in a container, as `in`."""
    if isinstance(values, Choice) or not (is_symbolic(value) or is_symbolic(values) or hasattr(values, "most")):
        answer = spread([values], lambda each: truth_of(contained(value, each)) if is_symbolic(each) else value in each)
        return answer.term if isinstance(answer, Bool) else terms.const(bool(answer), 1)
    if hasattr(values, "most"):  # a range whose end depends on inputs
        return terms.and_(terms.not_(_less(value, values.start)), _less(value, values.stop))
    if isinstance(values, range) and values.step == 1:
        return terms.and_(terms.not_(_less(value, values.start)), _less(value, values.stop))
    if isinstance(values, dict):
        entries = ((equal(value, key), terms.not_(absence(each))) for key, each in values.items())
        return terms.any_of(terms.and_(*pair) for pair in entries)
    return terms.any_of(equal(value, each) for each in values)


def _less(a: Any, b: Any) -> Term:
    less = a < b
    return less.term if isinstance(less, Bool) else terms.const(bool(less), 1)


def ordered(a: Any, b: Any) -> Term:
    """Whether a < b, also of tuples."""
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        result = terms.const(len(a) < len(b), 1)
        for x, y in reversed(list(zip(a, b, strict=False))):
            result = terms.or_(ordered(x, y), terms.and_(equal(x, y), result))
        return result
    return _less(a, b)


def element(values: Sequence[Any], index: Any) -> Any:
    """An element at an index that depends on inputs: a tree of multiplexers."""
    number, count = integer(index), len(values)
    low, high = bounds(number)
    if low < -count or high >= count:
        demand(terms.and_(_less(number, count), terms.not_(_less(number, -count))), "an index out of range")
    if low < 0:
        number = merge(_less(number, 0), number + count, number)
        low, high = bounds(number)
    low, high = max(low, 0), min(high, count - 1)
    if isinstance(number, int):
        return values[number]
    if count > 1 << 16:
        raise Unsupported(f"an index into {count} values")
    bits = high.bit_length()
    pattern = word(Int(number.term, min(number.low, 0), max(number.high, 1)), max(bits + 1, number.term.width))
    level = [values[max(at, low)] for at in range(high + 1)]  # lower ones never come
    for place in range(bits):
        bit = terms.extract(pattern, place, 1)
        level = [
            merge(bit, level[at + 1], level[at]) if at + 1 < len(level) else level[at] for at in range(0, len(level), 2)
        ]
    return level[0]
