"""Block floating point: a group of sign-magnitude mantissas under one 5-bit exponent, taken from fp16.

Paper: [harmonia §II-B, Fig. 3], [harmonia §II-C], [harmonia §III-B]. Decisions: D-harmonia-1 (the mantissa does not
count the sign), D-harmonia-2 (truncation), D-harmonia-3 (exponent of zeros and subnormals), D-harmonia-4 (subnormals),
D-harmonia-5 (infinity, NaN), D-harmonia-6 (sign of a zero magnitude), D-harmonia-35 (at most 11 bits).
"""

from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType, at, first_index, require_choice, require_int, require_integers
from refemu.arith.records import parameters
from refemu.arith.rounding import shift_round
from refemu.formats import bfp_layout, groups
from refemu.formats.bfp_tensor import BfpTensor

ROUNDINGS = ("truncate", "half_even", "half_away", "floor")
LARGEST = 0x7BFF  #: word of 65504, the largest finite fp16 value
INFINITY = 0x7C00


@parameters
class Bfp:
    """Groups of `group` values (-1)^sign * M * 2^(max(E, 1) - 14 - mantissa_bits), 0 <= M < 2^mantissa_bits.

    E is the largest raw fp16 exponent field of the group (D-harmonia-3); the top bit of M weighs 2^(max(E, 1) - 15), so
    the element that brought E keeps its leading one.
    """

    mantissa_bits: int = 8  #: of a magnitude, leading one included, sign excluded: 1 to 11 (D-harmonia-1)
    group: int = 32  #: elements under one exponent
    rounding: str = "truncate"  #: of a magnitude, one of ROUNDINGS; all but "truncate" saturate (D-harmonia-2)
    special: str = "error"  #: field 31: refuse; "hw": as any field; "saturate": infinity is 65504 (D-harmonia-5)
    subnormals: str = "keep"  #: or "flush": magnitudes of field 0 become 0 (D-harmonia-4)
    zero_sign: str = "keep"  #: or "canonical": M = 0 has sign 0 (D-harmonia-6)

    def __post_init__(self) -> None:
        require_int(self.mantissa_bits, 1, 11, "Bfp", "mantissa_bits")  # D-harmonia-35
        require_int(self.group, 1, 1 << 30, "Bfp", "group")
        require_choice(self.rounding, ROUNDINGS, "Bfp", "rounding")
        require_choice(self.special, ("error", "hw", "saturate"), "Bfp", "special")
        require_choice(self.subnormals, ("keep", "flush"), "Bfp", "subnormals")
        require_choice(self.zero_sign, ("keep", "canonical"), "Bfp", "zero_sign")

    @property
    def name(self) -> str:
        """`bfp8_g32`; options that are not the default follow."""
        options = (
            (self.rounding, "truncate"),
            (self.special, "error"),
            (self.subnormals, "keep"),
            (self.zero_sign, "keep"),
        )
        return "_".join(
            [f"bfp{self.mantissa_bits}_g{self.group}", *(given for given, usual in options if given != usual)]
        )

    @property
    def group_bits(self) -> int:
        """Bits of one full group: exponent, signs, magnitudes."""
        return 5 + self.group * (1 + self.mantissa_bits)

    @property
    def largest_exponent(self) -> int:
        """The largest stored exponent."""
        return 31 if self.special == "hw" else 30

    def encode(self, x: Any, axis: int = -1, *, bits: bool = False) -> BfpTensor:
        """Groups of consecutive elements of `x` along `axis`; the last one may be short, and is not filled up.

        x: float16, or with `bits` its words as uint16; at least one axis, and one element along `axis`.
        Refused: another dtype; field 31 unless `special` admits it, with the first index.
        """
        word = self.admitted(x, bits)
        axis = groups.require_axis(axis, word.shape, "Bfp.encode")
        sign, field, magnitude = self.significands(groups.split(word, self.group, axis))
        exponent = field.max(axis=-1, initial=0)
        mantissa = self.aligned(sign, field, magnitude, exponent[..., None])
        sign = self.stored_sign(sign, mantissa)
        sign, mantissa = (groups.join(part, word.shape[axis], axis) for part in (sign, mantissa))
        return BfpTensor(
            self,
            sign.astype(np.uint8),
            mantissa.astype(np.uint16),
            np.moveaxis(exponent, -1, axis).astype(np.uint8),
            axis,
        )

    def admitted(self, x: Any, bits: bool, who: str = "Bfp.encode") -> np.ndarray:
        """`x` as fp16 words, int64, with field 31 as `special` says; a refusal starts with `who`."""
        array = np.asarray(x)
        if array.dtype != (np.uint16 if bits else np.float16):
            wanted = "uint16 words" if bits else "float16 (or uint16 words with bits=True)"
            raise RefusedType(f"{who}: x must be {wanted}, got dtype {array.dtype}")
        word = array.view(np.uint16).astype(np.int64)
        size = word & 0x7FFF
        bad = size > INFINITY if self.special == "saturate" else size >= INFINITY
        if self.special != "hw" and bad.any():
            index = first_index(bad)
            rule = "NaN" if self.special == "saturate" else "infinity and NaN; special='saturate' or 'hw' admits some"
            raise Refused(f"{who}: x must hold no {rule}, got 0x{int(word[index]):04x}{at(index)}")
        return np.where(size == INFINITY, word & 0x8000 | LARGEST, word) if self.special == "saturate" else word

    def significands(self, word: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sign, raw exponent field and 11-bit significand of fp16 words; a field of 0 has no hidden bit."""
        field, fraction = (word >> 10) & 31, word & 0x3FF
        small = fraction if self.subnormals == "keep" else 0
        return word >> 15, field, np.where(field > 0, fraction | 0x400, small)

    def aligned(self, sign: np.ndarray, field: np.ndarray, magnitude: np.ndarray, exponent: np.ndarray) -> np.ndarray:
        """Magnitudes M of significands under a shared `exponent`, not below any `field`: [harmonia §II-B, Fig. 3].

        Rounding may carry to 2**mantissa_bits, which saturates: the exponent is fixed by then (D-harmonia-2).
        """
        shift = 11 - self.mantissa_bits + np.maximum(exponent, 1) - np.maximum(field, 1)
        signed = np.where(sign == 1, -magnitude, magnitude)
        return np.minimum(np.abs(shift_round(signed, shift, self.rounding)), (1 << self.mantissa_bits) - 1)

    def stored_sign(self, sign: np.ndarray, mantissa: np.ndarray) -> np.ndarray:
        """The sign as it is, or 0 beside a zero magnitude (D-harmonia-6)."""
        return np.where(mantissa == 0, 0, sign) if self.zero_sign == "canonical" else sign

    def tensor(self, sign: Any, mantissa: Any, exponent: Any, axis: int = -1) -> BfpTensor:
        """The BfpTensor of given codes: sign and mantissa in the shape of the values, one exponent per group of `axis`.

        Refused: sign above 1, mantissa from 2**mantissa_bits on, exponent above 30 (31 with "hw"), unfit shapes.
        """
        codes = [
            require_integers(codes, f"BfpTensor.{name}")
            for name, codes in (("sign", sign), ("mantissa", mantissa), ("exponent", exponent))
        ]
        for name, array, limit in zip(
            ("sign", "mantissa", "exponent"),
            codes,
            (2, 1 << self.mantissa_bits, self.largest_exponent + 1),
            strict=True,
        ):
            bfp_layout.require_codes(array, limit, name)
        axis = groups.require_axis(axis, codes[1].shape, "BfpTensor")
        return BfpTensor(self, codes[0].astype(np.uint8), codes[1].astype(np.uint16), codes[2].astype(np.uint8), axis)

    def unpack(self, data: bytes, shape: tuple[int, ...], axis: int = -1, layout: str = "group") -> BfpTensor:
        """The BfpTensor of values of `shape` whose `pack(layout)` is `data`.

        Refused: a wrong length, padding that is not 0, an exponent out of range.
        """
        axis = groups.require_axis(axis, shape, "Bfp.unpack")
        sign, mantissa, exponent = bfp_layout.unpack(self, data, shape, axis, layout)
        return self.tensor(sign, mantissa, exponent, axis)

    def describe(self, sign: int, mantissa: int, exponent: int) -> str:
        """One line for people: the fields of an element and its value."""
        one = self.tensor([sign], [mantissa], [exponent])
        return f"{sign} {mantissa:0{self.mantissa_bits}b} E {exponent} = {float(one.decode()[0])!r}"


BFP8 = Bfp(8)  #: activations, and keys and values of the initial and local tokens [harmonia §III-B]
BFP4 = Bfp(4)  #: keys and values of the other tokens [harmonia §III-B]
