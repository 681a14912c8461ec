"""Two's complement integers; the symmetric ones leave the most negative code to OVP as its identifier.

Paper: [olive §3.1, §3.2, Tbl. 3].
"""

import numpy as np

from refemu.arith.checks import require_int
from refemu.arith.records import parameters, plain_fields
from refemu.formats.element import Element
from refemu.formats.nearest import Ties, nearest


@parameters
class IntFormat(Element):
    """Two's complement of `width` bits, values -2**(width-1) .. 2**(width-1) - 1.

    `symmetric` drops the most negative value: its code 10...0 is never produced and never decoded.
    """

    width: int  #: bits of one code, 2 to 16
    symmetric: bool = False  #: values -N .. N only

    def __post_init__(self) -> None:
        plain_fields(self)
        require_int(self.width, 2, 16, "IntFormat", "width")

    @property
    def name(self) -> str:
        """`int4` for a symmetric format (the paper's), `int4_full` for all codes."""
        return f"int{self.width}" + ("" if self.symmetric else "_full")

    @property
    def largest(self) -> int:
        """Largest value."""
        return (1 << (self.width - 1)) - 1

    def codes(self) -> np.ndarray:
        """List every code but the identifier of a symmetric format.

        Returns
        -------
        ndarray of uint8, uint16 above 8 bits
            Codes, ascending.
        """
        codes = np.arange(1 << self.width, dtype=np.uint16 if self.width > 8 else np.uint8)
        return codes[codes != self.identifier] if self.symmetric else codes

    def code_of(self, values: np.ndarray, rounding: Ties) -> np.ndarray:
        """`encode` without its checks."""
        lowest = self.largest if self.symmetric else self.largest + 1
        magnitude = nearest(values, np.arange(lowest + 1), rounding)
        signed = np.where(values < 0, -magnitude, np.minimum(magnitude, self.largest))
        return signed & ((1 << self.width) - 1)

    def value_of(self, codes: np.ndarray) -> np.ndarray:
        """`decode` without its range check; rejects the identifier of a symmetric format."""
        if self.symmetric:
            self.refuse_identifier(codes)
        return (codes ^ self.identifier) - self.identifier

    def describe(self, code: int) -> str:
        """The bits of `code` and its value."""
        bits = f"{int(self.require_codes(code)):0{self.width}b}"
        if self.symmetric and code == self.identifier:
            return f"{bits} = outlier identifier, no value"
        return f"{bits} = {int(self.decode(code))}"


INT4 = IntFormat(width=4, symmetric=True)  #: -7 .. 7 [olive Tbl. 3]
INT8 = IntFormat(width=8, symmetric=True)  #: -127 .. 127 [olive Tbl. 3]
