"""Terms of bit vectors and binary64 numbers: nodes that are shared, simplified as they are made, and evaluated on rows.

The operations are those of SMT-LIB. A truth value is a bit vector of 1 bit, and a real number has width `REAL`.
"""

import itertools
import operator
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

REAL = -64  #: width of binary64 numbers
WORD = 64  #: most bits of an array of uint64; wider values are Python integers


class Term:
    """Node; equal nodes are one object."""

    __slots__ = ("__weakref__", "args", "name", "number", "op", "width")
    op: str
    width: int
    args: tuple["Term", ...]
    name: Any  #: value of a constant, name of a variable, lowest bit of an extract; else None
    number: int

    def __init__(self, op: str, width: int, args: tuple["Term", ...], name: Any, number: int) -> None:
        self.op, self.width, self.args, self.number = op, width, args, number
        self.name = name

    def __repr__(self) -> str:
        return f"{self.op}{'' if self.name is None else f' {self.name}'}: {self.width}"


_known: weakref.WeakValueDictionary[tuple[Any, ...], Term] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def node(op: str, width: int, *args: Term, name: Any = None) -> Term:
    """The node of an operation; a constant where all operands are."""
    key = (op, width, name, *(each.number for each in args))
    answer = _known.get(key)
    if answer is None:
        answer = Term(op, width, args, name, next(_numbers))
        if args and op not in ("call", "result") and all(each.op == "const" for each in args):
            (value,) = evaluate([answer], {}, 1)
            answer = real(float(value[0])) if width == REAL else const(int(value[0]), width)
        _known[key] = answer
    return answer


def const(value: int, width: int) -> Term:
    """A bit vector from the low bits of an integer."""
    return node("const", width, name=value & ((1 << width) - 1))


def real(value: float) -> Term:
    """A binary64 number; one node for each pattern, so that -0.0 and 0.0 differ."""
    return node("const", REAL, name=int(np.float64(value if value == value else np.nan).view(np.uint64)))


def variable(name: str, width: int) -> Term:
    """A free bit vector."""
    return node("var", width, name=name)


TRUE, FALSE = const(1, 1), const(0, 1)


def is_const(term: Term) -> bool:
    """Whether a term is a constant."""
    return term.op == "const"


def not_(a: Term) -> Term:
    """Every bit inverted."""
    return a.args[0] if a.op == "not" else node("not", a.width, a)


def and_(a: Term, b: Term) -> Term:
    """Bitwise and."""
    ones = (1 << a.width) - 1
    for x, y in ((a, b), (b, a)):
        if x is y or (y.op == "const" and y.name == ones):
            return x
        if y.op == "const" and y.name == 0:
            return y
    if not_(a) is b:
        return const(0, a.width)
    if _short(a, b):
        return zext(and_(a.args[0], b.args[0]), a.width)
    return node("and", a.width, *_sorted(a, b))


def or_(a: Term, b: Term) -> Term:
    """Bitwise or."""
    return not_(and_(not_(a), not_(b)))


def xor(a: Term, b: Term) -> Term:
    """Bitwise exclusive or."""
    if a is b:
        return const(0, a.width)
    for x, y in ((a, b), (b, a)):
        if y.op == "const" and y.name == 0:
            return x
        if y.op == "const" and y.name == (1 << y.width) - 1:
            return not_(x)
    if _short(a, b):
        return zext(xor(a.args[0], b.args[0]), a.width)
    return node("xor", a.width, *_sorted(a, b))


def _short(a: Term, b: Term) -> bool:
    """Whether zeros are above words of one width."""
    return a.op == b.op == "zext" and a.args[0].width == b.args[0].width


def _sorted(a: Term, b: Term) -> tuple[Term, Term]:
    return (a, b) if a.number <= b.number else (b, a)


def all_of(terms: Iterable[Term]) -> Term:
    """Whether all of some truth values hold."""
    result = TRUE
    for each in terms:
        result = and_(result, each)
    return result


def any_of(terms: Iterable[Term]) -> Term:
    """Whether one of some truth values holds."""
    return not_(all_of(map(not_, terms)))


def add(a: Term, b: Term) -> Term:
    """Sum, modulo 2**width."""
    for x, y in ((a, b), (b, a)):
        if y.op == "const" and y.name == 0:
            return x
    return node("add", a.width, *_sorted(a, b))


def sub(a: Term, b: Term) -> Term:
    """Difference, modulo 2**width."""
    if a is b:
        return const(0, a.width)
    return a if b.op == "const" and b.name == 0 else node("sub", a.width, a, b)


def mul(a: Term, b: Term) -> Term:
    """Product, modulo 2**width."""
    for x, y in ((a, b), (b, a)):
        if y.op == "const" and y.name.bit_count() <= 1:
            return shl(x, const(y.name.bit_length() - 1, x.width)) if y.name else y
        if y.op == "zext" and y.args[0].width == 1:
            return ite(y.args[0], x, const(0, x.width))
    return node("mul", a.width, *_sorted(a, b))


def shl(a: Term, b: Term) -> Term:
    """Shift to the left; 0 from an amount of the width on."""
    if b.op != "const":
        return node("shl", a.width, a, b)
    if b.name >= a.width:
        return const(0, a.width)
    return concat(extract(a, 0, a.width - b.name), const(0, b.name)) if b.name else a


def lshr(a: Term, b: Term) -> Term:
    """Shift to the right, zeros in."""
    if b.op != "const":
        return node("lshr", a.width, a, b)
    return zext(extract(a, b.name, a.width - b.name), a.width) if b.name < a.width else const(0, a.width)


def ashr(a: Term, b: Term) -> Term:
    """Shift to the right, the sign in."""
    if b.op != "const":
        return node("ashr", a.width, a, b)
    shift = min(b.name, a.width - 1)
    return sext(extract(a, shift, a.width - shift), a.width)


def udiv(a: Term, b: Term) -> Term:
    """Quotient of unsigned integers; all ones for a divisor of 0."""
    return node("udiv", a.width, a, b)


def urem(a: Term, b: Term) -> Term:
    """Remainder of unsigned integers; the dividend for a divisor of 0."""
    return node("urem", a.width, a, b)


def eq(a: Term, b: Term) -> Term:
    """Whether two bit vectors are equal."""
    if a is b:
        return TRUE
    if a.op == "const":
        a, b = b, a
    if b.op == "const":
        if a.width == 1:
            return a if b.name else not_(a)
        if a.op in ("zext", "sext"):
            (inner,) = a.args
            low = const(b.name, inner.width)
            return eq(inner, low) if (zext if a.op == "zext" else sext)(low, a.width) is b else FALSE
        if a.op == "ite" and any(each.op == "const" for each in a.args[1:]):
            test, first, second = a.args
            return ite(test, eq(first, b), eq(second, b))
    return node("eq", 1, *_sorted(a, b))


def ult(a: Term, b: Term) -> Term:
    """Whether a < b, unsigned."""
    if a is b or (b.op == "const" and b.name == 0):
        return FALSE
    return node("ult", 1, a, b)


def slt(a: Term, b: Term) -> Term:
    """Whether a < b, in two's complement."""
    if a.op == "const" and b.op == "ite":
        test, second, first = b.args
        if test.op == "slt" and test.args == (first, second):  # b is the larger one
            return or_(slt(a, first), slt(a, second))
    return FALSE if a is b else node("slt", 1, a, b)


def ite(test: Term, a: Term, b: Term) -> Term:
    """`a` where `test` holds, else `b`."""
    if a is b or test is TRUE:
        return a
    if test is FALSE:
        return b
    if test.op == "not":
        test, a, b = test.args[0], b, a
    if a.op == "ite" and a.args[0] is test:
        a = a.args[1]
    if b.op == "ite" and b.args[0] is test:
        b = b.args[2]
    if a is b:
        return a
    if a.width == 1 and (a.op == "const" or b.op == "const"):
        if a.op == "const":
            return or_(test, b) if a.name else and_(not_(test), b)
        return or_(not_(test), a) if b.name else and_(test, a)
    if a.op == "ite" and a.args[2] is b:
        return ite(and_(test, a.args[0]), a.args[1], b)
    if b.op == "const" and b.name == 0 and a.op == "zext":
        return zext(ite(test, a.args[0], const(0, a.args[0].width)), a.width)
    return node("ite", a.width, test, a, b)


def concat(high: Term, low: Term) -> Term:
    """Two bit vectors side by side."""
    if high.op == "const" and high.name == 0:
        return zext(low, high.width + low.width)
    if high.op == low.op == "extract" and high.args == low.args and high.name == low.name + low.width:
        return extract(low.args[0], low.name, high.width + low.width)
    return node("concat", high.width + low.width, high, low)


def extract(a: Term, low: int, width: int) -> Term:
    """`width` bits from bit `low` on."""
    if width == a.width:
        return a
    if a.op == "extract":
        return extract(a.args[0], low + a.name, width)
    if a.op == "concat":
        high, rest = a.args
        if low >= rest.width:
            return extract(high, low - rest.width, width)
        if low + width <= rest.width:
            return extract(rest, low, width)
    if a.op in ("zext", "sext"):
        (inner,) = a.args
        if low + width <= inner.width:
            return extract(inner, low, width)
        if low < inner.width:
            return (zext if a.op == "zext" else sext)(extract(inner, low, inner.width - low), width)
        if a.op == "zext":
            return const(0, width)
        return sext(extract(inner, inner.width - 1, 1), width)
    if a.op == "ite" and all(each.op in ("const", "zext", "sext") for each in a.args[1:]):
        return ite(a.args[0], *(extract(each, low, width) for each in a.args[1:]))
    return node("extract", width, a, name=low)


def zext(a: Term, width: int) -> Term:
    """Zeros above."""
    if width == a.width:
        return a
    return node("zext", width, a.args[0] if a.op == "zext" else a)


def sext(a: Term, width: int) -> Term:
    """Copies of the sign above."""
    if width == a.width:
        return a
    if a.op == "zext":
        return zext(a, width)
    return node("sext", width, a.args[0] if a.op == "sext" else a)


def fp(op: str, *args: Term) -> Term:
    """An operation on binary64 numbers; `FP` lists them."""
    (inner,) = args if len(args) == 1 else (None,)
    if inner is not None and inner.op in EXACT.get(op, ()):
        return inner  # already such a number
    if inner is not None and (op, inner.op) in (("value32", "pattern32"), ("pattern32", "f32")):
        return fp("f32" if op == "value32" else op, *inner.args)
    if op == "value16" and inner is not None and inner.op == "pattern16" and inner.args[0].op == "value16":
        return inner.args[0]
    if op[:7] == "pattern" and inner is not None and inner.op == f"value{op[7:]}" and inner.args[0].op == op:
        return inner.args[0]
    if op == "f32" and inner is not None and inner.op == "fmul" and _halves(inner):
        return inner  # 22 bits
    if op == "pattern16" and inner is not None and inner.op == "f32" and _halves(inner.args[0]):
        return fp(op, *inner.args)  # float32 has more than twice the bits: the first rounding changes nothing
    if op == "feq" and args[0] is args[1]:
        return not_(fp("isnan", args[0]))
    return node(op, FP[op][0], *args)


def _halves(term: Term) -> bool:
    """Whether a term is a sum or a product of two fp16 numbers."""
    return term.op in ("fadd", "fsub", "fmul") and all(each.op == "value16" for each in term.args)


#: operation -> operations whose results it does not change
EXACT = {
    "f32": ("f32", "value16", "value32"),
    "fabs": ("fabs",),
    "frint": ("frint", "ffloor"),
    "ffloor": ("frint", "ffloor"),
}


# evaluation

Array = np.ndarray


def _clear(values: Array, width: int) -> Array:
    return values & ((1 << width) - 1) if width < WORD or values.dtype == object else values


def _sized(values: Array, width: int) -> Array:
    """Values in the dtype of a width."""
    return values.astype(object if width > WORD else np.uint64)


def _shifted(operation: Callable[[Any, Any], Any], values: Array, amount: Array, width: int) -> Array:
    far = amount >= width
    return np.where(far, 0, operation(values, np.where(far, 0, amount)))


def _negative(values: Array, width: int) -> Any:
    return (values >> (width - 1)) & 1 == 1


def _extended(values: Array, of: int, width: int) -> Array:
    ones = ((1 << width) - 1) ^ ((1 << of) - 1)
    wide = _sized(values, width)
    return np.where(_negative(values, of), wide | ones, wide)


def _arithmetic(values: Array, amount: Array, width: int) -> Array:
    """Shift to the right with the sign: ones that come in are zeros of the inverted value."""
    negative, ones = _negative(values, width), (1 << width) - 1
    shifted = _shifted(operator.rshift, np.where(negative, values ^ ones, values), amount, width)
    return np.where(negative, shifted ^ ones, shifted)


def _signed(values: Array, width: int) -> Array:
    """Flip the sign bits, so that unsigned order is the order of signed values."""
    return values ^ (1 << (width - 1))


def _divided(operation: Callable[[Any, Any], Any], a: Array, b: Array, zero: Array | int) -> Array:
    return np.where(b == 0, zero, operation(a, np.where(b == 0, 1, b)))


def _integers(values: Array, width: int) -> Array:
    """Signed integers as the nearest binary64 numbers, as `float` makes them."""
    return np.array([float(int(each) - ((int(each) >> (width - 1)) << width)) for each in values], np.float64)


def _truncated(values: Array, width: int) -> Array:
    integers = [int(each) & ((1 << width) - 1) if np.isfinite(each) else 0 for each in values]
    return _sized(np.array(integers, object), width)


def _pattern(values: Array, dtype: Any, word: Any, nan: int) -> Array:
    return np.where(np.isnan(values), nan, values.astype(dtype).view(word)).astype(np.uint64)


def _chosen(test: Array, a: Array, b: Array) -> Array:
    return np.where(test == 1, a, b)


BV: dict[str, Callable[..., Array]] = {
    "not": lambda t, a: a ^ ((1 << t.width) - 1),
    "and": lambda t, a, b: a & b,
    "xor": lambda t, a, b: a ^ b,
    "add": lambda t, a, b: _clear(a + b, t.width),
    "sub": lambda t, a, b: _clear(a - b, t.width),
    "mul": lambda t, a, b: _clear(a * b, t.width),
    "shl": lambda t, a, b: _clear(_shifted(operator.lshift, a, b, t.width), t.width),
    "lshr": lambda t, a, b: _shifted(operator.rshift, a, b, t.width),
    "ashr": lambda t, a, b: _arithmetic(a, b, t.width),
    "udiv": lambda t, a, b: _divided(operator.floordiv, a, b, (1 << t.width) - 1),
    "urem": lambda t, a, b: _divided(operator.mod, a, b, a),
    "eq": lambda t, a, b: a == b,
    "ult": lambda t, a, b: a < b,
    "slt": lambda t, a, b: _signed(a, t.args[0].width) < _signed(b, t.args[0].width),
    "ite": lambda t, c, a, b: _chosen(c, a, b),
    "concat": lambda t, a, b: _sized(a, t.width) << t.args[1].width | _sized(b, t.width),
    "extract": lambda t, a: _clear(a >> t.name, t.width),
    "zext": lambda t, a: a,
    "sext": lambda t, a: _extended(a, t.args[0].width, t.width),
}
#: operations on binary64 numbers: width of the result, and the values
FP: dict[str, tuple[int, Callable[..., Array]]] = {
    "fadd": (REAL, lambda t, a, b: a + b),
    "fsub": (REAL, lambda t, a, b: a - b),
    "fmul": (REAL, lambda t, a, b: a * b),
    "fdiv": (REAL, lambda t, a, b: a / b),
    "fsqrt": (REAL, lambda t, a: np.sqrt(a)),
    "fneg": (REAL, lambda t, a: -a),
    "fabs": (REAL, lambda t, a: np.abs(a)),
    "frint": (REAL, lambda t, a: np.rint(a)),
    "ffloor": (REAL, lambda t, a: np.floor(a)),
    "f32": (REAL, lambda t, a: a.astype(np.float32).astype(np.float64)),
    "value16": (REAL, lambda t, a: a.astype(np.uint16).view(np.float16).astype(np.float64)),
    "value32": (REAL, lambda t, a: a.astype(np.uint32).view(np.float32).astype(np.float64)),
    "value64": (REAL, lambda t, a: a.astype(np.uint64).view(np.float64)),
    "integer": (REAL, lambda t, a: _integers(a, t.args[0].width)),
    "pattern16": (16, lambda t, a: _pattern(a, np.float16, np.uint16, 0x7E00)),
    "pattern32": (32, lambda t, a: _pattern(a, np.float32, np.uint32, 0x7FC00000)),
    "pattern64": (64, lambda t, a: _pattern(a, np.float64, np.uint64, 0x7FF8 << 48)),
    "flt": (1, lambda t, a, b: a < b),
    "fle": (1, lambda t, a, b: a <= b),
    "feq": (1, lambda t, a, b: a == b),
    "isnan": (1, lambda t, a: np.isnan(a)),
    "isinf": (1, lambda t, a: np.isinf(a)),
}


def truncated(a: Term, width: int) -> Term:
    """A real number as a signed integer of `width` bits, rounded towards 0; 0 for NaN and infinities."""
    return node("truncate", width, a)


def order(roots: Iterable[Term]) -> Iterator[Term]:
    """Every node below some terms, each after its operands."""
    seen: set[int] = set()
    for root in roots:
        stack = [(root, False)]
        while stack:
            term, ready = stack.pop()
            if term.number in seen:
                continue
            if ready:
                seen.add(term.number)
                yield term
            else:
                stack.append((term, True))
                stack += [(each, False) for each in term.args if each.number not in seen]


def evaluate(roots: Sequence[Term], rows: Mapping[str, Any], count: int) -> list[Array]:
    """Values of terms: uint64, or Python integers above 64 bits, or float64.

    rows: arrays of unsigned integers, by the names of variables. count: their length.
    """
    known: dict[int, Array] = {}
    nodes = list(order(roots))
    readers = Counter(each.number for group in (roots, *(term.args for term in nodes)) for each in group)
    with np.errstate(all="ignore"):
        for term in nodes:
            known[term.number] = _value(term, [known[each.number] for each in term.args], rows, count)
            for each in term.args:
                readers[each.number] -= 1
                if not readers[each.number]:
                    del known[each.number]
    return [known[root.number] for root in roots]


def _value(term: Term, args: Sequence[Array], rows: Mapping[str, Any], count: int) -> Array:
    if term.op == "var":
        values = np.asarray(rows[term.name])
        return values if term.width == REAL else _sized(values, term.width)
    if term.op == "call":
        template = term.name
        named = dict(zip((each.name for each in template.read), args, strict=True))
        places = [place for place in range(len(template.roots)) if place not in template.direct]
        answers = evaluate([template.roots[place] for place in places], named, count)
        return dict(zip(places, answers, strict=True))  # type: ignore[return-value]
    if term.op == "result":
        answer: Array = args[0][term.name]
        return answer
    if term.op == "const":
        values = np.full(count, term.name, object if term.width > WORD else np.uint64)
        return values.view(np.float64) if term.width == REAL else values
    if term.op == "truncate":
        return _truncated(args[0], term.width)
    values = (FP[term.op][1] if term.op in FP else BV[term.op])(term, *args)
    return values if term.width == REAL else _sized(values, term.width)


# substitution


def substitute(roots: Sequence[Term], values: Mapping[int, Term]) -> list[Term]:
    """Terms with other terms in the place of variables, by their numbers."""
    known = dict(values)
    for term in order(roots):
        if term.number not in known:
            args = [known[each.number] for each in term.args]
            same = all(new is old for new, old in zip(args, term.args, strict=True))
            known[term.number] = term if same else rebuilt(term, args)
    return [known[root.number] for root in roots]


def expanded(roots: Sequence[Term]) -> list[Term]:
    """Terms without calls of templates."""
    known: dict[int, Any] = {}
    for term in order(roots):
        args = [known[each.number] for each in term.args]
        if term.op == "call":
            template = term.name
            values = {each.number: arg for each, arg in zip(template.read, args, strict=True)}
            places = [place for place in range(len(template.roots)) if place not in template.direct]
            roots_ = substitute(expanded([template.roots[place] for place in places]), values)
            known[term.number] = dict(zip(places, roots_, strict=True))
        elif term.op == "result":
            known[term.number] = args[0][term.name]
        else:
            same = all(new is old for new, old in zip(args, term.args, strict=True))
            known[term.number] = term if same else rebuilt(term, args)
    return [known[root.number] for root in roots]


def rebuilt(term: Term, args: Sequence[Term]) -> Term:
    """An operation on other operands, simplified."""
    match term.op:
        case "extract":
            return extract(args[0], term.name, term.width)
        case "zext":
            return zext(args[0], term.width)
        case "sext":
            return sext(args[0], term.width)
        case op if op in SIMPLIFIED:
            return SIMPLIFIED[op](*args)
        case op if op in FP:
            return fp(op, *args)
    return node(term.op, term.width, *args, name=term.name)


SIMPLIFIED: dict[str, Callable[..., Term]] = {
    "not": not_,
    "and": and_,
    "xor": xor,
    "add": add,
    "sub": sub,
    "mul": mul,
    "shl": shl,
    "lshr": lshr,
    "ashr": ashr,
    "eq": eq,
    "ult": ult,
    "slt": slt,
    "ite": ite,
    "concat": concat,
}
