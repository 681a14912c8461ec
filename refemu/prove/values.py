"""Numbers of readable units as terms: integers with bounds, truth values, and real numbers.

Integers are those of Python: each has as many bits as its bounds need, so nothing wraps. What a value must fulfil for
an operation to be the one of Python is demanded from `obligation`, under the condition that holds where it runs.
"""

import functools
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from refemu.prove import terms
from refemu.prove.terms import Term

MOST_BITS = 4096  #: bits of an integer that are a mistake


class Unsupported(Exception):
    """A text has no terms; the message says what, and the interpreter adds the line.

    term: what depends on inputs; where its variables have few values, `lift` tries each.
    """

    def __init__(self, message: str, term: Term | None = None) -> None:
        super().__init__(message)
        self.term: Term | None = term
        self.line: str = ""


class Obligations:
    """What must hold wherever the text runs: conditions that no value may violate."""

    current: ClassVar["Obligations | None"] = None

    def demand(self, condition: Term, what: str) -> None:
        """Require a condition here."""
        raise NotImplementedError

    def freeze(self, *containers: Any) -> None:
        """Forbid changes of containers of which one is a copy of the others."""
        raise NotImplementedError


def demand(condition: Term, what: str) -> None:
    """Require a condition where the text runs now."""
    if condition is not terms.TRUE:
        if condition is terms.FALSE or Obligations.current is None:
            raise Unsupported(what)
        Obligations.current.demand(condition, what)


def width_of(low: int, high: int) -> int:
    """Bits of a signed integer within bounds."""
    return max((low if low >= 0 else ~low).bit_length(), (high if high >= 0 else ~high).bit_length()) + 1


def fit(term: Term, width: int) -> Term:
    """A signed integer in another number of bits."""
    return terms.sext(term, width) if width >= term.width else terms.extract(term, 0, width)


class Symbolic:
    """Base of values that a term has."""

    __slots__ = ()
    if TYPE_CHECKING:
        term: Term

    def __bool__(self) -> bool:
        raise Unsupported("a truth value that depends on inputs", self.term)

    def __index__(self) -> int:
        raise Unsupported("an index that depends on inputs", self.term)

    def __hash__(self) -> int:
        raise Unsupported("a key that depends on inputs", self.term)

    def __deepcopy__(self, memo: object) -> "Symbolic":
        return self


def integer(value: Any) -> Any:
    """A number as an int or an Int; None for other values."""
    if type(value).__name__ == "Array" and value.ndim == 0:
        value = value.values.item()
    if isinstance(value, Bool):
        return Int(terms.zext(value.term, 2), 0, 1)
    if isinstance(value, int | np.integer | np.bool_):
        return int(value)
    return value if isinstance(value, Int) else None


def bounds(value: Any) -> tuple[int, int]:
    """Smallest and largest value of an integer."""
    return (value.low, value.high) if isinstance(value, Int) else (value, value)


def made(term: Term, low: int, high: int) -> Any:
    """An integer with these bounds."""
    if low == high:
        return low
    width = width_of(low, high)
    if width > MOST_BITS:
        raise Unsupported(f"an integer of {width} bits")
    return Int(fit(term, width), low, high)


def word(value: Any, width: int) -> Term:
    """An integer in `width` bits, two's complement."""
    value = integer(value)
    return fit(value.term, width) if isinstance(value, Int) else terms.const(value, width)


def _wide(*values: Any) -> int:
    return max(width_of(*bounds(each)) for each in values)


def truth_of(term: Term) -> Any:
    """A truth value, of Python where it is constant."""
    return bool(term.name) if term.op == "const" else Bool(term)


def add(a: Any, b: Any) -> Any:
    """Sum."""
    (p, q), (r, s) = bounds(a), bounds(b)
    width = width_of(p + r, q + s)
    return made(terms.add(word(a, width), word(b, width)), p + r, q + s)


def sub(a: Any, b: Any) -> Any:
    """Difference."""
    (p, q), (r, s) = bounds(a), bounds(b)
    width = max(width_of(p - s, q - r), _wide(b))
    return made(terms.sub(word(a, width), word(b, width)), p - s, q - r)


def mul(a: Any, b: Any) -> Any:
    """Product."""
    corners = [x * y for x in bounds(a) for y in bounds(b)]
    low, high = min(corners), max(corners)
    if a is b:
        low = 0
    width = max(width_of(low, high), _wide(a, b))
    return made(terms.mul(word(a, width), word(b, width)), low, high)


def bitwise(operation: Callable[[Term, Term], Term], limits: Callable[..., tuple[int, int]]) -> Callable[..., Any]:
    """A bitwise operation, whose bounds follow from those of the operands."""

    def of(a: Any, b: Any) -> Any:
        width = _wide(a, b)
        low, high = limits(bounds(a), bounds(b), width)
        return made(operation(word(a, width), word(b, width)), low, high)

    return of


def _of_and(a: tuple[int, int], b: tuple[int, int], width: int) -> tuple[int, int]:
    highs = [high for low, high in (a, b) if low >= 0]
    return (0, min(highs)) if highs else (-(1 << (width - 1)), max(a[1], b[1]))


def _of_or(a: tuple[int, int], b: tuple[int, int], width: int) -> tuple[int, int]:
    return (0 if min(a[0], b[0]) >= 0 else -(1 << (width - 1))), (1 << (width - 1)) - 1


def _amount(amount: Any) -> tuple[Any, int, int]:
    """An amount of a shift, which must not be negative."""
    low, high = bounds(amount)
    if low < 0:
        demand(terms.not_(less(amount, 0)), "a shift by a negative amount")
        low, high = 0, max(high, 0)
        amount = made(word(amount, width_of(low, high)), low, high) if isinstance(amount, Int) else amount
    return amount, low, high


def shl(a: Any, amount: Any) -> Any:
    """Shift to the left."""
    amount, r, s = _amount(amount)
    p, q = bounds(a)
    low, high = min(p << r, p << s), max(q << r, q << s)
    width = max(width_of(low, high), _wide(amount))
    if width > MOST_BITS:
        raise Unsupported(f"a shift to {width} bits")
    return made(terms.shl(word(a, width), word(amount, width)), low, high)


def shr(a: Any, amount: Any) -> Any:
    """Shift to the right."""
    amount, r, s = _amount(amount)
    p, q = bounds(a)
    width = _wide(a, amount)
    return made(terms.ashr(word(a, width), word(amount, width)), min(p >> r, p >> s), max(q >> r, q >> s))


def div_mod(a: Any, b: Any) -> tuple[Any, Any]:
    """Quotient towards minus infinity, and remainder; the divisor must be positive."""
    (p, q), (r, s) = bounds(a), bounds(b)
    if r <= 0:
        demand(less(0, b), "a divisor that is not positive")
        r, s = 1, max(s, 1)
    if isinstance(b, int) and b & (b - 1) == 0:
        return shr(a, b.bit_length() - 1), AND(a, b - 1)
    low, high = min(p // r, p // s), max(q // r, q // s)
    width = _wide(a, b) + 1
    x, y = word(a, width), word(b, width)
    negative = terms.slt(x, terms.const(0, width))  # -1 - x is not negative: floor(x / y) = -1 - floor((-1 - x) / y)
    z = terms.ite(negative, terms.not_(x), x)
    quotient = terms.udiv(z, y)
    quotient = terms.ite(negative, terms.not_(quotient), quotient)
    return made(quotient, low, high), made(terms.sub(x, terms.mul(quotient, y)), 0, s - 1)


def less(a: Any, b: Any) -> Term:
    """Whether a < b, of integers."""
    (p, q), (r, s) = bounds(a), bounds(b)
    if q < r or p >= s:
        return terms.TRUE if q < r else terms.FALSE
    width = _wide(a, b)
    return terms.slt(word(a, width), word(b, width))


def same(a: Any, b: Any) -> Term:
    """Whether two integers are equal."""
    (p, q), (r, s) = bounds(a), bounds(b)
    if q < r or s < p:
        return terms.FALSE
    width = _wide(a, b)
    return terms.eq(word(a, width), word(b, width))


AND, OR, XOR = bitwise(terms.and_, _of_and), bitwise(terms.or_, _of_or), bitwise(terms.xor, _of_or)


def _methods(operation: Callable[..., Any], real: str = "") -> tuple[Any, Any]:
    """A method, and the one with exchanged operands. real: operation for real numbers."""

    def of(a: Any, b: Any) -> Any:
        if isinstance(b, float | Real):
            return of_reals(real, a, b) if real else NotImplemented
        x, y = integer(a), integer(b)
        return NotImplemented if y is None else operation(x, y)

    return of, lambda a, b: of(b, a) if not isinstance(b, float | Real) else of_reals(real, b, a)


def _compared(operation: Callable[[Any, Any], Term], real: Callable[[Any, Any], Term]) -> Any:
    def of(a: Any, b: Any) -> Any:
        if isinstance(b, float | Real):
            return truth_of(real(a, b))
        y = integer(b)
        return NotImplemented if y is None else truth_of(operation(integer(a), y))

    return of


class Int(Symbolic):
    """Integer with bounds; its term is in two's complement and may have more bits than these need."""

    __slots__ = ("high", "low", "term")
    term: Term
    low: int
    high: int

    def __init__(self, term: Term, low: int, high: int) -> None:
        self.term, self.low, self.high = term, low, high

    if TYPE_CHECKING:
        __add__: Any
        __radd__: Any
        __sub__: Any
        __rsub__: Any
        __mul__: Any
        __rmul__: Any
        __and__: Any
        __rand__: Any
        __or__: Any
        __ror__: Any
        __xor__: Any
        __rxor__: Any
        __lshift__: Any
        __rlshift__: Any
        __rshift__: Any
        __rrshift__: Any
        __floordiv__: Any
        __rfloordiv__: Any
        __mod__: Any
        __rmod__: Any
        __divmod__: Any
        __rdivmod__: Any
        __lt__: Any
        __gt__: Any
        __le__: Any
        __ge__: Any

    def __truediv__(self, other: Any) -> Any:
        return of_reals("fdiv", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return of_reals("fdiv", other, self)

    def __pow__(self, exponent: Any) -> Any:
        if not isinstance(exponent, int) or exponent < 0:
            raise Unsupported("a power that depends on inputs")
        return math.prod([self] * exponent, start=1)

    def __rpow__(self, base: Any) -> Any:
        if base != 2:
            raise Unsupported(f"a power of {base}")
        return shl(1, self)

    def __neg__(self) -> Any:
        return sub(0, integer(self))

    def __pos__(self) -> Any:
        return integer(self)

    def __invert__(self) -> Any:
        return sub(-1, integer(self))

    def __abs__(self) -> Any:
        value = integer(self)
        low, high = bounds(value)
        if low >= 0:
            return value
        most = max(-low, high)
        width = width_of(0, most) if high > 0 else width_of(low, most)
        plus, minus = word(value, width), terms.sub(terms.const(0, width), word(value, width))
        return made(terms.ite(less(value, 0), minus, plus), 0 if high >= 0 else -high, most)

    def bit_length(self) -> Any:
        """As `int.bit_length`."""
        value = abs(self)
        if not isinstance(value, Int):
            return value.bit_length()
        bits = value.high.bit_length()
        width = width_of(0, bits)
        length = terms.const(0, width)
        for place in range(bits):
            length = terms.ite(
                terms.extract(fit(value.term, bits + 1), place, 1), terms.const(place + 1, width), length
            )
        return made(length, value.low.bit_length(), bits)

    def bit_count(self) -> Any:
        """As `int.bit_count`."""
        value = abs(self)
        if not isinstance(value, Int):
            return value.bit_count()
        bits = [
            Bool(terms.extract(fit(value.term, value.high.bit_length() + 1), i, 1))
            for i in range(value.high.bit_length())
        ]
        return functools.reduce(operator.add, bits, 0)

    def __repr__(self) -> str:
        return f"<{self.low}..{self.high}>"


INTEGERS: dict[str, tuple[Callable[..., Any], str]] = {
    "add": (add, "fadd"),
    "sub": (sub, "fsub"),
    "mul": (mul, "fmul"),
    "and": (AND, ""),
    "or": (OR, ""),
    "xor": (XOR, ""),
    "lshift": (shl, ""),
    "rshift": (shr, ""),
    "floordiv": (lambda a, b: div_mod(a, b)[0], ""),
    "mod": (lambda a, b: div_mod(a, b)[1], ""),
    "divmod": (div_mod, ""),
}  #: operation on integers, and on real numbers
COMPARISONS: dict[str, tuple[Callable[[Any, Any], Term], Callable[[Any, Any], Term]]] = {
    "lt": (less, lambda a, b: real_compare("flt", a, b)),
    "gt": (lambda a, b: less(b, a), lambda a, b: real_compare("flt", b, a)),
    "le": (lambda a, b: terms.not_(less(b, a)), lambda a, b: real_compare("fle", a, b)),
    "ge": (lambda a, b: terms.not_(less(a, b)), lambda a, b: real_compare("fle", b, a)),
    "eq": (same, lambda a, b: real_compare("feq", a, b)),
    "ne": (lambda a, b: terms.not_(same(a, b)), lambda a, b: terms.not_(real_compare("feq", a, b))),
}  #: the same
for _name, _pair in INTEGERS.items():
    for _prefix, _method in zip(("", "r"), _methods(*_pair), strict=True):
        setattr(Int, f"__{_prefix}{_name}__", _method)
for _name, _tests in COMPARISONS.items():
    setattr(Int, f"__{_name}__", _compared(*_tests))


class Bool(Int):
    """Truth value; its term has one bit."""

    __slots__ = ()

    def __init__(self, term: Term) -> None:
        self.term, self.low, self.high = term, 0, 1

    if TYPE_CHECKING:
        __and__: Any
        __or__: Any
        __xor__: Any


def _logical(operation: Callable[[Term, Term], Term], number: Callable[[Any, Any], Any]) -> Any:
    """A logical operation on truth values; on integers, the bitwise one."""

    def of(a: Any, b: Any) -> Any:
        if isinstance(b, bool | Bool):
            return truth_of(operation(a.term, truth(b)))
        y = integer(b)
        return NotImplemented if y is None else number(integer(a), y)

    return of


for _name, _operation, _number in (("and", terms.and_, AND), ("or", terms.or_, OR), ("xor", terms.xor, XOR)):
    for _prefix in ("", "r"):
        setattr(Bool, f"__{_prefix}{_name}__", _logical(_operation, _number))


def truth(value: Any) -> Term:
    """What a test takes of a value."""
    if isinstance(value, Bool):
        return value.term
    if isinstance(value, Int):
        return terms.not_(same(value, 0))
    if isinstance(value, Real):
        return terms.not_(real_compare("feq", value, 0.0))
    condition: Callable[[], Term] | None = getattr(value, "condition", None)  # of arrays and choices
    if condition is not None:
        return condition()
    return terms.TRUE if value else terms.FALSE


class Real(Symbolic):
    """Real number of Python, binary64."""

    __slots__ = ("term",)

    def __init__(self, term: Term) -> None:
        self.term = term

    term: Term

    def __add__(self, other: Any) -> Any:
        return of_reals("fadd", self, other)

    def __radd__(self, other: Any) -> Any:
        return of_reals("fadd", other, self)

    def __sub__(self, other: Any) -> Any:
        return of_reals("fsub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return of_reals("fsub", other, self)

    def __mul__(self, other: Any) -> Any:
        return of_reals("fmul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return of_reals("fmul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return divided(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return divided(other, self)

    def __neg__(self) -> "Real":
        return Real(terms.fp("fneg", self.term))

    def __abs__(self) -> "Real":
        return Real(terms.fp("fabs", self.term))

    def __lt__(self, other: Any) -> Any:
        return truth_of(real_compare("flt", self, other))

    def __gt__(self, other: Any) -> Any:
        return truth_of(real_compare("flt", other, self))

    def __le__(self, other: Any) -> Any:
        return truth_of(real_compare("fle", self, other))

    def __ge__(self, other: Any) -> Any:
        return truth_of(real_compare("fle", other, self))

    def __eq__(self, other: Any) -> Any:
        return truth_of(real_compare("feq", self, other))

    def __ne__(self, other: Any) -> Any:
        return truth_of(terms.not_(real_compare("feq", self, other)))

    __hash__: Any = Symbolic.__hash__


LARGEST = 1 << 1023  #: magnitude below which every integer has a nearest real number
EXACT = 1 << 53  #: magnitude up to which every integer is a real number


def real(value: Any) -> Term:
    """A number as a real one, rounded as `float` does."""
    if type(value).__name__ == "Array" and value.ndim == 0:
        value = value.values.item()
    if isinstance(value, Real):
        return value.term
    number = integer(value)
    if isinstance(number, Int):
        if max(abs(number.low), abs(number.high)) >= LARGEST:
            raise Unsupported("an integer beyond real numbers")
        return terms.fp("integer", number.term)
    if isinstance(value, float | int | np.floating):
        return terms.real(float(value))
    raise Unsupported(f"a real number of {type(value).__name__}")


def number_of(term: Term) -> Any:
    """A real number, of Python where it is constant."""
    return float(np.uint64(term.name).view(np.float64)) if term.op == "const" else Real(term)


def of_reals(op: str, a: Any, b: Any) -> Any:
    """An operation on two numbers as real ones."""
    if not op:
        raise Unsupported("an operation of integers on real numbers")
    return divided(a, b) if op == "fdiv" else number_of(terms.fp(op, real(a), real(b)))


def divided(a: Any, b: Any) -> Any:
    """Quotient; the divisor must not be 0, where Python raises."""
    if not any(isinstance(each, float | Real) for each in (a, b)) and max(map(abs, (*bounds(a), *bounds(b)))) > EXACT:
        raise Unsupported("a quotient of large integers")
    demand(terms.not_(real_compare("feq", b, 0.0)), "a division by 0")
    return number_of(terms.fp("fdiv", real(a), real(b)))


def real_compare(op: str, a: Any, b: Any) -> Term:
    """A comparison of two numbers as real ones; integers must be exact, since Python compares exactly."""
    for each in (a, b):
        value = integer(each)
        exact = isinstance(value, int) and abs(value) < LARGEST and int(float(value)) == value
        if value is not None and not exact and max(map(abs, bounds(value))) > EXACT:
            raise Unsupported("a comparison of a large integer with a real number")
    return terms.fp(op, real(a), real(b))


OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "USub": operator.neg,
    "UAdd": operator.pos,
    "Invert": operator.invert,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
}
