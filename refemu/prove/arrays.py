"""Arrays of NumPy whose elements depend on inputs: integers that wrap in their dtype, truth values, and floats.

An operation has NumPy's dtype of its result; float16 and float32 results are rounded once, which is exact for sums,
products, quotients and roots of such numbers computed in binary64.
"""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from refemu.arith import fp16, rounding
from refemu.prove import merging, terms
from refemu.prove.calls import Calls
from refemu.prove.interpreter import Interpreter
from refemu.prove.merging import is_symbolic, merge
from refemu.prove.number_forms import power_of_two, with_sign
from refemu.prove.values import (
    Bool,
    Int,
    Real,
    Unsupported,
    bounds,
    demand,
    integer,
    made,
    number_of,
    real,
    truth,
    truth_of,
    word,
)


class Array:
    """Values in an array of objects, and the dtype that NumPy would have."""

    __array_priority__ = 1000
    __array_ufunc__ = None

    def __init__(self, values: Any, dtype: Any) -> None:
        self.values: np.ndarray = np.asarray(values, object)
        self.dtype: np.dtype = np.dtype(dtype)

    shape: Any = property(lambda self: self.values.shape)
    ndim: Any = property(lambda self: self.values.ndim)
    size: Any = property(lambda self: self.values.size)
    itemsize: Any = property(lambda self: self.dtype.itemsize)
    flags: Any = property(lambda self: SimpleNamespace(writeable=True))
    T: Any = property(lambda self: Array(self.values.T, self.dtype))

    def map(self, function: Callable[[Any], Any], dtype: Any = None) -> "Array":
        """A function of each element."""
        answer = np.empty(self.shape, object)
        for place in np.ndindex(self.shape):
            answer[place] = function(self.values[place])
        return Array(answer, self.dtype if dtype is None else dtype)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Any:
        return (self[place] for place in range(len(self.values)))

    def condition(self) -> terms.Term:
        """What a test takes of an array of one element."""
        if self.size != 1:
            raise Unsupported("a truth value of an array")
        return truth(self.values.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise Unsupported("a truth value of an array")
        return bool(self.values.item())

    def __getitem__(self, index: Any) -> Any:
        if is_symbolic(index):
            if isinstance(index, Int) and self.ndim == 1:
                return Array(merging.element(list(self.values), index), self.dtype)
            raise Unsupported("an index of an array that depends on inputs")
        return Array(self.values[index], self.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        now = Interpreter.current.now() if Interpreter.current else terms.TRUE  # type: ignore[attr-defined]
        new = np.broadcast_to(self._cast(value).values, np.shape(self.values[index]))
        if now is terms.TRUE:
            self.values[index] = new if np.ndim(self.values[index]) else new.item()
            return
        old = Array(self.values[index], self.dtype)
        merged = each(lambda a, b: merge(now, a, b), self.dtype, Array(new, self.dtype), old).values
        self.values[index] = merged if merged.ndim else merged.item()

    def _cast(self, value: Any) -> "Array":
        """Values in the dtype of the array; NumPy rejects an integer of Python that does not fit."""
        operand = as_array(value)
        if self.dtype.kind in "iu" and not isinstance(value, Array | np.ndarray | np.generic):
            info = np.iinfo(self.dtype)
            for each_ in operand.values.ravel():
                low, high = bounds(integer(each_)) if integer(each_) is not None else (0, 0)
                if low < info.min or high > info.max:
                    fits = terms.and_(truth(each_ >= int(info.min)), truth(each_ <= int(info.max)))
                    demand(fits, f"an element of {self.dtype} out of range")
        return operand.astype(self.dtype)

    def any(self, axis: Any = None) -> Any:
        return self.reduced(lambda xs: truth_of(terms.any_of(map(truth, xs))), axis, bool)

    def all(self, axis: Any = None) -> Any:
        return self.reduced(lambda xs: truth_of(terms.all_of(map(truth, xs))), axis, bool)

    def total(self, axis: Any = None, dtype: Any = None) -> Any:
        wide = np.int64 if self.dtype.kind in "bi" else np.uint64 if self.dtype.kind == "u" else self.dtype
        if self.dtype.kind == "f":
            raise Unsupported("a sum of floats by NumPy")
        return self.reduced(lambda xs: functools.reduce(operator.add, xs, 0), axis, dtype or wide)

    def __getattr__(self, name: str) -> Any:
        if name == "sum":  # NumPy's name; of integers only
            return self.total
        raise AttributeError(name)

    def max(self, axis: Any = None, initial: Any = None) -> Any:
        if self.dtype.kind == "f":
            raise Unsupported("an extreme of floats by NumPy")
        first = [] if initial is None else [initial]
        return self.reduced(lambda xs: _extreme([*first, *xs], True), axis, self.dtype)

    def min(self, axis: Any = None) -> Any:
        if self.dtype.kind == "f":
            raise Unsupported("an extreme of floats by NumPy")
        return self.reduced(lambda xs: _extreme(xs, False), axis, self.dtype)

    def reduced(self, function: Callable[[list[Any]], Any], axis: Any, dtype: Any) -> Any:
        """A function of the elements along an axis, or of all."""
        if axis is None:
            return Array(fitted(function(list(self.values.ravel())), np.dtype(dtype)), dtype)
        moved = np.moveaxis(self.values, axis, -1)
        answer = np.empty(moved.shape[:-1], object)
        for place in np.ndindex(answer.shape):
            answer[place] = fitted(function(list(moved[place])), np.dtype(dtype))
        return Array(answer, dtype)

    def reshape(self, *shape: Any) -> "Array":
        return Array(self.values.reshape(*shape), self.dtype)

    def ravel(self) -> "Array":
        return Array(self.values.ravel(), self.dtype)

    def copy(self) -> "Array":
        return Array(self.values.copy(), self.dtype)

    def tolist(self) -> Any:
        return self.values.tolist()

    def item(self) -> Any:
        return self.values.item()

    def astype(self, dtype: Any, copy: bool = True) -> "Array":
        kind = np.dtype(dtype)
        return self.map(lambda x: cast(x, self.dtype, kind), kind)

    def view(self, dtype: Any) -> "Array":
        kind = np.dtype(dtype)
        if kind.itemsize != self.dtype.itemsize:
            raise Unsupported(f"a view of {self.dtype} as {kind}")
        bits = 8 * kind.itemsize
        if kind.kind == "f":
            return self.map(lambda x: value_of(x, bits), kind)
        if self.dtype.kind == "f":
            return self.map(lambda x: fitted(pattern_of(x, bits), kind), kind)
        return self.map(lambda x: fitted(x, kind), kind)

    def __invert__(self) -> "Array":
        if self.dtype.kind == "b":
            return self.map(lambda x: truth_of(terms.not_(truth(x))))
        return self.map(lambda x: fitted(~x, self.dtype))

    def __neg__(self) -> "Array":
        return self.map(lambda x: fitted(-x, self.dtype))

    def __abs__(self) -> "Array":
        return self.map(lambda x: fitted(abs(x), self.dtype))

    __hash__: Any = None


def _extreme(values: list[Any], largest: bool) -> Any:
    best = values[0]
    for each_ in values[1:]:
        best = merge(merging.ordered(best, each_) if largest else merging.ordered(each_, best), each_, best)
    return best


def fitted(value: Any, dtype: np.dtype) -> Any:
    """A value as an element of a dtype: integers wrap, floats are rounded."""
    if dtype.kind == "b":
        return truth_of(truth(value)) if is_symbolic(value) else bool(value)
    if dtype.kind == "f":
        term = real(value)
        if dtype.itemsize == 4:
            term = terms.fp("f32", term)
        elif dtype.itemsize == 2:
            term = terms.fp("value16", terms.fp("pattern16", term))
        return number_of(term)
    number = integer(value)
    if number is None:
        raise Unsupported(f"an element of {dtype} from {type(value).__name__}")
    info = np.iinfo(dtype)
    low, high = bounds(number)
    if info.min <= low and high <= info.max:
        return number
    return ((number - int(info.min)) & ((1 << info.bits) - 1)) + int(info.min)


def cast(value: Any, before: np.dtype, after: np.dtype) -> Any:
    """An element in another dtype; floats become integers towards 0, which must fit."""
    if before.kind == "f" and after.kind in "iu":
        number = Interpreter.handlers[int](None, value)
        info = np.iinfo(after)
        if isinstance(number, Int):
            demand(
                terms.and_(truth(number >= int(info.min)), truth(number <= int(info.max))), "a float beyond its integer"
            )
            low, high = max(number.low, int(info.min)), min(number.high, int(info.max))
            return Int(number.term, low, high)
        return number
    return fitted(value, after)


def value_of(code: Any, bits: int) -> Any:
    """The float of a pattern."""
    number = integer(code)
    low, _ = bounds(number)
    pattern = number & ((1 << bits) - 1) if low < 0 else number
    return number_of(terms.fp(f"value{bits}", word(pattern, bits)))


def pattern_of(value: Any, bits: int) -> Any:
    """The pattern of a float; a NaN must be the positive quiet one, which refemu makes of every NaN."""
    return made(terms.zext(terms.fp(f"pattern{bits}", real(value)), bits + 1), 0, (1 << bits) - 1)


def as_array(value: Any, dtype: Any = None) -> Array:
    """Values as an Array."""
    if isinstance(value, Array):
        return value if dtype is None else value.astype(dtype)
    if isinstance(value, np.ndarray | np.generic):
        answer = Array(np.array(value.tolist(), object).reshape(value.shape), value.dtype)
    else:
        values = np.empty(_shape(value), object)
        kinds = set()
        for place in np.ndindex(values.shape):
            item = value
            for at in place:
                item = item[at]
            kinds.add(
                np.dtype(bool)
                if isinstance(item, bool | Bool)
                else np.dtype(float if isinstance(item, float | Real) else int)
            )
            if isinstance(item, Array):
                kinds = {item.dtype}
                item = item.values.item()
            values[place] = item
        answer = Array(values, np.result_type(*kinds) if kinds else float)
    return answer if dtype is None else answer.astype(dtype)


def _shape(value: Any) -> tuple[int, ...]:
    if isinstance(value, Array | np.ndarray):
        return tuple(value.shape)
    return (len(value), *(_shape(value[0]) if len(value) else ())) if isinstance(value, list | tuple) else ()


def kind_of(value: Any) -> Any:
    """What a value brings to the dtype of a result: a number of Python only its kind."""
    if isinstance(value, Array | np.ndarray | np.generic):
        return value.dtype
    return False if isinstance(value, bool | Bool) else 0 if integer(value) is not None else 0.0


def each(function: Callable[..., Any], dtype: Any, *operands: Any) -> Array:
    """A function of the elements of arrays, broadcast."""
    arrays = [as_array(operand) for operand in operands]
    parts = np.broadcast_arrays(*(array.values for array in arrays))
    answer = np.empty(parts[0].shape, object)
    for place in np.ndindex(answer.shape):
        answer[place] = function(*(part[place] for part in parts))
    return Array(answer, dtype)


def _arithmetic(operation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def of(a: Any, b: Any) -> Array:
        dtype = np.result_type(kind_of(a), kind_of(b))
        if dtype.kind == "b" and operation not in (operator.and_, operator.or_, operator.xor):
            raise Unsupported("arithmetic on truth values of NumPy")
        return each(lambda x, y: fitted(operation(x, y), dtype), dtype, a, b)

    return of


def _test(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda a, b: each(lambda x, y: truth_of(function(x, y)), bool, a, b)


def _less(a: Any, b: Any) -> Any:
    return merging.ordered(a, b)


OPERATIONS: dict[str, Callable[..., Array]] = {
    "add": _arithmetic(operator.add),
    "sub": _arithmetic(operator.sub),
    "mul": _arithmetic(operator.mul),
    "and": _arithmetic(operator.and_),
    "or": _arithmetic(operator.or_),
    "xor": _arithmetic(operator.xor),
    "lshift": _arithmetic(operator.lshift),
    "rshift": _arithmetic(operator.rshift),
    "floordiv": _arithmetic(operator.floordiv),
    "mod": _arithmetic(operator.mod),
    "truediv": lambda a, b: _divided(a, b),
}
TESTS: dict[str, Callable[..., Array]] = {
    "eq": _test(merging.equal),
    "ne": _test(lambda a, b: terms.not_(merging.equal(a, b))),
    "lt": _test(_less),
    "gt": _test(lambda a, b: _less(b, a)),
    "le": _test(lambda a, b: truth(a <= b)),
    "ge": _test(lambda a, b: truth(a >= b)),
}


def _divided(a: Any, b: Any) -> Array:
    dtype = np.result_type(kind_of(a), kind_of(b), 0.0)
    return each(lambda x, y: fitted(number_of(terms.fp("fdiv", real(x), real(y))), dtype), dtype, a, b)


for _name, _operation in (OPERATIONS | TESTS).items():
    setattr(Array, f"__{_name}__", _operation)
    if _name in OPERATIONS:
        setattr(Array, f"__r{_name}__", lambda a, b, _operation=_operation: _operation(b, a))


def is_array(value: Any) -> bool:
    """Whether a value, or one inside it, is an Array."""
    if isinstance(value, list | tuple):
        return any(is_array(each_) for each_ in value if type(each_) not in SCALARS)
    return isinstance(value, Array)


SCALARS = frozenset((int, bool, float, str, type(None), Int, Bool, Real))


def _stack(arrays: Sequence[Any], axis: int = 0) -> Array:
    parts = [as_array(array) for array in arrays]
    return Array(np.stack([part.values for part in parts], axis), np.result_type(*(part.dtype for part in parts)))


def _concatenate(arrays: Sequence[Any], axis: int = 0) -> Array:
    parts = [as_array(array) for array in arrays]
    return Array(np.concatenate([part.values for part in parts], axis), np.result_type(*(p.dtype for p in parts)))


def _where(test: Any, a: Any, b: Any) -> Array:
    dtype = np.result_type(kind_of(a), kind_of(b))
    return each(lambda c, x, y: merge(truth(c), fitted(x, dtype), fitted(y, dtype)), dtype, test, a, b)


def _truncated(value: Any) -> Any:
    """A float without its fraction; -0.0 where it was negative."""
    number = real(value)
    up = terms.fp("fneg", terms.fp("ffloor", terms.fp("fneg", number)))
    return number_of(terms.ite(terms.fp("flt", number, terms.real(0.0)), up, terms.fp("ffloor", number)))


def _scaled(x: Any, exponent: Any) -> Array:
    """As `numpy.ldexp` of binary64: one rounding, and infinite where it is too large."""
    if kind_of(x) != np.float64:
        raise Unsupported("numpy.ldexp of other numbers than binary64")
    return each(lambda a, e: number_of(terms.fp("fmul", real(a), power_of_two(integer(e)))), float, x, exponent)


def _parts(x: Any) -> tuple[Array, Array]:
    """As `numpy.frexp` of finite binary64 numbers."""
    array = as_array(x, float)
    for value in array.values.ravel():
        demand(truth(_finite(Array(value, float))), "numpy.frexp of infinity or NaN")
    pairs = array.map(lambda value: Interpreter.handlers[math.frexp](Interpreter.current, value))
    return pairs.map(lambda pair: pair[0], float), pairs.map(lambda pair: pair[1], np.int32)


def _float(op: str) -> Callable[..., Array]:
    return lambda x: as_array(x).map(lambda each_: fitted(number_of(terms.fp(op, real(each_))), as_array(x).dtype))


def _chosen(largest: bool) -> Callable[..., Array]:
    def of(a: Any, b: Any) -> Array:
        dtype = np.result_type(kind_of(a), kind_of(b))
        if dtype.kind == "f":
            raise Unsupported("an extreme of floats by NumPy")
        return each(lambda x, y: _extreme([fitted(x, dtype), fitted(y, dtype)], largest), dtype, a, b)

    return of


def _finite(x: Any) -> Array:
    def finite(value: Any) -> Any:
        return truth_of(terms.not_(terms.or_(terms.fp("isnan", real(value)), terms.fp("isinf", real(value)))))

    return as_array(x).map(finite, bool)


#: functions of NumPy by name
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "asarray": lambda x, dtype=None: as_array(x, dtype),
    "array": lambda x, dtype=None, copy=True: as_array(x, dtype).copy(),
    "ascontiguousarray": lambda x, dtype=None: as_array(x, dtype),
    "where": _where,
    "any": lambda x, axis=None: as_array(x).any(axis),
    "all": lambda x, axis=None: as_array(x).all(axis),
    "sum": lambda x, axis=None, dtype=None: as_array(x).total(axis, dtype),
    "max": lambda x, axis=None: as_array(x).max(axis),
    "min": lambda x, axis=None: as_array(x).min(axis),
    "maximum": _chosen(True),
    "minimum": _chosen(False),
    "shape": lambda x: as_array(x).shape,
    "ndim": lambda x: as_array(x).ndim,
    "size": lambda x: as_array(x).size,
    "reshape": lambda x, shape: as_array(x).reshape(shape),
    "broadcast_to": lambda x, shape: Array(np.broadcast_to(as_array(x).values, shape), as_array(x).dtype),
    "zeros_like": lambda x, dtype=None: Array(np.zeros(as_array(x).shape, object), dtype or as_array(x).dtype),
    "stack": _stack,
    "concatenate": _concatenate,
    "abs": lambda x: abs(as_array(x)),
    "sqrt": _float("fsqrt"),
    "rint": _float("frint"),
    "floor": _float("ffloor"),
    "trunc": lambda x: as_array(x).map(_truncated),
    "ldexp": _scaled,
    "frexp": _parts,
    "isnan": lambda x: as_array(x).map(lambda v: truth_of(terms.fp("isnan", real(v))), bool),
    "isinf": lambda x: as_array(x).map(lambda v: truth_of(terms.fp("isinf", real(v))), bool),
    "isfinite": _finite,
    "ravel": lambda x: as_array(x).ravel(),
    "count_nonzero": lambda x: as_array(x).map(lambda v: truth_of(truth(v)), bool).total(),
    "logical_and": lambda a, b: each(lambda x, y: truth_of(terms.and_(truth(x), truth(y))), bool, a, b),
    "logical_or": lambda a, b: each(lambda x, y: truth_of(terms.or_(truth(x), truth(y))), bool, a, b),
    "isin": lambda x, known: as_array(x).map(
        lambda v: truth_of(merging.contained(v, np.asarray(known).tolist())), bool
    ),
    "diff": lambda x, axis=-1, prepend=None: _diff(as_array(x), axis, prepend),
}
for _name in (
    "float16",
    "float32",
    "float64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
):
    FUNCTIONS[_name] = lambda x=0, _name=_name: as_array(x, _name)


def _moved(x: Any, source: int, target: int) -> Array:
    return Array(np.moveaxis(as_array(x).values, source, target), as_array(x).dtype)


FUNCTIONS["absolute"] = FUNCTIONS["abs"]
FUNCTIONS["moveaxis"] = _moved
FUNCTIONS["copysign"] = lambda x, y: each(with_sign, np.result_type(kind_of(x), kind_of(y)), x, y)
FUNCTIONS["atleast_1d"] = lambda x: Array(np.atleast_1d(as_array(x).values), as_array(x).dtype)
FUNCTIONS["transpose"] = lambda x, axes=None: Array(np.transpose(as_array(x).values, axes), as_array(x).dtype)
FUNCTIONS["repeat"] = lambda x, count, axis=None: Array(np.repeat(as_array(x).values, count, axis), as_array(x).dtype)


def _sorted(x: Any, axis: int = -1, kind: str = "") -> Array:
    """Each row along the last axis in ascending order."""
    array = as_array(x)
    if array.dtype.kind == "f" or axis not in (-1, array.ndim - 1):
        raise Unsupported("a sort of floats, or along another axis than the last")
    rows = array.values.reshape(-1, array.shape[-1]).copy()
    for row in rows:
        row[:] = Interpreter.handlers[sorted](Interpreter.current, list(row))
    return Array(rows.reshape(array.shape), array.dtype)


FUNCTIONS["sort"] = _sorted


def _running(x: Any, axis: int = -1, dtype: Any = None) -> Array:
    """Sums of integers up to each element along the last axis."""
    array = as_array(x, dtype)
    if array.dtype.kind == "f" or axis not in (-1, array.ndim - 1):
        raise Unsupported("running sums of floats, or along another axis than the last")
    answer = array.values.copy()
    for at in range(1, array.shape[-1]):
        answer[..., at] = OPERATIONS["add"](
            Array(answer[..., at - 1], array.dtype), Array(answer[..., at], array.dtype)
        ).values
    return Array(answer, array.dtype)


FUNCTIONS["cumsum"] = _running


def _along(x: Any, index: Any, axis: int = -1) -> Array:
    """Elements at places along the last axis."""
    array, places = as_array(x), as_array(index)
    if axis not in (-1, array.ndim - 1):
        raise Unsupported("places along another axis than the last")
    leading = np.broadcast_shapes(array.shape[:-1], places.shape[:-1])
    rows = np.broadcast_to(array.values, (*leading, array.shape[-1]))
    answer = np.broadcast_to(places.values, (*leading, places.shape[-1])).copy()
    for place in np.ndindex(answer.shape):
        answer[place] = merging.element(list(rows[place[:-1]]), answer[place])
    return Array(answer, array.dtype)


FUNCTIONS["take_along_axis"] = _along


def _diff(x: Array, axis: int, prepend: Any) -> Array:
    if axis not in (-1, x.ndim - 1):
        raise Unsupported("differences along another axis than the last")
    if prepend is not None:
        x = Array(np.concatenate([np.full((*x.shape[:-1], 1), prepend, object), x.values], -1), x.dtype)
    return OPERATIONS["sub"](x[..., 1:], x[..., :-1])


def function_of(function: Any) -> Callable[..., Any] | None:
    """The form of a function of NumPy; None for functions of other modules."""
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None) or ""
    if isinstance(function, np.ufunc) or module.partition(".")[0] == "numpy" or isinstance(function, type(np.where)):
        if isinstance(function, np.ufunc) and name in UFUNCS:
            return (OPERATIONS | TESTS)[UFUNCS[name]]
        if name in FUNCTIONS:
            return FUNCTIONS[name]
        raise Unsupported(f"numpy.{name} of values that depend on inputs")
    return None


UFUNCS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "truediv",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "left_shift": "lshift",
    "right_shift": "rshift",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "greater": "gt",
    "less_equal": "le",
    "greater_equal": "ge",
}


def _values16(run: Interpreter, words: Any) -> Any:
    return (
        as_array(words).view(np.float16)
        if as_array(words).dtype == np.uint16
        else as_array(words, np.uint16).view(np.float16)
    )


def _rounded16(run: Interpreter, x: Any, mode: Any = fp16.IEEE) -> Any:
    """The fp16 number nearest to each, as float32; other modes than IEEE's have no form."""
    if mode != fp16.IEEE:
        raise Unsupported(f"rounding to fp16 with {mode}")
    return as_array(x).map(lambda v: fitted(v, np.dtype(np.float16)), np.float32)


HALF = np.dtype(np.float16)
FP16: dict[str, Callable[..., Any]] = {
    "values": _values16,
    "bits": lambda run, x: as_array(x, np.float16).view(np.uint16),
    "narrow": lambda run, x: as_array(x, HALF),
    "canonical": lambda run, x: as_array(x),
    "to_f16": lambda run, x, mode=fp16.IEEE: as_array(_rounded16(run, x, mode), HALF),
    "to_f32": lambda run, x: as_array(x).astype(np.float32),
    "round16": _rounded16,
    "round16_of_f64": _rounded16,
}


def _order_key(run: Interpreter, words: Any, total: bool = False) -> Any:
    """Integers in the order of fp16 words; -0 equals +0 unless `total`."""

    def key(word: Any) -> Any:
        negative = (word ^ 0x7FFF) - 0x1_0000 if total else 0x8000 - word
        return merge(truth(word < 0x8000), word, negative)

    return (
        as_array(words).map(key, np.int64)
        if is_array(words) or not is_symbolic(words) or isinstance(words, tuple | list)
        else key(words)
    )


def _operation16(operation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return one operation on fp16 or float32 numbers, rounded to float32 and fp16."""

    def of(run: Interpreter, a: Any, b: Any, mode: Any = fp16.IEEE) -> Any:
        if mode != fp16.IEEE:
            raise Unsupported(f"rounding to fp16 with {mode}")
        wide = each(lambda x, y: fitted(operation(x, y), np.dtype(np.float32)), np.float32, a, b)
        return _rounded16(run, wide)

    return of


FP16 |= {
    "order_key": _order_key,
    "add16": _operation16(operator.add),
    "sub16": _operation16(operator.sub),
    "mul16": _operation16(operator.mul),
}
for _name, _form in FP16.items():
    _function = getattr(fp16, _name)
    Interpreter.handlers[_function] = lambda run, *args, _form=_form, _function=_function, **named: (
        _form(run, *args, **named)
        if any(is_array(each_) or is_symbolic(each_) for each_ in args)
        else _function(*args, **named)
    )


def _rounded(run: Interpreter, n: Any, s: Any, mode: Any) -> Any:
    """As `shift_round`, of each element."""
    if not (is_array(n) or is_array(s)):
        return SHIFT_ROUND(run, n, s, mode)
    return each(lambda a, b: SHIFT_ROUND(run, a, b, mode), np.int64, n, s)


SHIFT_ROUND = Interpreter.handlers[rounding.shift_round]
Interpreter.handlers[rounding.shift_round] = _rounded
Calls.as_array = staticmethod(as_array)
Calls.is_array, Calls.function_of = staticmethod(is_array), staticmethod(function_of)
