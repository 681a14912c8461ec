"""Element formats and the scale of the OCP MX specification [ocp MX 1.0 §5.3, §5.4].

A magnitude is an integer times a power of two, `m * 2**e`, so that nothing is rounded before an element is.
"""

from dataclasses import dataclass
from math import inf, ldexp, nan
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import Refused, RefusedType

Specials: TypeAlias = Literal["none", "nan", "ieee"]  #: beyond numbers: nothing, one NaN per sign, infinities and NaNs
ElementName: TypeAlias = Literal["e5m2", "e4m3", "e3m2", "e2m3", "e2m1", "int8"]


@dataclass(frozen=True)
class Element:
    """Element format: a sign, `exp_bits` and `man_bits`; without exponent an integer in two's complement."""

    name: ElementName  #: lower-case name
    exp_bits: int  #: bits of the exponent, 0 of an integer
    man_bits: int  #: bits after the leading one; for an integer, after the point
    emin: int  #: exponent of the smallest normal number
    largest_code: int  #: magnitude code of the largest number
    specials: Specials = "none"  #: codes that are not numbers

    @property
    def width(self) -> int:
        """Bits of one code."""
        return 8 if self.exp_bits == 0 else 1 + self.exp_bits + self.man_bits

    @property
    def lsb(self) -> int:
        """Exponent of the last place of subnormal numbers, and of integers."""
        return self.emin - self.man_bits

    @property
    def largest(self) -> tuple[int, int]:
        """Largest magnitude as m and e."""
        return self.magnitude(self.largest_code)

    @property
    def emax(self) -> int:
        """Exponent of the largest number, floor(log2)."""
        m, e = self.largest
        return m.bit_length() - 1 + e

    def magnitude(self, code: int) -> tuple[int, int]:
        """m and e of a magnitude code, that is of a code without its sign."""
        field, fraction = divmod(code, 1 << self.man_bits)
        if self.exp_bits == 0 or field == 0:
            return code, self.lsb
        return fraction | 1 << self.man_bits, self.lsb + field - 1

    def number(self, code: int) -> float:
        """The value of a code, exact in float32 and wider."""
        sign = code >> (self.width - 1)
        if self.exp_bits == 0:
            return ldexp(code - (sign << self.width), self.lsb)
        size = code & ((1 << (self.width - 1)) - 1)
        value = ldexp(*self.magnitude(size))
        if size > self.largest_code:
            value = inf if self.specials == "ieee" and size == self.largest_code + 1 else nan
        return -value if sign else value

    def codes(self) -> np.ndarray:
        """Every code."""
        return np.arange(1 << self.width, dtype=np.uint8)

    def decode(self, codes: ArrayLike, /) -> np.ndarray:
        """Values of codes, as float32."""
        table = np.array([self.number(code) for code in range(1 << self.width)], np.float32)
        return table[_checked(codes, self.width, self.name)]

    def encode(self, values: ArrayLike, /) -> np.ndarray:
        """The nearest codes, ties to even, saturating; NaN raises if it has no code."""
        from refemu_mx.mx_encoder import quantize

        flat = np.asarray(values, np.float64)
        codes = [self._code(float(value), quantize) for value in flat.reshape(-1)]
        return np.array(codes, np.uint8).reshape(flat.shape)

    def _code(self, value: float, quantize: object) -> int:
        if value != value and self.specials == "none":
            raise Refused(f"{self.name}: a number is needed, got NaN")
        if value != value:
            return (1 << (self.width - 1)) - 1
        m, e = (1, 2000) if value in (inf, -inf) else _parts(abs(value))
        return quantize(self, m, e, np.signbit(value).item())[0]  # type: ignore[operator, no-any-return]

    def describe(self, code: int, /) -> str:
        """Bits and value of a code."""
        return f"{int(_checked(code, self.width, self.name)):0{self.width}b} {self.name} = {self.number(int(code)):g}"


@dataclass(frozen=True)
class Scale:
    """E8M0: a power of two, 2**(code - 127); 255 is NaN."""

    width: int = 8

    def codes(self) -> np.ndarray:
        """Every code."""
        return np.arange(256, dtype=np.uint8)

    def decode(self, codes: ArrayLike, /) -> np.ndarray:
        """Powers of two, as float64; NaN for 255."""
        return np.array([ldexp(1, code - 127) for code in range(255)] + [nan])[_checked(codes, 8, "e8m0")]

    def encode(self, values: ArrayLike, /) -> np.ndarray:
        """Codes of powers of two from 2**-127 to 2**127, and of NaN; anything else raises."""
        flat = np.asarray(values, np.float64)
        mantissa, exponent = np.frexp(flat)
        codes = exponent + 126
        whole = np.isnan(flat) | ((mantissa == 0.5) & (codes >= 0) & (codes <= 254))
        if not whole.all():
            raise Refused(f"e8m0: a power of two from 2**-127 to 2**127 is needed, got {flat[~whole].reshape(-1)[0]}")
        return np.where(np.isnan(flat), 255, codes).astype(np.uint8)

    def describe(self, code: int, /) -> str:
        """The power of two, or NaN."""
        known = int(_checked(code, 8, "e8m0"))
        return f"{known:08b} e8m0 = " + ("nan" if known == 255 else f"2**{known - 127}")


def _checked(codes: ArrayLike, width: int, thing: str) -> np.ndarray:
    array = np.asarray(codes)
    if array.dtype.kind not in "iu":
        raise RefusedType(f"{thing}: integers are needed, got dtype {array.dtype}")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < 1 << width:
        raise Refused(f"{thing}: codes must be in [0, {1 << width}), got {array.min()} to {array.max()}")
    return array


def _parts(value: float) -> tuple[int, int]:
    m, denominator = value.as_integer_ratio()
    return m, 1 - denominator.bit_length()


E5M2 = Element("e5m2", 5, 2, -14, 0x7B, "ieee")
E4M3 = Element("e4m3", 4, 3, -6, 0x7E, "nan")
E3M2 = Element("e3m2", 3, 2, -2, 0x1F)
E2M3 = Element("e2m3", 2, 3, 0, 0x1F)
E2M1 = Element("e2m1", 2, 1, 0, 0x07)
INT8 = Element("int8", 0, 6, 0, 0x7F)
E8M0 = Scale()
ELEMENTS: dict[str, Element] = {each.name: each for each in (E5M2, E4M3, E3M2, E2M3, E2M1, INT8)}
