"""Bounds of every value in lifted functions, from the widths of the ports: numba integers have 64 bits only.

Branches are joined, except those that a constant excludes; loops run as often as in the text. Shift amounts are at
least 0, since the readable form raises below it.
"""

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from refemu.arith import scalar32
from refemu.arith.checks import Refused
from refemu.units.compiled.placement import shared
from refemu.units.compiled.scalars import NAMES

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


class Range(NamedTuple):
    """An integer."""

    low: int
    high: int


class Real(NamedTuple):
    """A real number, or NaN where both ends are infinite."""

    low: float
    high: float


class Vector(NamedTuple):
    """A list or an array; each of its values is within `item`."""

    item: Any
    length: int  #: largest length
    fewer: int = 0  #: number of elements that may be missing


class Span(NamedTuple):
    """A range."""

    start: Range
    stop: Range


HIDDEN = ("_c", "_s", "_p")  #: arguments of compiled code only
Value: TypeAlias = Any  #: Range, Vector, or a tuple of values
BIT = Range(0, 1)
NO_REAL = ()  #: item of an empty list for real numbers


def of_constant(value: Any) -> Value:
    """Bounds of a constant: itself; a class of named tuples is unchanged."""
    if isinstance(value, type):
        return value
    if isinstance(value, np.ndarray):
        item: Value = Range(int(value.min()), int(value.max()))
        for length in reversed(value.shape):
            item = Vector(item, length)
        return item
    if isinstance(value, float):
        return Real(value, value)
    return tuple(map(of_constant, value)) if isinstance(value, tuple) else Range(int(value), int(value))


def joined(values: Iterable[Value]) -> Value:
    """Bounds that contain all of some values."""
    return reduce(_join, values)


def _join(a: Value, b: Value) -> Value:
    if isinstance(a, Range) and isinstance(b, Range):
        return Range(min(a.low, b.low), max(a.high, b.high))
    if isinstance(a, Real) and isinstance(b, Real):
        return Real(min(a.low, b.low), max(a.high, b.high))
    if isinstance(a, Range | Real) or isinstance(b, Range | Real):
        raise OverflowError("an integer or a real number")
    if isinstance(a, Vector | Span) != isinstance(b, Vector | Span) or isinstance(a, Vector) or isinstance(b, Vector):
        most = max(length(a), length(b))
        return Vector(_join(joined(items(a)), joined(items(b))), most, most - min(least(a), least(b)))
    parts = [_join(x, y) for x, y in zip(a, b, strict=True)]
    return a._make(parts) if hasattr(a, "_fields") else tuple(parts)


def items(value: Value) -> list[Value]:
    """Values that a loop over this one takes, in turn."""
    if isinstance(value, Span):
        return [Range(value.start.low, max(value.stop.high - 1, value.start.low))] * length(value)
    return [value.item] * value.length if isinstance(value, Vector) else list(value)


def length(value: Value) -> int:
    """The largest length of a vector or a tuple."""
    if isinstance(value, Span):
        return max(value.stop.high - value.start.low, 0)
    return value.length if isinstance(value, Vector) else len(value)


def least(value: Value) -> int:
    """The smallest length of a vector or a tuple."""
    if isinstance(value, Span):
        return max(value.stop.low - value.start.high, 0)
    return length(value) - (value.fewer if isinstance(value, Vector) else 0)


def _bits(*ranges: Range) -> int:
    """Bits of the magnitudes."""
    return max(max(each.high, ~each.low).bit_length() for each in ranges)


def _and(a: Range, b: Range) -> Range:
    highs = [each.high for each in (a, b) if each.low >= 0]
    return Range(0, min(highs)) if highs else Range(-(1 << _bits(a, b)), max(a.high, b.high))


def _or(a: Range, b: Range) -> Range:
    return Range(0 if min(a.low, b.low) >= 0 else -(1 << _bits(a, b)), (1 << _bits(a, b)) - 1)


def _corners(operation: Callable[[int, int], int], a: Range, b: Range) -> Range:
    values = [operation(x, y) for x in a for y in b]
    return Range(min(values), max(values))


def _shift(operation: Callable[[int, int], int], a: Range, b: Range) -> Range:
    if b.high > 63:
        raise OverflowError(f"a shift by {b.high}")
    return _corners(operation, a, Range(max(b.low, 0), max(b.high, 0)))


def _divided(operation: Callable[[int, int], int], a: Range, b: Range) -> Range:
    if b.low <= 0:
        raise OverflowError(f"a divisor of {b.low}")
    return _corners(operation, a, b) if operation is operator.floordiv else Range(0, b.high - 1)


ANY = Real(-math.inf, math.inf)
EXACT = 1 << 53  #: magnitude up to which every integer is a real number


def real(value: Value) -> Real:
    """Convert a number to a real number."""
    if isinstance(value, Range) and not -EXACT <= value.low <= value.high <= EXACT:
        raise OverflowError("an integer that no real number is")
    return value if isinstance(value, Real) else Real(float(value.low), float(value.high))


def _reals(operation: Callable[[float, float], float], a: Real, b: Real) -> Real:
    """Bounds of a sum, a difference or a product; unbounded for infinities of both signs."""
    if not all(map(math.isfinite, (*a, *b))):
        return ANY
    values = [operation(x, y) for x in a for y in b]
    return Real(min(values), max(values)) if all(map(math.isfinite, values)) else ANY


REALS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
OPERATIONS: dict[type[ast.operator], Callable[[Range, Range], Range]] = {
    ast.Add: lambda a, b: Range(a.low + b.low, a.high + b.high),
    ast.Sub: lambda a, b: Range(a.low - b.high, a.high - b.low),
    ast.Mult: lambda a, b: _corners(operator.mul, a, b),
    ast.LShift: lambda a, b: _shift(operator.lshift, a, b),
    ast.RShift: lambda a, b: _shift(operator.rshift, a, b),
    ast.BitAnd: _and,
    ast.BitOr: _or,
    ast.BitXor: _or,
    ast.FloorDiv: lambda a, b: _divided(operator.floordiv, a, b),
    ast.Mod: lambda a, b: _divided(operator.mod, a, b),
}
COMPARED: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _merge(local: dict[str, Value], ways: Sequence[Mapping[str, Value]]) -> None:
    """Names after one of several branches."""
    for name in set().union(*ways):
        local[name] = joined(way[name] for way in ways if name in way)


class Bounds:
    """Evaluates lifted functions over ranges; raises Refused if a value may exceed 64 bits."""

    def __init__(
        self,
        unit: str,
        functions: Mapping[str, ast.FunctionDef],
        names: Mapping[str, Value],
        written: Mapping[str, int] | None = None,
    ) -> None:
        self.unit, self.functions = unit, functions
        self.names = names  #: bounds of constants and registers
        self.written = written or {}  #: lanes of the vector that a statement writes, by its name
        self.known: dict[tuple[str, tuple[Value, ...]], Value] = {}
        self.function = ""  #: function under evaluation
        self.taken: list[str] = []  #: arguments of the function
        self.lengths: dict[str, int] = {}  #: lengths of lists of events, by the name of their array; -1: variable

    def call(self, name: str, arguments: Sequence[Value]) -> Value:
        """Bounds of the result of a function."""
        key = name, tuple(arguments)
        if key not in self.known:
            tree = self.functions[name]
            taken = [each.arg for each in tree.args.args]
            local = dict(zip(taken, arguments, strict=False))
            if tree.args.vararg:
                local[tree.args.vararg.arg] = tuple(arguments[len(taken) :])
            returned: list[Value] = []
            outer, self.function, self.taken = (self.function, self.taken), name, taken
            self._block(tree.body, local, returned)
            self.function, self.taken = outer
            self.known[key] = joined(returned)
        return self.known[key]

    # statements

    def _block(self, body: Sequence[ast.stmt], local: dict[str, Value], returned: list[Value]) -> bool:
        """Run a block; return whether the code after it can be reached."""
        return all(self._statement(statement, local, returned) for statement in body)

    def _statement(self, node: ast.stmt, local: dict[str, Value], returned: list[Value]) -> bool:
        match node:
            case ast.Return(value=ast.expr() as value):
                returned.append(self.value(value, local))
                return False
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))], value=value):
                item, vector = self.value(value, local), local[name]
                if (vector.item is NO_REAL or isinstance(vector.item, Real)) != isinstance(item, Real):
                    raise Refused(f"{self.unit}: {ast.unparse(value)} must be an integer, or its function say float")
                local[name] = vector._replace(item=item if vector.item in (None, NO_REAL) else _join(vector.item, item))
            case ast.Assign(targets=[ast.Name(), _, *_] as targets, value=value):
                for target in targets:
                    self._assign(target, self.value(value, local), local)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self.value(value, local), local)
                if "_p" in self.taken and ast.unparse(value).startswith("f_empty"):
                    self._share(node, local[ast.unparse(target)])
            case ast.AugAssign(target=ast.Name() as target, op=op, value=value):
                binary = ast.BinOp(ast.Name(target.id, ast.Load()), op, value)
                local[target.id] = self.value(ast.copy_location(binary, node), local)
            case ast.If():
                return self._branches(node, local, returned)
            case ast.For():
                return self._loop(node, local, returned)
            case ast.Raise():
                return False
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[vector])):  # a vector is written
                written, lanes = self.value(vector, local), self.written[name]
                if (length(written), least(written)) != (lanes, lanes):
                    raise Refused(f"{self.unit}: {ast.unparse(vector)} must have {lanes} lanes, got {length(written)}")
                if not all(isinstance(each, Range) for each in items(written)):
                    raise Refused(f"{self.unit}: {ast.unparse(vector)} must be integers, got a real number")
            case ast.Expr(value=ast.Call(args=[])):  # a vector is retained
                pass
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _:
                raise Refused(f"{self.unit}: {ast.unparse(node)} has no bounds")
        return True

    def _share(self, node: ast.stmt, vector: Value) -> None:
        """Note the length of a list of an event, or that it varies."""
        name = shared(self.function, node)
        same = least(vector) == length(vector) == self.lengths.get(name, length(vector))
        self.lengths[name] = length(vector) if same else -1

    def _loop(self, node: ast.For, local: dict[str, Value], returned: list[Value]) -> bool:
        """Run the body for every turn; optional turns are joined with the names before."""
        values = self.value(node.iter, local)
        for place, item in enumerate(items(values)):
            before = dict(local)
            self._assign(node.target, item, local)
            goes_on = self._block(node.body, local, returned)
            if place >= least(values):
                _merge(local, [before, local] if goes_on else [before])
            if not goes_on:
                return place >= least(values)
        return True

    def _branches(self, node: ast.If, local: dict[str, Value], returned: list[Value]) -> bool:
        test = _truth(self.value(node.test, local))
        after = []
        for taken, body in ((test.high != 0, node.body), (test.low == 0, node.orelse)):
            branch = dict(local)
            if taken and self._block(body, branch, returned):
                after.append(branch)
        _merge(local, after)
        return bool(after)

    def _assign(self, target: ast.expr, value: Value, local: dict[str, Value]) -> None:
        if isinstance(target, ast.Name):
            local[target.id] = value
        elif isinstance(target, ast.Tuple):
            values = items(value)
            if len(values) != len(target.elts):
                raise Refused(
                    f"{self.unit}: {ast.unparse(target)} must have as many values as are assigned, got {len(values)};"
                    " write a twin, or state twin='none'"
                )
            for part, item in zip(target.elts, values, strict=True):
                self._assign(part, item, local)

    # expressions

    def value(self, node: ast.expr, local: Mapping[str, Value]) -> Value:
        """Bounds of an expression; raises Refused if it may exceed 64 bits."""
        try:
            value = self._expression(node, local)
        except OverflowError as error:
            raise Refused(f"{self.unit}: {ast.unparse(node)} may be {error}") from None
        if isinstance(value, Range) and not LOWEST <= value.low <= value.high <= HIGHEST:
            raise Refused(f"{self.unit}: {ast.unparse(node)} may leave 64 bits: {value.low} to {value.high}")
        return value

    def _expression(self, node: ast.expr, local: Mapping[str, Value]) -> Value:
        match node:
            case ast.Constant(value=int(value)):
                return Range(int(value), int(value))
            case ast.Constant(value=float(value)):
                return Real(value, value)
            case ast.Name(id=name):
                return local[name] if name in local else self.names[name]
            case ast.Tuple(elts=parts):
                return tuple(self._values(parts, local))
            case ast.List(elts=parts):
                return Vector(joined(self.value(each, local) for each in parts), len(parts))
            case ast.BinOp(left=left, op=op, right=right):
                operands = self.value(left, local), self.value(right, local)
                if all(isinstance(each, Range) for each in operands):
                    return OPERATIONS[type(op)](*operands)
                if all(isinstance(each, Range | Real) for each in operands) and type(op) in REALS:
                    return _reals(REALS[type(op)], *map(real, operands))
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, self.value(operand, local))
            case ast.BoolOp(op=op, values=parts):
                return self._either(op, [self.value(each, local) for each in parts])
            case ast.Compare():
                return self._compared(node, local)
            case ast.IfExp(test=test, body=body, orelse=other):
                condition = _truth(self.value(test, local))
                chosen = [body] * (condition.high != 0) + [other] * (condition.low == 0)
                return joined(self.value(each, local) for each in chosen)
            case ast.Subscript(value=vector, slice=index):
                return self._item(self.value(vector, local), index, local)
            case ast.ListComp(elt=element, generators=[loop]):
                iterated, inner = self.value(loop.iter, local), dict(local)
                self._assign(loop.target, joined(items(iterated)), inner)
                return Vector(self.value(element, inner), length(iterated), length(iterated) - least(iterated))
            case ast.Attribute(value=record, attr=name):
                return getattr(self.value(record, local), name)
            case ast.Call():
                return self._called(node, local)
        raise Refused(f"{self.unit}: {ast.unparse(node)} has no bounds")

    def _values(self, parts: Sequence[ast.expr], local: Mapping[str, Value]) -> list[Value]:
        """Bounds of arguments, or of the elements of a tuple."""
        values: list[Value] = []
        for each in parts:
            if isinstance(each, ast.Starred):
                values += items(self.value(each.value, local))
            else:
                hidden = isinstance(each, ast.Name) and each.id in HIDDEN
                values.append(() if hidden else self.value(each, local))
        return values

    def _called(self, node: ast.Call, local: Mapping[str, Value]) -> Value:
        values = self._values(node.args, local)
        name = ast.unparse(node.func)
        if name in self.functions:
            return self.call(name, values)
        return BUILTINS[name](*values) if name in BUILTINS else self.names[name](*values)

    def _item(self, vector: Value, index: ast.expr, local: Mapping[str, Value]) -> Value:
        place = self.value(index, local)
        if not -least(vector) <= place.low <= place.high < least(vector):
            raise OverflowError(f"an index of {place.low} to {place.high} of {least(vector)}")
        if isinstance(vector, tuple) and not isinstance(vector, Vector) and place.low == place.high:
            return vector[place.low]
        return joined(items(vector))

    def _unary(self, op: ast.unaryop, value: Value) -> Value:
        if isinstance(op, ast.Not):
            return Range(1 - _truth(value).high, 1 - _truth(value).low)
        if isinstance(value, Real):
            if isinstance(op, ast.Invert):
                raise OverflowError("of a real number")
            return Real(-value.high, -value.low) if isinstance(op, ast.USub) else value
        if isinstance(op, ast.USub):
            return Range(-value.high, -value.low)
        return Range(~value.high, ~value.low) if isinstance(op, ast.Invert) else value

    def _either(self, op: ast.boolop, values: Sequence[Range]) -> Value:
        if isinstance(op, ast.And) and any(each == (0, 0) for each in values):
            return Range(0, 0)
        if isinstance(op, ast.Or) and all(each == (0, 0) for each in values):
            return Range(0, 0)
        return joined(values)

    def _compared(self, node: ast.Compare, local: Mapping[str, Value]) -> Range:
        """1 or 0 if constants decide, else either."""
        values = [self.value(each, local) for each in (node.left, *node.comparators)]
        if any(isinstance(each, Real) for each in values):
            values = [real(each) for each in values]
            return BIT
        if len(node.ops) == 1 and all(isinstance(each, Range) and each.low == each.high for each in values):
            result = int(COMPARED[type(node.ops[0])](values[0].low, values[1].low))
            return Range(result, result)
        return BIT


def _truth(value: Value) -> Range:
    if isinstance(value, Real):
        return BIT
    if not isinstance(value, Range):
        return Range(int(least(value) > 0), int(length(value) > 0))
    return Range(int(not value.low <= 0 <= value.high), int(value != (0, 0)))


def _range(*bounds: Range) -> Value:
    if len(bounds) > 2:
        raise OverflowError("a range of other steps than 1")
    return Span(*bounds) if len(bounds) == 2 else Span(Range(0, 0), *bounds)


def _absolute(value: Value) -> Value:
    if isinstance(value, Real):
        return Real(0.0 if value.low <= 0 <= value.high else min(map(abs, value)), max(map(abs, value)))
    return Range(0 if value.low <= 0 <= value.high else min(map(abs, value)), max(map(abs, value)))


def _sum(values: Value) -> Range:
    parts = [each if place < least(values) else _join(each, Range(0, 0)) for place, each in enumerate(items(values))]
    return reduce(OPERATIONS[ast.Add], parts, Range(0, 0))


def _zip(*vectors: Value) -> Value:
    if any(least(each) < length(each) for each in vectors):
        raise OverflowError("of an unknown length")
    return list(zip(*map(items, vectors), strict=False))


def _extreme(choose: Callable[..., Any]) -> Callable[..., Value]:
    def of(*values: Value) -> Value:
        parts = items(values[0]) if len(values) == 1 else values
        if all(isinstance(each, Real) for each in parts):
            return Real(choose(each.low for each in parts), choose(each.high for each in parts))
        if any(isinstance(each, Real) for each in parts):
            raise OverflowError("an integer or a real number")
        return Range(choose(each.low for each in parts), choose(each.high for each in parts))

    return of


def _integer(value: Value) -> Range:
    if isinstance(value, Real):
        if not all(map(math.isfinite, value)):
            raise OverflowError("an integer of any real number")
        value = Range(int(value.low), int(value.high))
    if not -(1 << 62) < value.low <= value.high < 1 << 62:
        raise OverflowError("a number beyond 62 bits")
    return value


def _shown(value: Value) -> Range:
    if isinstance(value, Real):
        raise OverflowError("a real number in a port")
    return value


def _rounded(value: Value) -> Real:
    """Bounds of a real number rounded to float32 or fp16: the rounded ends."""
    return Real(*map(scalar32.f32, real(value)))


def _ldexp(value: Value, exponent: Range) -> Real:
    """Bounds of `ldexp` for finite ends and a known exponent."""
    x = real(value)
    if (
        exponent.low != exponent.high
        or not all(map(math.isfinite, x))
        or abs(exponent.low) > 512
        or max(map(abs, x)) >= EXACT
    ):
        return ANY
    return Real(math.ldexp(x.low, exponent.low), math.ldexp(x.high, exponent.low))


#: bounds of functions with a compiled form
COMPILED: dict[Callable[..., Any], Callable[..., Value]] = {
    divmod: lambda a, b: (_divided(operator.floordiv, a, b), _divided(operator.mod, a, b)),
    scalar32.div32: lambda a, b: ANY,
    scalar32.f32: lambda x: _rounded(x),
    scalar32.odd_sum: lambda a, b: ANY,
    scalar32.pattern16: lambda x: _of_number(x, Range(0, 0xFFFF)),
    scalar32.pattern32: lambda x: _of_number(x, Range(0, 0xFFFFFFFF)),
    scalar32.value16: lambda word: _word(word, 16),
    scalar32.value32: lambda word: _word(word, 32),
    math.copysign: lambda x, y: Real(-max(map(abs, real(x))), max(map(abs, real(x)))),
    math.frexp: lambda x: (Real(-1.0, 1.0) if all(map(math.isfinite, real(x))) else ANY, Range(-1073, 1024)),
    math.isinf: lambda x: _of_number(x, BIT),
    math.isnan: lambda x: _of_number(x, BIT),
    math.ldexp: _ldexp,
}


def _of_number(value: Value, result: Range) -> Range:
    """Bounds of a result that depends on numbers only."""
    real(value)
    return result


def _word(word: Range, bits: int) -> Real:
    """Bounds of the value of a pattern."""
    if not 0 <= word.low <= word.high < 1 << bits:
        raise OverflowError(f"a word of more than {bits} bits")
    return ANY


BUILTINS: dict[str, Callable[..., Value]] = {
    "abs": _absolute,
    "f_all_of": lambda values: BIT,
    "f_any_of": lambda values: BIT,
    "f_bit_length": lambda value: Range(0, _bits(value)),
    "bool": _truth,
    "f_empty_reals": lambda length: Vector(NO_REAL, length.high, length.high - length.low),
    "f_empty": lambda length: Vector(None, length.high, length.high - length.low),
    "f_count": lambda values, value: Range(0, length(values)),
    "enumerate": lambda values: _zip([Range(i, i) for i in range(length(values))], values),
    "float": lambda value: real(value),
    "len": lambda values: Range(least(values), length(values)),
    "max": _extreme(max),
    "min": _extreme(min),
    "range": _range,
    "f_shown": _shown,
    "sum": _sum,
    "tuple": lambda values: values,
    "int": _integer,
    "f_whole": _integer,
    "zip": _zip,
    **{NAMES[function]: bound for function, bound in COMPILED.items()},
}
