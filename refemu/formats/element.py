"""Base of integer, flint and abfloat formats: one value, one code, nearest by the same rule.

Paper: [olive Tbl. 3, Tbl. 4]. A format adds its magnitudes and how a code spells sign and rank.
"""

import functools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.bits import code_dtype
from refemu.arith.checks import Refused, at, first_index, require_choice, require_range
from refemu.formats.nearest import TIES, Ties, exact

WORDS = 1 << 16  #: fp16 words; from so many values on, a table of their codes is sooner made


class Element(ABC):
    """Format that maps one value in grid units to one unsigned code of `width` bits and back."""

    if TYPE_CHECKING:  # a field of some formats and a property of others, so the base may hold neither

        @property
        def width(self) -> int:
            """Bits of one code, sign included."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Short lower-case name, the parameters included."""

    @abstractmethod
    def codes(self) -> np.ndarray:
        """List every code that stands for a value.

        Returns
        -------
        ndarray of unsigned int
            Codes, ascending.
        """

    @abstractmethod
    def describe(self, code: int) -> str:
        """Describe a code for people.

        Parameters
        ----------
        code : int
            Below 2**width.

        Returns
        -------
        str
            Bit fields and value, one line.

        Raises
        ------
        Refused
            The code is out of range.
        """

    @abstractmethod
    def code_of(self, values: np.ndarray, rounding: Ties) -> np.ndarray:
        """Encode without checks.

        Parameters
        ----------
        values : ndarray of float64 or int
            Values in grid units; infinities saturate.
        rounding : str
            One of `nearest.TIES`.

        Returns
        -------
        ndarray of int64
            Codes.
        """

    @abstractmethod
    def value_of(self, codes: np.ndarray) -> np.ndarray:
        """Decode without checks.

        Parameters
        ----------
        codes : ndarray of int64
            Below 2**width.

        Returns
        -------
        ndarray of int64
            Values in grid units.
        """

    @property
    def identifier(self) -> int:
        """Code 10...0, which is never produced: OVP's mark of a victim [olive §3.1]."""
        return 1 << (self.width - 1)

    def encode(self, values: ArrayLike, rounding: Ties = "half_even") -> np.ndarray:
        """Encode values as the nearest representable ones; beyond the largest magnitude as that one.

        Parameters
        ----------
        values : array_like of integers, float16, float32 or float64
            Grid units, finite; used exactly.
        rounding : {"half_even", "half_away", "half_up", "half_down"}
            Ties (D-olive-7, D-olive-8).

        Returns
        -------
        ndarray of uint8, uint16 above 8 bits
            Codes, in the shape of the values.

        Raises
        ------
        Refused
            A value is NaN or infinite, or the rounding unknown.
        RefusedType
            Another dtype.
        """
        rule = require_choice(rounding, TIES, f"{self}.encode", "rounding")
        if isinstance(values, np.ndarray) and values.dtype == np.float16 and values.size >= WORDS:
            codes = np.take(_of_fp16(self, rule), values.view(np.uint16))
            signed = codes.view(f"i{codes.itemsize}")
            if signed.min() > np.iinfo(signed.dtype).min or np.isfinite(values).all():
                return codes
        return self.code_of(exact(values, f"{self}.encode"), rule).astype(code_dtype(self.width))

    def decode(self, codes: ArrayLike) -> np.ndarray:
        """Decode codes exactly.

        Parameters
        ----------
        codes : array_like of integers
            Below 2**width.

        Returns
        -------
        ndarray of int64
            Values in grid units, in the shape of the codes.

        Raises
        ------
        Refused
            A code is out of range or stands for no value.
        RefusedType
            Another dtype.
        """
        return np.asarray(self.value_of(self.require_codes(codes).astype(np.int64)))

    def round(self, values: ArrayLike, rounding: Ties = "half_even") -> np.ndarray:
        """Round values to representable ones, `decode(encode(values))`.

        Parameters
        ----------
        values : array_like of integers, float16, float32 or float64
            Grid units, finite.
        rounding : {"half_even", "half_away", "half_up", "half_down"}
            Ties.

        Returns
        -------
        ndarray of int64
            Nearest values.

        Raises
        ------
        Refused
            As `encode` does.
        """
        return self.decode(self.encode(values, rounding))

    def require_codes(self, codes: ArrayLike) -> np.ndarray:
        """Check codes.

        Parameters
        ----------
        codes : array_like of integers
            Codes.

        Returns
        -------
        ndarray of integers
            The same codes.

        Raises
        ------
        Refused
            A code is not below 2**width.
        RefusedType
            Another dtype.
        """
        return require_range(codes, 0, 1 << self.width, self._what, "code")

    def refuse_identifier(self, codes: np.ndarray) -> np.ndarray:
        """Check that no code is the identifier.

        Parameters
        ----------
        codes : ndarray of int
            Codes.

        Returns
        -------
        ndarray of int
            The same codes.

        Raises
        ------
        Refused
            A code is the identifier.
        """
        bad = codes == self.identifier
        if bad.any():
            code = f"{self.identifier:0{self.width}b}{at(first_index(bad))}"
            raise Refused(f"{self._what}: code {code} is the outlier identifier, not a value")
        return codes

    @property
    def _what(self) -> str:
        return f"{type(self).__name__} of {self.width} bits"


@functools.lru_cache(maxsize=32)
def _of_fp16(fmt: Element, rounding: Ties) -> np.ndarray:
    """The code of every fp16 word; the highest bit of the dtype alone for what is not finite.

    That is not a code of a narrower format, but the identifier, or the least value, of one that fills its dtype. To
    search for it among the codes takes a fifth of the time of a search among the values.
    """
    every = np.arange(WORDS).astype(np.uint16).view(np.float16).astype(np.float64)
    codes = fmt.code_of(np.where(np.isfinite(every), every, 0), rounding).astype(code_dtype(fmt.width))
    codes[~np.isfinite(every)] = 1 << (8 * codes.itemsize - 1)
    codes.flags.writeable = False
    return codes
