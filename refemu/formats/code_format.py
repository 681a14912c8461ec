"""Formats that are not refemu's own, as distributions with entry points `refemu.formats` bring them."""

import re
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from refemu import plugins
from refemu.arith.checks import Refused, RefusedType

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


@runtime_checkable
class CodeFormat(Protocol):
    """Format with a table of codes, as a plug-in brings it: what `refemu list` and `refemu show` need."""

    @property
    def width(self) -> int:
        """Bits of one code."""

    def codes(self) -> np.ndarray:
        """List every code that stands for something.

        Returns
        -------
        ndarray of unsigned int
            Codes, ascending.
        """

    def encode(self, values: ArrayLike, /) -> np.ndarray:
        """Encode values to the nearest codes.

        Parameters
        ----------
        values : array_like
            Values.

        Returns
        -------
        ndarray of unsigned int
            Codes.
        """

    def decode(self, codes: ArrayLike, /) -> np.ndarray:
        """Decode codes.

        Parameters
        ----------
        codes : array_like of integers
            Codes.

        Returns
        -------
        ndarray
            Values.
        """

    def describe(self, code: int, /) -> str:
        """Describe a code for people.

        Parameters
        ----------
        code : int
            Below 2**width.

        Returns
        -------
        str
            Bit fields and value, one line.
        """


def validated(fmt: Any, name: str, origin: plugins.Origin) -> CodeFormat:
    """Check a format; raises Refused for an invalid name or codes that do not fit, RefusedType for a missing method."""
    if not _NAME.fullmatch(name):
        raise Refused(f"format: a name is an upper case word, got {name!r}")
    if not isinstance(fmt, CodeFormat):
        raise RefusedType(
            f"format {name}: it needs width, codes, encode, decode and describe, got {type(fmt).__name__}"
        )
    codes = np.asarray(fmt.codes())
    if codes.size == 0 or codes.dtype.kind != "u" or int(codes.max()) >> fmt.width:
        raise Refused(f"format {name}: codes must be unsigned and below 2**{fmt.width}, got {codes.dtype} {codes}")
    return fmt
