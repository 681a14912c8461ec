"""Exceptions of damaged input become Refused; those of refemu itself, interrupts and file system errors do not."""

import csv
import json
from collections.abc import Callable
from typing import Any

import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.arith.reader_errors import DIGITS, integer, reading


class PanicException(BaseException):
    """As libraries in Rust raise it."""


class Library(Exception):
    """Of a library."""


def fail(error: BaseException) -> Callable[[], Any]:
    def run() -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(lambda: int("x"), "^x.json: not a list: invalid literal", id="ValueError"),
        pytest.param(lambda: {}["a"], "KeyError: 'a'", id="KeyError"),
        pytest.param(lambda: [][1], "IndexError", id="IndexError"),
        pytest.param(lambda: int(float("inf")), "OverflowError", id="OverflowError"),
        pytest.param(lambda: (1).items(), "AttributeError", id="AttributeError"),  # type: ignore[attr-defined]
        pytest.param(lambda: len(1), "TypeError", id="TypeError"),  # type: ignore[arg-type]
        pytest.param(lambda: json.loads("[" * 100_000), "x.json: not a list: nested too deep", id="RecursionError"),
        pytest.param(fail(MemoryError()), "it needs more memory than there is", id="MemoryError"),
        pytest.param(fail(csv.Error("field")), "Error: field", id="csv.Error"),
        pytest.param(fail(Library("bad")), "Library: bad", id="of a library"),
        pytest.param(fail(PanicException("oh")), "PanicException: oh", id="panic"),
        pytest.param(fail(ValueError("x" * 999)), r"^x.json: not a list: x{200}\.\.\.$", id="cut"),
    ],
)
def test_exception_of_reader_becomes_value_error(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(Refused, match=message), reading("x.json", "a list", Library):
        call()


@pytest.mark.parametrize(
    "error",
    [
        Refused("a rule"),
        RefusedType("a type"),
        FileNotFoundError(2, "No such file", "x"),
        AssertionError("bug"),
        KeyboardInterrupt(),
        Library("of another reader"),
        SystemExit(4),
    ],
    ids=lambda error: type(error).__name__,
)
def test_anything_else_passes_through(error: BaseException) -> None:
    with pytest.raises(BaseException) as caught, reading("x", "a list"):
        raise error

    assert caught.value is error


@pytest.mark.parametrize(("word", "base", "value"), [("0x1F", 0, 31), ("-5", 0, -5), ("ff", 16, 255), ("1_0", 0, 10)])
def test_an_integer_is_read_as_python_does(word: str, base: int, value: int) -> None:
    assert integer(word, base) == value


@pytest.mark.parametrize("word", ["", "x", "1.5", "9" * (DIGITS + 1), "0x" + "f" * DIGITS])
def test_non_integer_or_overlong_raises_value_error(word: str) -> None:
    with pytest.raises(ValueError, match=r"invalid literal|more than 1000 characters"):
        integer(word)


def test_the_longest_integer_can_be_shown() -> None:
    """Python does not convert integers of more than 4300 digits."""
    assert str(integer("0x" + "f" * (DIGITS - 2))).isdecimal()
