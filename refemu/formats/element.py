"""What integer, flint and abfloat formats share: one value, one code, nearest by the same rule.

Paper: [olive Tbl. 3, Tbl. 4]. A format adds its magnitudes and how a code spells sign and rank.
"""

import functools
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith.bits import code_dtype
from refemu.arith.checks import Refused, at, first_index, require_choice, require_range
from refemu.formats.nearest import TIES, exact

WORDS = 1 << 16  #: fp16 words; from so many values on, a table of their codes is sooner made


class Element(ABC):
    """A format that maps one value in grid units to one unsigned code of `width` bits and back."""

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
        """Every code that stands for a value, ascending, unsigned."""

    @abstractmethod
    def describe(self, code: int) -> str:
        """One line for people: the bit fields of `code` and its value."""

    @abstractmethod
    def code_of(self, values: np.ndarray, rounding: str) -> np.ndarray:
        """`encode` without its checks: values are float64 (infinities saturate) or integers; returns int64."""

    @abstractmethod
    def value_of(self, codes: np.ndarray) -> np.ndarray:
        """`decode` without its checks: int64 of int64."""

    @property
    def identifier(self) -> int:
        """The code 10...0: never produced; OVP's mark of a victim [olive §3.1]."""
        return 1 << (self.width - 1)

    def encode(self, values: Any, rounding: str = "half_even") -> np.ndarray:
        """Codes of the representable values nearest to `values`; beyond the largest magnitude that one.

        values: integers, float16, float32 or float64 of any shape, in grid units, finite; used exactly.
        rounding: where a value midway between two goes, one of `nearest.TIES` (D-olive-7, D-olive-8).
        Returns uint8 (uint16 above 8 bits), same shape. Raises TypeError for another dtype, ValueError for NaN and
        infinity.
        """
        rule = str(require_choice(rounding, TIES, f"{self}.encode", "rounding"))
        if isinstance(values, np.ndarray) and values.dtype == np.float16 and values.size >= WORDS:
            codes = np.take(_of_fp16(self, rule), values.view(np.uint16))
            signed = codes.view(f"i{codes.itemsize}")
            if signed.min() > np.iinfo(signed.dtype).min or np.isfinite(values).all():
                return codes
        return self.code_of(exact(values, f"{self}.encode"), rule).astype(code_dtype(self.width))

    def decode(self, codes: Any) -> np.ndarray:
        """Values of `codes` in grid units, exact.

        codes: integers of any shape, each in [0, 2**width). Returns int64, same shape.
        Raises TypeError for another dtype, ValueError for a code out of range or without a value.
        """
        return np.asarray(self.value_of(self.require_codes(codes).astype(np.int64)))

    def round(self, values: Any, rounding: str = "half_even") -> np.ndarray:
        """`decode(encode(values))`: the nearest representable values, int64."""
        return self.decode(self.encode(values, rounding))

    def require_codes(self, codes: Any) -> np.ndarray:
        """Integer codes in [0, 2**width); the first one outside is refused with its index."""
        return require_range(codes, 0, 1 << self.width, str(self), "code")

    def refuse_identifier(self, codes: np.ndarray) -> np.ndarray:
        """`codes`, none of which is the identifier; the first one is refused with its index."""
        bad = codes == self.identifier
        if bad.any():
            code = f"{self.identifier:0{self.width}b}{at(first_index(bad))}"
            raise Refused(f"{self}: code {code} is the outlier identifier, not a value")
        return codes


@functools.lru_cache(maxsize=32)
def _of_fp16(fmt: Element, rounding: str) -> np.ndarray:
    """The code of every fp16 word; the highest bit of the dtype alone for what is not finite.

    That is no code of a narrower format, and the identifier, or the least value, of one that fills its dtype. To look
    for it among the codes costs a fifth of a look at the values.
    """
    every = np.arange(WORDS).astype(np.uint16).view(np.float16).astype(np.float64)
    codes = fmt.code_of(np.where(np.isfinite(every), every, 0), rounding).astype(code_dtype(fmt.width))
    codes[~np.isfinite(every)] = 1 << (8 * codes.itemsize - 1)
    codes.flags.writeable = False
    return codes
