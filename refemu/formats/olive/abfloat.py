"""abfloat: OliVe's outlier format, an integer scaled by a biased power of two.

Paper: [olive §3.3 Eq. (2), Tbl. 4, Alg. 2; §4.5]. Decisions: D-olive-10, D-olive-11 (below the smallest and above the
largest magnitude), D-olive-12 (clip to 2^15), D-olive-13 (bias of E4M3), D-olive-14 (8-bit format of the published
code), D-olive-15 (Alg. 2 for any field widths and either sign), D-olive-17 (-0 is positive), D-olive-45 (biases of the
formats that [olive Fig. 5] compares).
"""

import numpy as np

from refemu.arith.checks import Refused, RefusedType, require_int
from refemu.arith.records import parameters, plain_fields
from refemu.formats.element import Element
from refemu.formats.nearest import Ties, nearest


@parameters
class AbFloat(Element):
    """Sign-magnitude float without NaN or infinity; every value is an integer of grid units.

    Value of a code: (-1)^sign * ((1 << man_bits) + mantissa) << (exponent + bias). The magnitude code 0 is reserved
    with either sign: never produced, decoded as 0.

    References
    ----------
    [olive §3.3 Eq. (2), Tbl. 4, Alg. 2]
    """

    exp_bits: int  #: width of the exponent field; may be 0
    man_bits: int  #: width of the mantissa field, hidden one not counted
    bias: int  #: added to the exponent field, 0 to 15: lifts the range above that of the normal values
    limit: int | None = None  #: largest magnitude that `encode` produces; `decode` knows no limit

    def __post_init__(self) -> None:
        plain_fields(self)
        for name, value in (("exp_bits", self.exp_bits), ("man_bits", self.man_bits), ("limit", self.limit or 0)):
            if type(value) is not int:
                raise RefusedType(f"AbFloat: {name} must be an int, got {value!r}")
        if self.exp_bits < 0 or self.man_bits < 0 or self.exp_bits + self.man_bits == 0:
            raise Refused(
                "AbFloat: exp_bits and man_bits must be at least 0 and not both 0, got "
                f"{self.exp_bits}, {self.man_bits}"
            )
        require_int(self.width, 2, 8, "AbFloat", "width = 1 + exp_bits + man_bits")
        require_int(self.bias, 0, 15, "AbFloat", "bias")
        if self.man_bits + self.bias + (1 << self.exp_bits) > 53:
            raise Refused(f"AbFloat: values must be below 2**53, got exp_bits={self.exp_bits}, bias={self.bias}")
        if self.limit is not None and self.limit not in self.magnitudes():
            raise Refused(f"AbFloat: limit must be a magnitude of the format, got {self.limit}")

    @property
    def name(self) -> str:
        """`e2m1_bias2`, with `_limit32768` where there is a limit."""
        return f"e{self.exp_bits}m{self.man_bits}_bias{self.bias}" + (f"_limit{self.limit}" if self.limit else "")

    @property
    def width(self) -> int:
        """Bits of one code, sign included."""
        return 1 + self.exp_bits + self.man_bits

    @property
    def smallest(self) -> int:
        """Smallest magnitude, that of the magnitude code 1."""
        return int(self.magnitudes()[0])

    @property
    def largest(self) -> int:
        """Largest magnitude that `encode` produces."""
        return self.limit or int(self.magnitudes()[-1])

    def magnitudes(self) -> np.ndarray:
        """Magnitudes of the codes 1, 2, ...; the limit is not applied.

        Returns
        -------
        ndarray of int64
            Magnitudes, ascending.
        """
        return self._magnitude_of(np.arange(1, self.identifier))

    def codes(self) -> np.ndarray:
        """Every code but the two reserved ones, ascending, uint8; the limit is not applied."""
        codes = np.arange(1 << self.width, dtype=np.uint8)
        return codes[codes & (self.identifier - 1) != 0]

    def code_of(self, values: np.ndarray, rounding: Ties) -> np.ndarray:
        """`encode` without its checks: [olive Alg. 2] on magnitudes, clamped at both ends (D-olive-10, D-olive-11)."""
        magnitudes = self.magnitudes()
        code = nearest(values, magnitudes[magnitudes <= self.largest], rounding, first_rank=1)
        return np.where(values < 0, code | self.identifier, code)

    def value_of(self, codes: np.ndarray) -> np.ndarray:
        """`decode` without its checks: [olive §4.2], the outlier decoder."""
        code = codes & (self.identifier - 1)
        magnitude = np.where(code == 0, 0, self._magnitude_of(code))
        return np.where(codes >= self.identifier, -magnitude, magnitude)

    def _magnitude_of(self, code: np.ndarray) -> np.ndarray:
        """[olive Eq. (2)] without sign."""
        mantissa, exponent = code & ((1 << self.man_bits) - 1), code >> self.man_bits
        return ((1 << self.man_bits) + mantissa) << (exponent + self.bias)

    def describe(self, code: int) -> str:
        """Sign, exponent, mantissa, integer and shift of `code`, and its value."""
        bits = f"{int(self.require_codes(code)):0{self.width}b}"
        parts = " ".join(part for part in (bits[0], bits[1 : 1 + self.exp_bits], bits[1 + self.exp_bits :]) if part)
        unsigned = code & (self.identifier - 1)
        if unsigned == 0:
            return f"{parts} = 0, reserved"
        integer = (1 << self.man_bits) + (unsigned & ((1 << self.man_bits) - 1))
        sign = "-" if code >= self.identifier else ""
        return f"{parts} = {sign}{integer} << {(unsigned >> self.man_bits) + self.bias} = {int(self.decode(code))}"


def bias_above(man_bits: int, largest: int) -> int:
    """The smallest bias whose smallest magnitude is above `largest`, the largest normal value (D-olive-45).

    man_bits: of the outlier format. Rejects negative arguments, and a `largest` that needs a bias above 15.
    """
    if man_bits < 0 or largest < 0:
        raise Refused(f"bias_above: man_bits and largest must be at least 0, got {man_bits}, {largest}")
    fitting = [bias for bias in range(16) if ((1 << man_bits) + 1) << bias > largest]
    if not fitting:
        raise Refused(f"bias_above: no bias in [0, 15] lifts man_bits={man_bits} above {largest}")
    return fitting[0]


E2M1_BIAS0 = AbFloat(exp_bits=2, man_bits=1, bias=0)  #: 3 .. 24 [olive Tbl. 4]
E2M1_BIAS2 = AbFloat(exp_bits=2, man_bits=1, bias=2)  #: 12 .. 96, with int4 [olive §3.3]
E2M1_BIAS3 = AbFloat(exp_bits=2, man_bits=1, bias=3)  #: 24 .. 192, with flint4 [olive §3.3]
E4M3_BIAS4 = AbFloat(exp_bits=4, man_bits=3, bias=4, limit=1 << 15)  #: 144 .. 2^15, with int8 [olive §3.3, §4.5]
E2M5_BIAS2 = AbFloat(exp_bits=2, man_bits=5, bias=2)  #: 132 .. 2016, with int8 in the published code (D-olive-14)

E0M3_BIAS0 = AbFloat(exp_bits=0, man_bits=3, bias=0)  #: 9 .. 15, with int4 [olive Fig. 5]
E1M2_BIAS1 = AbFloat(exp_bits=1, man_bits=2, bias=1)  #: 10 .. 28, with int4 [olive Fig. 5]
E3M0_BIAS2 = AbFloat(exp_bits=3, man_bits=0, bias=2)  #: 8 .. 512, with int4 [olive Fig. 5]
E0M3_BIAS1 = AbFloat(exp_bits=0, man_bits=3, bias=1)  #: 18 .. 30, with flint4 [olive Fig. 5]
E1M2_BIAS2 = AbFloat(exp_bits=1, man_bits=2, bias=2)  #: 20 .. 56, with flint4 [olive Fig. 5]
E3M0_BIAS4 = AbFloat(exp_bits=3, man_bits=0, bias=4)  #: 32 .. 2048, with flint4 [olive Fig. 5]
