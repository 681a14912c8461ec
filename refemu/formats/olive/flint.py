"""flint: a float whose exponent is the number of leading zeros, so that small values are dense and large ones sparse.

Paper: [olive §3.2, Tbl. 3], after its reference [32]. Decisions: D-olive-16 (which exponent-integer pair a code means),
D-olive-17 (what rounds to 0 has sign 0: 10...0 is the identifier).
"""

import numpy as np

from refemu.arith.checks import require_int
from refemu.arith.records import parameters, plain_fields
from refemu.formats.element import Element
from refemu.formats.nearest import Ties, nearest


@parameters
class Flint(Element):
    """Sign and an unsigned flint of n = width - 1 bits; the code 10...0 (-0) is the identifier, not a value.

    Value of an unsigned flint: below 2**(n-1) the code itself; else, with `low` its n - 1 low bits and z the leading
    zeros of `low`, low << (2z + 1), and 1 << 2(n-1) for low = 0.

    References
    ----------
    [olive §3.2, Tbl. 3]
    """

    width: int  #: bits of one code, 3 to 8

    def __post_init__(self) -> None:
        plain_fields(self)
        require_int(self.width, 3, 8, "Flint", "width")

    @property
    def name(self) -> str:
        """`flint4`."""
        return f"flint{self.width}"

    @property
    def largest(self) -> int:
        """Largest value."""
        return 1 << 2 * (self.width - 2)

    def codes(self) -> np.ndarray:
        """Every code but the identifier, ascending, uint8."""
        codes = np.arange(1 << self.width, dtype=np.uint8)
        return codes[codes != self.identifier]

    def split(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split codes into exponents and signed integers, value = integer << exponent (D-olive-16).

        Parameters
        ----------
        codes : ndarray of int64
            Below 2**width; the identifier gives (0, 0).

        Returns
        -------
        exponent, integer : ndarray of int64
            In the shape of the codes.
        """
        low_bits = self.width - 2
        low = codes & ((1 << low_bits) - 1)
        upper = (codes >> low_bits) & 1 == 1
        zeros = low_bits - np.frexp(low.astype(np.float64))[1].astype(np.int64)
        exponent = np.where(upper, np.where(low == 0, 2 * low_bits, 2 * zeros), 0)
        integer = np.where(upper, np.where(low == 0, 1, low << 1), low)
        return exponent, np.where(codes >= self.identifier, -integer, integer)

    def code_of(self, values: np.ndarray, rounding: Ties) -> np.ndarray:
        """`encode` without its checks."""
        unsigned = np.arange(self.identifier)
        magnitudes = self.value_of(unsigned)
        by_rank = np.argsort(magnitudes, kind="stable")
        code = by_rank[nearest(values, magnitudes[by_rank], rounding)]
        return np.where((values < 0) & (code > 0), code | self.identifier, code)  # D-olive-17

    def value_of(self, codes: np.ndarray) -> np.ndarray:
        """`decode` without its range check; rejects the identifier."""
        exponent, integer = self.split(self.refuse_identifier(codes))
        return integer << exponent

    def describe(self, code: int) -> str:
        """Sign, unsigned flint, exponent-integer pair and value of `code`."""
        bits = f"{int(self.require_codes(code)):0{self.width}b}"
        if code == self.identifier:
            return f"{bits[0]} {bits[1:]} = outlier identifier, no value"
        exponent, integer = self.split(np.asarray(code, np.int64))
        return f"{bits[0]} {bits[1:]} = {int(integer)} << {int(exponent)} = {int(self.decode(code))}"


FLINT4 = Flint(width=4)  #: 0, 1, 2, 3, 4, 6, 8, 16 and their negatives [olive Tbl. 3]
