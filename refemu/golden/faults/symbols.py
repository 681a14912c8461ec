"""Words of a port as terms, on which the changes of faults compute as on arrays of words."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from refemu.golden.files import fields
from refemu.prove import terms
from refemu.prove.terms import Term
from refemu.units.ports import Port

Binary = Callable[[Term, Term], Term]


class Symbols(NDArrayOperatorsMixin):
    """An array (any row, lanes) of an integer dtype or bool, a term for each lane."""

    lanes: list[Term]
    dtype: np.dtype[Any]

    def __init__(self, lanes: Sequence[Term], dtype: np.dtype[Any]) -> None:
        self.lanes, self.dtype = list(lanes), dtype

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **_: Any) -> Any:
        if method != "__call__" or ufunc.__name__ not in _UFUNCS:
            return NotImplemented
        function, is_test = _UFUNCS[ufunc.__name__]
        dtype = next(each.dtype for each in inputs if isinstance(each, Symbols))
        operands = [_lanes(each, dtype, len(self.lanes)) for each in inputs]
        lanes = [function(dtype.kind == "i", *each) for each in zip(*operands, strict=True)]
        return Symbols(lanes, np.dtype(np.bool_) if is_test else dtype)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        form = _FUNCTIONS.get(function.__name__)
        return NotImplemented if form is None else form(*args, **kwargs)

    def __getitem__(self, place: Any) -> "Symbols":
        picked = np.arange(len(self.lanes))[place[-1]]
        return Symbols([self.lanes[lane] for lane in np.atleast_1d(picked).tolist()], self.dtype)

    def __setitem__(self, place: Any, value: Any) -> None:
        picked = np.atleast_1d(np.arange(len(self.lanes))[place[-1]]).tolist()
        for lane, term in zip(picked, _lanes(value, self.dtype, len(picked)), strict=True):
            self.lanes[lane] = term

    @property
    def shape(self) -> tuple[int, ...]:
        """Lanes; the axes of rows have no terms."""
        return (len(self.lanes),)

    def reshape(self, shape: tuple[int, ...]) -> "Symbols":
        """The same words at a port of as many lanes."""
        if shape != self.shape:
            raise ValueError(f"{len(self.lanes)} lanes have no shape {shape}")
        return self

    def copy(self) -> "Symbols":
        """The same words, to be changed."""
        return Symbols(self.lanes, self.dtype)

    def astype(self, dtype: Any, copy: bool = True) -> "Symbols":
        """The words in another dtype, modulo its size."""
        size, wide = _bits(np.dtype(dtype)), terms.sext if self.dtype.kind == "i" else terms.zext
        cut = [
            terms.extract(lane, 0, size) if size < lane.width else wide(lane, size) if size > lane.width else lane
            for lane in self.lanes
        ]
        return Symbols(cut, np.dtype(dtype))


def of_port(lanes: Sequence[Term], port: Port) -> Symbols:
    """Bit patterns of a port. lanes: terms of its bits."""
    dtype = fields.dtype_of(port.bits)
    return Symbols([terms.zext(lane, _bits(dtype)) if _bits(dtype) > port.bits else lane for lane in lanes], dtype)


def lanes_of(words: Symbols, port: Port) -> list[Term]:
    """Terms of the bits of a port."""
    return [terms.extract(lane, 0, port.bits) if lane.width > port.bits else lane for lane in words.lanes]


def _bits(dtype: np.dtype) -> int:
    return 1 if dtype.kind == "b" else 8 * dtype.itemsize


def _lanes(value: Any, dtype: np.dtype, count: int) -> list[Term]:
    if isinstance(value, Symbols):
        return value.lanes * count if len(value.lanes) == 1 < count else value.lanes
    return [terms.const(int(value), _bits(dtype))] * count


def _less(signed: bool, a: Term, b: Term) -> Term:
    return terms.slt(a, b) if signed else terms.ult(a, b)


def _smaller(signed: bool, a: Term, b: Term) -> Term:
    return terms.ite(_less(signed, a, b), a, b)


def _larger(signed: bool, a: Term, b: Term) -> Term:
    return terms.ite(_less(signed, a, b), b, a)


#: ufunc -> function of terms, and whether it gives bools
_UFUNCS: dict[str, tuple[Callable[..., Term], bool]] = {
    "bitwise_and": (lambda signed, a, b: terms.and_(a, b), False),
    "bitwise_or": (lambda signed, a, b: terms.or_(a, b), False),
    "bitwise_xor": (lambda signed, a, b: terms.xor(a, b), False),
    "invert": (lambda signed, a: terms.not_(a), False),
    "left_shift": (lambda signed, a, b: terms.shl(a, b), False),
    "right_shift": (lambda signed, a, b: terms.ashr(a, b) if signed else terms.lshr(a, b), False),
    "add": (lambda signed, a, b: terms.add(a, b), False),
    "subtract": (lambda signed, a, b: terms.sub(a, b), False),
    "minimum": (_smaller, False),
    "equal": (lambda signed, a, b: terms.eq(a, b), True),
    "not_equal": (lambda signed, a, b: terms.not_(terms.eq(a, b)), True),
    "less": (_less, True),
    "greater": (lambda signed, a, b: _less(signed, b, a), True),
}


def _where(test: Symbols, a: Any, b: Any) -> Symbols:
    dtype = next(each.dtype for each in (a, b) if isinstance(each, Symbols))
    lanes = zip(test.lanes, *(_lanes(each, dtype, len(test.lanes)) for each in (a, b)), strict=True)
    return Symbols([terms.ite(*each) for each in lanes], dtype)


def _full(like: Symbols, value: int) -> Symbols:
    return Symbols(_lanes(value, like.dtype, len(like.lanes)), like.dtype)


def _clip(words: Symbols, lowest: int, highest: int) -> Symbols:
    signed = words.dtype.kind == "i"
    low, high = (terms.const(each, _bits(words.dtype)) for each in (lowest, highest))
    return Symbols([_larger(signed, _smaller(signed, lane, high), low) for lane in words.lanes], words.dtype)


_FUNCTIONS: dict[str, Callable[..., Symbols]] = {
    "where": _where,
    "zeros_like": lambda like: _full(like, 0),
    "full_like": _full,
    "clip": _clip,
}
