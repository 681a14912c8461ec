"""A block floating point tensor: sign and magnitude per element, exponent per group; demotion, growth, storage.

Paper: [harmonia §II-B, Fig. 3], [harmonia §III-A, Fig. 6b] (a growing group), [harmonia §III-B, Fig. 8] (demotion).
Decisions: D-harmonia-2 (why truncation makes both exact), D-harmonia-34 (packing).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith.checks import Refused, at, first_index, require_int, require_range
from refemu.arith.records import parameters
from refemu.formats import bfp_layout, groups
from refemu.formats.field import Field
from refemu.formats.html import Shown

if TYPE_CHECKING:
    from refemu.formats.bfp import Bfp


@parameters(eq=False)
class BfpTensor(Shown):
    """What `Bfp.encode` returns. Arrays are read-only; compare tensors with `equals`."""

    format: "Bfp"
    sign: np.ndarray  #: uint8 in the shape of the values, 1 = negative
    mantissa: np.ndarray  #: uint16, same shape: magnitudes below 2**mantissa_bits
    exponent: np.ndarray  #: uint8, raw fp16 exponent fields: same shape but for `axis`, which counts groups
    axis: int  #: along which elements share an exponent, counted from the front

    def __post_init__(self) -> None:
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

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return self.mantissa.shape

    @property
    def length(self) -> int:
        """Elements along the axis, those of the short last group included."""
        return self.shape[self.axis]

    def fields(self) -> Mapping[str, Field]:
        """`sign`, `mantissa` and `exponent` as unsigned bit patterns."""
        return {
            "sign": Field(self.sign, 1, False, "1 = negative"),
            "mantissa": Field(self.mantissa, self.format.mantissa_bits, False, "magnitude, leading one included"),
            "exponent": Field(self.exponent, 5, False, "largest fp16 exponent field of the group, bias 15"),
        }

    def signed(self) -> np.ndarray:
        """Mantissas with their sign, int64 in the shape of the values: what the array multiplies."""
        magnitude = self.mantissa.astype(np.int64)
        return np.where(self.sign == 1, -magnitude, magnitude)

    def powers(self) -> np.ndarray:
        """max(E, 1) - 14 - mantissa_bits, int64 in the shape of `exponent`: a value is signed * 2**power."""
        return np.maximum(self.exponent.astype(np.int64), 1) - 14 - self.format.mantissa_bits

    def grid(self) -> np.ndarray:
        """Values in units of 2**(-13 - mantissa_bits), int64, exact."""
        shift = self._spread(np.maximum(self.exponent.astype(np.int64), 1) - 1)
        return self.signed() << shift

    def decode(self) -> np.ndarray:
        """Values, float64, exact; a zero keeps its sign. Each is an fp16 number unless E is 31."""
        magnitude = self.mantissa.astype(np.float64)
        signed = np.where(self.sign == 1, -magnitude, magnitude)
        return np.ldexp(signed, self._spread(self.powers()).astype(np.int32))

    def _spread(self, per_group: np.ndarray) -> np.ndarray:
        return groups.spread(per_group, self.format.group, self.length, self.axis)

    def demote(self, mantissa_bits: int) -> "BfpTensor":
        """The upper `mantissa_bits` bits of every magnitude under the same exponents.

        Equal to encoding the fp16 values again at that width. Refused: more bits than there are, and a format that does
        not truncate, where it would not be equal.
        """
        fmt = self.format
        require_int(mantissa_bits, 1, fmt.mantissa_bits, "BfpTensor.demote", "mantissa_bits")
        self._require_truncation("demote")
        return self._shifted(
            replace(fmt, mantissa_bits=mantissa_bits), fmt.mantissa_bits - mantissa_bits, self.exponent
        )

    def realign(self, exponent: Any) -> "BfpTensor":
        """The same values under larger exponents, one per group or one for all: magnitudes shift right.

        Equal to encoding the fp16 values again beside the element that raised the exponent. Refused: an exponent below
        the stored one or above 30 (31 with special="hw"), and a format that does not truncate.
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
        """Bits of signs and magnitudes; with `exponent` also 5 per group, a short one included."""
        return self.mantissa.size * (1 + self.format.mantissa_bits) + (5 * self.exponent.size if exponent else 0)

    def words(self) -> list[int]:
        """One integer per group, axis moved last, in C order: what `pack` lays down, for hexadecimal lines."""
        return bfp_layout.words(self)

    def pack(self, layout: str = "group") -> bytes:
        """The memory layout (D-harmonia-34), groups in C order with the axis moved last, a short one filled with zeros.

        "group": words of exponent [4:0], the sign of element i at bit 5 + i, its magnitude from bit 5 + group +
        mantissa_bits * i on; without gaps, the end filled up to a byte. "planes" (4 or 8 bits): exponents, signs, high
        nibbles, low nibbles, each filled up to a byte, so that demotion drops the end.
        """
        return bfp_layout.pack(self, layout)

    def equals(self, other: object) -> bool:
        """Equal format, axis and codes."""
        if not isinstance(other, BfpTensor):
            return False
        pairs = ((self.sign, other.sign), (self.mantissa, other.mantissa), (self.exponent, other.exponent))
        return (self.format, self.axis) == (other.format, other.axis) and all(np.array_equal(a, b) for a, b in pairs)

    def __repr__(self) -> str:
        return f"BfpTensor({self.format.name}, shape={self.shape}, axis={self.axis})"
