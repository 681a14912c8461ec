"""Block floating point: a group of sign-magnitude mantissas under one 5-bit exponent, taken from fp16.

Paper: [harmonia §II-B, Fig. 3], [harmonia §II-C], [harmonia §III-A, Fig. 6b] (a growing group), [harmonia §III-B,
Fig. 8] (demotion). Decisions: D-harmonia-1 (the mantissa does not count the sign), D-harmonia-2 (truncation, and why it
makes demotion and growth exact), D-harmonia-3 (exponent of zeros and subnormals), D-harmonia-4 (subnormals),
D-harmonia-5 (infinity, NaN), D-harmonia-6 (sign of a zero magnitude), D-harmonia-34 (packing), D-harmonia-35 (at most
11 bits).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import (
    Refused,
    RefusedType,
    as_array,
    at,
    first_index,
    require_int,
    require_integers,
    require_range,
)
from refemu.arith.fp16 import Subnormals
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.arith.rounding import shift_round
from refemu.formats import groups
from refemu.formats.field import Field
from refemu.formats.harmonia import bfp_layout
from refemu.formats.harmonia.bfp_layout import Layout
from refemu.formats.html import Shown

BfpRounding: TypeAlias = Literal["truncate", "half_even", "half_away", "floor"]  #: of `Rounding`, those of a magnitude
Special: TypeAlias = Literal[
    "error", "hw", "saturate"
]  #: treatment of field 31: an error; as any field; infinity is 65504
ZeroSign: TypeAlias = Literal["keep", "canonical"]  #: Sign of a magnitude of 0: that of the value, or 0

ROUNDINGS: tuple[BfpRounding, ...] = get_args(BfpRounding)
LARGEST = 0x7BFF  #: word of 65504, the largest finite fp16 value
INFINITY = 0x7C00


@parameters(eq=False)
class BfpTensor(Shown):
    """Encoded tensor of groups, as `Bfp.encode` returns it. Arrays are read-only; compare tensors with `equals`."""

    format: "Bfp"  #: format of the codes
    sign: np.ndarray  #: uint8 in the shape of the values, 1 = negative
    mantissa: np.ndarray  #: uint16, same shape: magnitudes below 2**mantissa_bits
    exponent: np.ndarray  #: uint8, raw fp16 exponent fields: same shape but for `axis`, which counts groups
    axis: int  #: along which elements share an exponent, counted from the front

    _drawing: ClassVar[str] = "refemu.draw.harmonia.bfp:tensor"

    def __post_init__(self) -> None:
        plain_fields(self)
        fmt = self.format
        per_group = tuple(groups.count(n, fmt.group) if i == self.axis else n for i, n in enumerate(self.shape))
        if self.sign.shape != self.shape or self.exponent.shape != per_group:
            raise Refused(
                f"BfpTensor: mantissa of shape {self.shape} needs sign {self.shape} and exponent "
                f"{per_group}, got {self.sign.shape} and {self.exponent.shape}"
            )
        for name, array, limit in (
            ("sign", self.sign, 2),
            ("mantissa", self.mantissa, 1 << fmt.mantissa_bits),
            ("exponent", self.exponent, fmt.largest_exponent + 1),
        ):
            bfp_layout.require_codes(array, limit, name)
            array.flags.writeable = False

    @classmethod
    def of_codes(
        cls, format: "Bfp", sign: np.ndarray, mantissa: np.ndarray, exponent: np.ndarray, axis: int
    ) -> "BfpTensor":
        """The tensor of codes that a conversion made, without checks.

        Parameters
        ----------
        format : Bfp
            Format.
        sign, mantissa, exponent : ndarray
            As in the constructor; they become read-only.
        axis : int
            Along which elements share an exponent.

        Returns
        -------
        BfpTensor
            Tensor.
        """
        tensor = object.__new__(cls)
        vars(tensor).update(format=format, sign=sign, mantissa=mantissa, exponent=exponent, axis=axis)
        for array in (sign, mantissa, exponent):
            array.flags.writeable = False
        return tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return self.mantissa.shape

    @property
    def length(self) -> int:
        """Elements along the axis, those of the short last group included."""
        return self.shape[self.axis]

    def fields(self) -> Mapping[str, Field]:
        """Stored fields as unsigned bit patterns: `sign`, `mantissa` and `exponent`.

        Returns
        -------
        mapping of str to Field
            By name.
        """
        return {
            "sign": Field(self.sign, 1, False, "1 = negative"),
            "mantissa": Field(self.mantissa, self.format.mantissa_bits, False, "magnitude, leading one included"),
            "exponent": Field(self.exponent, 5, False, "largest fp16 exponent field of the group, bias 15"),
        }

    def signed(self) -> np.ndarray:
        """Mantissas with their sign: operands of the array.

        Returns
        -------
        ndarray of int64
            In the shape of the values.
        """
        magnitude = self.mantissa.astype(np.int64)
        return np.where(self.sign == 1, -magnitude, magnitude)

    def powers(self) -> np.ndarray:
        """Exponents of two, max(E, 1) - 14 - mantissa_bits: a value is signed * 2**power.

        Returns
        -------
        ndarray of int64
            In the shape of `exponent`.
        """
        return np.maximum(self.exponent.astype(np.int64), 1) - 14 - self.format.mantissa_bits

    def grid(self) -> np.ndarray:
        """Values in units of 2**(-13 - mantissa_bits), exact.

        Returns
        -------
        ndarray of int64
            In the shape of the values.
        """
        shift = self._spread(np.maximum(self.exponent.astype(np.int64), 1) - 1)
        return self.signed() << shift

    def decode(self) -> np.ndarray:
        """Magnitudes with their signs, as integers; the exponents are not applied.

        Returns
        -------
        ndarray of int64
            In the shape of the values.
        """
        return self.signed()

    def dequantize(self) -> np.ndarray:
        """Decode to real values, exactly; a zero keeps its sign. Each value is an fp16 number unless E is 31.

        Returns
        -------
        ndarray of float64
            Values.
        """
        magnitude = self.mantissa.astype(np.float64)
        signed = np.where(self.sign == 1, -magnitude, magnitude)
        return np.ldexp(signed, self._spread(self.powers()).astype(np.int32))

    def _spread(self, per_group: np.ndarray) -> np.ndarray:
        return groups.spread(per_group, self.format.group, self.length, self.axis)

    def demote(self, mantissa_bits: int) -> "BfpTensor":
        """Keep the upper bits of every magnitude under the same exponents.

        Equal to encoding the fp16 values again at that width.

        Parameters
        ----------
        mantissa_bits : int
            Bits to keep, 1 to those of the format.

        Returns
        -------
        BfpTensor
            Narrower codes.

        Raises
        ------
        Refused
            More bits than there are, or a format that does not truncate, where it would not be equal.
        """
        fmt = self.format
        require_int(mantissa_bits, 1, fmt.mantissa_bits, "BfpTensor.demote", "mantissa_bits")
        self._require_truncation("demote")
        return self._shifted(
            replace(fmt, mantissa_bits=mantissa_bits), fmt.mantissa_bits - mantissa_bits, self.exponent
        )

    def realign(self, exponent: ArrayLike) -> "BfpTensor":
        """Shift magnitudes right under larger exponents.

        Equal to encoding the fp16 values again with the element that raised the exponent.

        Parameters
        ----------
        exponent : array_like of integers
            One per group or one for all, not below the stored ones, at most 30 (31 with special="hw").

        Returns
        -------
        BfpTensor
            Shifted codes.

        Raises
        ------
        Refused
            An exponent is out of range, or the format does not truncate.
        RefusedType
            Another dtype.
        """
        self._require_truncation("realign")
        most = self.format.largest_exponent
        wanted = require_range(np.asarray(exponent), 0, most + 1, "BfpTensor.realign", "exponent").astype(np.int64)
        try:
            raised = np.broadcast_to(wanted, self.exponent.shape)
        except ValueError:
            raise Refused(
                f"BfpTensor.realign: exponent must fit shape {self.exponent.shape}, got {wanted.shape}"
            ) from None
        bad = raised < self.exponent
        if bad.any():
            index = first_index(bad)
            raise Refused(
                f"BfpTensor.realign: exponent {int(raised[index])}{at(index)} is below the stored "
                f"{int(self.exponent[index])}"
            )
        shift = np.maximum(raised, 1) - np.maximum(self.exponent.astype(np.int64), 1)
        return self._shifted(self.format, self._spread(shift), raised.astype(np.uint8))

    def _require_truncation(self, name: str) -> None:
        if self.format.rounding != "truncate":
            raise Refused(
                f"BfpTensor.{name}: rounding must be 'truncate', got {self.format.rounding!r}: "
                "other roundings need the fp16 values"
            )

    def _shifted(self, fmt: "Bfp", shift: Any, exponent: np.ndarray) -> "BfpTensor":
        mantissa = self.mantissa >> np.asarray(shift, np.uint16)
        sign = fmt.stored_sign(self.sign, mantissa).astype(np.uint8)
        return BfpTensor(fmt, sign, mantissa, exponent, self.axis)

    def storage_bits(self, exponent: bool = True) -> int:
        """Count the bits of signs and magnitudes.

        Parameters
        ----------
        exponent : bool
            Count also 5 bits per group, a short one included.

        Returns
        -------
        int
            Bits.
        """
        return self.mantissa.size * (1 + self.format.mantissa_bits) + (5 * self.exponent.size if exponent else 0)

    def words(self) -> list[int]:
        """Pack every group to one integer, axis moved last, in C order, for hexadecimal lines.

        Returns
        -------
        list of int
            Groups as `pack` lays them out.
        """
        return bfp_layout.words(self._rows(), self.format.mantissa_bits)

    def pack(self, layout: Layout = "group") -> bytes:
        """Pack the codes (D-harmonia-34): groups in C order, axis moved last, a short group filled with zeros.

        "group": words of exponent [4:0], the sign of element i at bit 5 + i, its magnitude from bit 5 + group +
        mantissa_bits * i on; without gaps, the end filled up to a byte. "planes" (4 or 8 bits): exponents, signs, high
        nibbles, low nibbles, each filled up to a byte, so that demotion drops the end.

        Parameters
        ----------
        layout : {"group", "planes"}
            Layout.

        Returns
        -------
        bytes
            Packed codes.
        """
        return bfp_layout.pack(self._rows(), self.format.mantissa_bits, layout)

    def _rows(self) -> bfp_layout.GroupRows:
        return bfp_layout.rows_of(self.sign, self.mantissa, self.exponent, self.axis, self.format.group)

    def equals(self, other: object) -> bool:
        """Whether format, axis and codes are equal.

        Parameters
        ----------
        other : object
            Anything.

        Returns
        -------
        bool
            True if it is an equal BfpTensor.
        """
        if not isinstance(other, BfpTensor):
            return False
        pairs = ((self.sign, other.sign), (self.mantissa, other.mantissa), (self.exponent, other.exponent))
        return (self.format, self.axis) == (other.format, other.axis) and all(np.array_equal(a, b) for a, b in pairs)

    def __repr__(self) -> str:
        return f"BfpTensor({self.format.name}, shape={self.shape}, axis={self.axis})"


@parameters
class Bfp:
    """Groups of `group` values (-1)^sign * M * 2^(max(E, 1) - 14 - mantissa_bits), 0 <= M < 2^mantissa_bits.

    E is the largest raw fp16 exponent field of the group (D-harmonia-3); the top bit of M weighs 2^(max(E, 1) - 15), so
    the element that brought E keeps its leading one.

    References
    ----------
    [harmonia §II-B, Fig. 3]
    """

    mantissa_bits: int = 8  #: of a magnitude, leading one included, sign excluded: 1 to 11 (D-harmonia-1)
    group: int = 32  #: elements under one exponent
    rounding: BfpRounding = "truncate"  #: of a magnitude, one of ROUNDINGS; all but "truncate" saturate (D-harmonia-2)
    special: Special = "error"  #: field 31: an error; "hw": as any field; "saturate": infinity is 65504 (D-harmonia-5)
    subnormals: Subnormals = "keep"  #: or "flush": magnitudes of field 0 become 0 (D-harmonia-4)
    zero_sign: ZeroSign = "keep"  #: or "canonical": M = 0 has sign 0 (D-harmonia-6)

    def __post_init__(self) -> None:
        plain_fields(self)
        require_int(self.mantissa_bits, 1, 11, "Bfp", "mantissa_bits")  # D-harmonia-35
        require_int(self.group, 1, 1 << 30, "Bfp", "group")
        require_options(self, "Bfp")

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
            [f"bfp{self.mantissa_bits}_g{self.group}", *(option for option, default in options if option != default)]
        )

    @property
    def group_bits(self) -> int:
        """Bits of one full group: exponent, signs, magnitudes."""
        return 5 + self.group * (1 + self.mantissa_bits)

    @property
    def largest_exponent(self) -> int:
        """The largest stored exponent."""
        return 31 if self.special == "hw" else 30

    def encode(self, x: ArrayLike, axis: int = -1, *, bits: bool = False) -> BfpTensor:
        """Encode groups of consecutive elements along an axis; the last group may be short, and is not filled up.

        Parameters
        ----------
        x : array_like of float16, with `bits` of uint16
            At least one axis, and one element along `axis`.
        axis : int
            Axis of the groups.
        bits : bool
            Whether `x` holds fp16 words.

        Returns
        -------
        BfpTensor
            Codes.

        Raises
        ------
        Refused
            Exponent field 31, unless `special` admits it, with the first index; or a bad axis.
        RefusedType
            Another dtype.
        """
        word = self.validated(x, bits)
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

    def validated(self, x: ArrayLike, bits: bool, who: str = "Bfp.encode") -> np.ndarray:
        """Check values and return their fp16 words, with field 31 as `special` says.

        Parameters
        ----------
        x : array_like of float16, with `bits` of uint16
            Values.
        bits : bool
            Whether `x` holds fp16 words.
        who : str
            Start of the error message.

        Returns
        -------
        ndarray of int64
            fp16 words.

        Raises
        ------
        Refused
            Exponent field 31, unless `special` admits it.
        RefusedType
            Another dtype.
        """
        array = as_array(x)
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
        """Split fp16 words; a field of 0 has no hidden bit.

        Parameters
        ----------
        word : ndarray of int64
            fp16 words.

        Returns
        -------
        sign, field, significand : ndarray of int64
            Sign, raw exponent field and 11-bit significand.
        """
        field, fraction = (word >> 10) & 31, word & 0x3FF
        small = fraction if self.subnormals == "keep" else 0
        return word >> 15, field, np.where(field > 0, fraction | 0x400, small)

    def aligned(self, sign: np.ndarray, field: np.ndarray, magnitude: np.ndarray, exponent: np.ndarray) -> np.ndarray:
        """Align significands under a shared exponent [harmonia §II-B, Fig. 3].

        Rounding may carry to 2**mantissa_bits, which saturates: the exponent is fixed by then (D-harmonia-2).

        Parameters
        ----------
        sign, field, magnitude : ndarray of int64
            Parts of fp16 words, as `significands` returns them.
        exponent : ndarray of int64
            Shared exponent, not below any field.

        Returns
        -------
        ndarray of int64
            Magnitudes below 2**mantissa_bits.
        """
        shift = 11 - self.mantissa_bits + np.maximum(exponent, 1) - np.maximum(field, 1)
        signed = np.where(sign == 1, -magnitude, magnitude)
        return np.minimum(np.abs(shift_round(signed, shift, self.rounding)), (1 << self.mantissa_bits) - 1)

    def stored_sign(self, sign: np.ndarray, mantissa: np.ndarray) -> np.ndarray:
        """Sign, unchanged or 0 for a zero magnitude (D-harmonia-6).

        Parameters
        ----------
        sign, mantissa : ndarray of int
            Codes.

        Returns
        -------
        ndarray of int
            Signs.
        """
        return np.where(mantissa == 0, 0, sign) if self.zero_sign == "canonical" else sign

    def tensor(self, sign: ArrayLike, mantissa: ArrayLike, exponent: ArrayLike, axis: int = -1) -> BfpTensor:
        """Make the tensor of codes.

        Parameters
        ----------
        sign, mantissa : array_like of integers
            In the shape of the values; sign 0 or 1, mantissa below 2**mantissa_bits.
        exponent : array_like of integers
            One per group of `axis`, at most 30 (31 with "hw").
        axis : int
            Axis of the groups.

        Returns
        -------
        BfpTensor
            Codes.

        Raises
        ------
        Refused
            A code is out of range or a shape wrong.
        RefusedType
            Another dtype.
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

    def unpack(self, data: bytes, shape: tuple[int, ...], axis: int = -1, layout: Layout = "group") -> BfpTensor:
        """Make the tensor whose `pack(layout)` is given.

        Parameters
        ----------
        data : bytes
            Packed codes.
        shape : tuple of int
            Shape of the values.
        axis : int
            Axis of the groups.
        layout : {"group", "planes"}
            Layout.

        Returns
        -------
        BfpTensor
            Codes.

        Raises
        ------
        Refused
            A wrong length, padding that is not 0, or an exponent out of range.
        """
        axis = groups.require_axis(axis, groups.require_shape(shape, "Bfp.unpack"), "Bfp.unpack")
        codes = bfp_layout.unpack(data, shape, axis, self.group, self.mantissa_bits, layout)
        return self.tensor(*codes, axis)

    def describe(self, sign: int, mantissa: int, exponent: int) -> str:
        """Describe an element for people.

        Parameters
        ----------
        sign, mantissa, exponent : int
            Codes.

        Returns
        -------
        str
            Fields and value.
        """
        value = float(self.tensor([sign], [mantissa], [exponent]).dequantize()[0])
        return f"{sign} {mantissa:0{self.mantissa_bits}b} E {exponent} = {value!r}"


BFP8 = Bfp(8)  #: activations, and keys and values of the initial and local tokens [harmonia §III-B]
BFP4 = Bfp(4)  #: keys and values of the other tokens [harmonia §III-B]
