"""Errors of user input: every message names the thing, the rule, the value and the first bad index.

`Refused` is a ValueError and `RefusedType` a TypeError, so callers may catch either; the command line answers both
with exit code 2 and everything else with 3.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from refemu.arith import tensors

T = TypeVar("T")
FEW = 12  #: names that a message lists; of a longer table it gives the nearest ones
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # control characters, all line breaks among them


def one_line(text: str) -> str:
    """A message with escapes for control characters, which names and files of a user may have."""
    return _BREAKS.sub(lambda match: repr(match[0])[1:-1], text)


class Refused(ValueError):
    """A value that breaks a stated rule; its message is one line, and so is each further argument, a detail."""

    def __str__(self) -> str:
        return "\n  ".join(one_line(str(each)) for each in self.args)


class RefusedType(TypeError):
    """A dtype, rank or Python type that breaks a stated rule; its message is one line."""

    def __str__(self) -> str:
        return one_line(super().__str__())


def first_index(bad: np.ndarray) -> tuple[int, ...]:
    """Index of the first True of `bad` in C order; `bad` must hold one."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))


def at(index: tuple[int, ...]) -> str:
    """` at index (0, 3)`, or nothing for a scalar."""
    return f" at index {index}" if index else ""


def require_none(bad: np.ndarray, rule: str, values: Any, form: str = "") -> None:
    """Reject the first of `values` where `bad` is true; rule: the thing and what it must be, before the value."""
    if bad.any():
        index = first_index(bad)
        raise Refused(f"{rule}, got {np.asarray(values)[index].item():{form}}{at(index)}")


def as_array(values: Any, thing: str = "values") -> np.ndarray:
    """`values` as an array; rejects a masked one, whose hidden values would decide codes and sums.

    values: what NumPy converts, or a tensor as `tensors.host` reads it; bfloat16 and float8 of one become float32.
    """
    if type(values) is np.ndarray and values.dtype.isbuiltin == 1:  # at once: decoding passes here at every step
        return values
    if isinstance(values, np.ma.MaskedArray):
        raise RefusedType(f"{thing}: must not be a masked array, which hides values; fill it first: x.filled(value)")
    numpys = isinstance(values, np.ndarray) and values.dtype.isbuiltin == 1
    if numpys or isinstance(values, list | tuple | int | float | np.floating | np.integer):
        return np.asarray(values)
    return host(values, thing).values


def host(values: Any, thing: str) -> tensors.Host:
    """`values` in NumPy's memory; rejects a tensor that cannot be copied or read, and says what to do."""
    try:
        return tensors.host(values)
    except tensors.Unreadable as error:
        raise RefusedType(f"{thing}: {error}") from None


def require_integers(values: Any, thing: str) -> np.ndarray:
    """`values` as an array; rejects every dtype that is not an integer (bool included)."""
    array = as_array(values, thing)
    if array.dtype.kind == "f" and not hasattr(values, "dtype"):
        array = _unsigned(values, array)
    if array.dtype.kind not in "iu":
        hint = "; for bit patterns, use x.view(np.uint16), or x.view(torch.int16)" if array.dtype == np.float16 else ""
        raise RefusedType(f"{thing}: integers are needed, got dtype {array.dtype}{hint}")
    return array


def _unsigned(values: Any, array: np.ndarray) -> np.ndarray:
    """Ints of which some need all of 64 bits, which NumPy makes float64 of, as uint64; else `array`."""
    exact = np.asarray(values, object)
    whole = exact.size > 0 and all(type(each) is int and 0 <= each < 1 << 64 for each in exact.flat)
    return exact.astype(np.uint64) if whole else array


def refuse_as(readable: Callable[..., Any], *arguments: Any, **named: Any) -> NoReturn:
    """Raise what `readable` raises for arguments that its compiled form rejects: one wording, and no silent fallback.

    AssertionError: `readable` takes what its compiled form rejects.
    """
    readable(*arguments, **named)
    raise AssertionError(f"{readable.__module__}.{readable.__qualname__} takes what its compiled form rejects")


def require_range(values: Any, low: int, high: int, thing: str, name: str = "value") -> np.ndarray:
    """Integers in [low, high); rejects the first one outside with its index."""
    array = require_integers(values, thing)
    if array.dtype.kind == "u" and low <= 0 and 1 << 8 * array.itemsize <= high:
        return array  # the dtype says so
    if array.size > 0 and not (low <= int(array.min()) and int(array.max()) < high):
        index = first_index((array < low) | (array >= high))
        raise Refused(f"{thing}: {name} {int(array[index])}{at(index)} is outside [{low}, {high})")
    return array


def plain(value: T) -> T:
    """A parameter as Python's own: NumPy's scalars become int, float, bool or str, also inside a tuple."""
    same: Any = value  # of the type that the parameter is declared with
    if isinstance(value, np.generic):
        same = value.item()
    elif type(value) is tuple:
        same = tuple(map(plain, same))
    return cast(T, same)


def require_int(value: Any, low: int, high: int, thing: str, name: str) -> int:
    """A parameter as a Python int; rejects one that is not an int, of Python or NumPy, in [low, high]."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise RefusedType(f"{thing}: {name} must be an int, got {value!r}")
    if not low <= value <= high:
        raise Refused(f"{thing}: {name} must be in [{low}, {high}], got {value}")
    return int(value)


def require_bool(value: Any, thing: str, name: str) -> bool:
    """A parameter as a Python bool; rejects one that is not a bool, of Python or NumPy."""
    if not isinstance(value, bool | np.bool_):
        raise RefusedType(f"{thing}: {name} must be a bool, got {value!r}")
    return bool(value)


def require_choice(value: T, choices: Iterable[T], thing: str, name: str) -> T:
    """The member of `choices` that equals `value`; rejects another value with the list."""
    known = list(choices)
    if value not in known:
        raise Refused(f"{thing}: {name} must be one of {', '.join(map(repr, known))}, got {value!r}")
    return known[known.index(value)]


def lookup(kind: str, name: str, table: Mapping[str, T], listing: str = "") -> T:
    """`table[name]`. Refused: an unknown name; the message has the nearest names, and all names if they are few.

    listing: the command that lists them.
    """
    if name in table:
        return table[name]
    if not isinstance(name, str):
        raise RefusedType(f"{kind}: must be a name, got {name!r}")
    what, of, owner = kind.partition(" of ")
    wrong = f"{what} {name!r} of {owner}" if of and not kind.endswith(":") else f"{kind} {name!r}"
    near = nearest(name, table)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    if len(table) > FEW and (near or listing):
        more = "" if near else f" `{listing}` lists all {len(table)}"
        raise Refused(f"unknown {wrong}{hint}{more}")
    raise Refused(f"unknown {wrong}{hint} Known: {', '.join(sorted(table)) or 'none'}")


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """Up to three names: those most like a word, equally like it, and those that contain it; in any case of letters."""
    known = {each.lower(): each for each in sorted(names)}
    word = word.lower()
    close = difflib.get_close_matches(word, known)
    like = [difflib.SequenceMatcher(None, each, word).ratio() for each in close]
    equal = sorted(each for each, ratio in zip(close, like, strict=True) if ratio == like[0])
    chosen = dict.fromkeys([*equal, *(each for each in known if len(word) > 2 and word in each)])
    return [known[each] for each in chosen][:3]
