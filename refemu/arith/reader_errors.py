"""Reading of user input: an exception that damaged input causes inside a reader becomes Refused.

A reader parses inside `reading(thing)`. The guard covers parsing only: what goes wrong while refemu computes is
an error of refemu, and stays one.
"""

import csv
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from refemu.arith.checks import Refused, RefusedType

DIGITS = 1000  #: characters of an integer, at most: Python's own conversions take a time that grows with their square
_SHOWN = 200  # characters of another library's message that are quoted, at most
_PLAIN = (ArithmeticError, AttributeError, EOFError, LookupError, NotImplementedError, TypeError, ValueError)
_INPUT: tuple[type[Exception], ...] = (*_PLAIN, csv.Error, struct.error, zipfile.BadZipFile, zlib.error)
_PANIC = "PanicException"  # of PyO3: derives from BaseException, and cannot be imported


@contextmanager
def reading(thing: str, what: str, *more: type[Exception]) -> Iterator[None]:
    """Turn exceptions of Python, NumPy or a library that a bad input causes inside the block into Refused.

    thing: what the message starts with. what: what was expected, "a readable .npz". more: exceptions of a library. A
    Refused passes through unchanged, and so does an OSError, which names its file itself.
    """
    try:
        yield
    except (Refused, RefusedType, OSError):
        raise
    except RecursionError as error:
        raise Refused(f"{thing}: not {what}: nested too deep") from error
    except MemoryError as error:
        raise Refused(f"{thing}: not {what}: it needs more memory than there is") from error
    except (*_INPUT, *more) as error:
        raise Refused(f"{thing}: not {what}: {_said(error)}") from error
    except BaseException as error:
        if type(error).__name__ == _PANIC:
            raise Refused(f"{thing}: not {what}: {_said(error)}") from None
        raise


def contents(path: Path, longest: int, thing: str) -> bytes:
    """The bytes of a file of the user's. Refused: more than `longest`, of which no more are read."""
    with path.open("rb") as file:
        data = file.read(longest + 1)
    if len(data) > longest:
        raise Refused(f"{thing}: must have at most {longest} bytes, got {path.stat().st_size}; use a part of it")
    return data


def _said(error: BaseException) -> str:
    """The message of an error, after the name of its class where the message alone says too little."""
    text = str(error)
    name = "" if text and isinstance(error, ValueError) else f"{type(error).__name__}: "
    return name + (text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def integer(word: str, base: int = 0) -> int:
    """The integer that `word` spells, as `int` reads it; ValueError for none, and for more than DIGITS characters."""
    if len(word) > DIGITS:
        raise ValueError(f"more than {DIGITS} characters")
    return int(word, base)
