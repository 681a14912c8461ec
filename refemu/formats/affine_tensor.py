"""What `Affine.encode` returns: codes, and a scale and a zero point for every group, kept apart as hardware keeps them.

Paper: [leankv §2.2 Eq. (2), §6.2]. Decisions: D-leankv-7 (what `status` says), D-leankv-11 (order of packed codes).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith import bits
from refemu.arith.checks import Refused, RefusedType, first_index
from refemu.arith.records import parameters
from refemu.formats.field import Field
from refemu.formats.html import Shown

if TYPE_CHECKING:
    from refemu.formats.affine import Affine

WORD = 16  #: bits of a word of packed codes
SCALE_UNDERFLOW, SCALE_OVERFLOW, ZERO_OVERFLOW, CONSTANT = 1, 2, 4, 8  #: bits of `status`


@parameters(eq=False)
class AffineTensor(Shown):
    """Vectors of F features in groups of F / groups contiguous ones. Arrays are read-only; compare with `equals`."""

    format: "Affine"
    code: np.ndarray  #: (..., F) uint8, or uint16 for 16 bits: the fp16 words themselves
    scale: np.ndarray  #: (..., groups) bit patterns of the stored scale, uint16 (uint32 where metadata is fp32)
    zero: np.ndarray  #: (..., groups) bit patterns of the stored zero point
    s32: np.ndarray | None = None  #: (..., groups) uint32 pattern of the scale before it is rounded; None when unpacked
    inv32: np.ndarray | None = None  #: its reciprocal, uint32 pattern; 0 where the format divides
    status: np.ndarray | None = None  #: (..., groups) uint8: the flags above

    def __post_init__(self) -> None:
        for array in (self.code, self.scale, self.zero, self.s32, self.inv32, self.status):
            if array is not None:
                array.flags.writeable = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the values."""
        return self.code.shape

    def fields(self) -> Mapping[str, Field]:
        """`code`, `scale`, `zero`; for a tensor that was encoded here also the stages `s32`, `inv32`, `status`."""
        meta = self.format.meta
        fields = {
            "code": Field(self.code, self.format.bits, False, "steps above the minimum of the group"),
            "scale": Field(self.scale, self.format.meta_bits, False, f"{meta} pattern of the step"),
            "zero": Field(self.zero, self.format.meta_bits, True, f"{meta} pattern, {self.format.zero} stored"),
        }
        stages = (
            (self.s32, "s32", 32, "float32 pattern of the step, not stored"),
            (self.inv32, "inv32", 32, "float32 pattern of its reciprocal, not stored"),
            (self.status, "status", 4, "flags: scale underflow, scale overflow, zero overflow, constant"),
        )
        return fields | {
            name: Field(array, width, False, meaning) for array, name, width, meaning in stages if array is not None
        }

    def decode(self) -> np.ndarray:
        """Values, float32 in the shape of the codes."""
        return self.format.decode(self.code, self.scale, self.zero)

    def words(self) -> np.ndarray:
        """Codes in words of 16 bits, (..., F * bits / 16) uint16: feature 0 in the least significant bits."""
        count = self.shape[-1] * self.format.bits // WORD
        return np.frombuffer(self.pack(), "<u2").astype(np.uint16).reshape(*self.shape[:-1], count)

    def metadata(self) -> np.ndarray:
        """What a page keeps beside the codes, (..., 2 * groups): scale and zero of group 0, of group 1, ..."""
        return np.stack([self.scale, self.zero], axis=-1).reshape(*self.scale.shape[:-1], 2 * self.scale.shape[-1])

    def pack(self) -> bytes:
        """The codes in C order without gaps, little-endian."""
        return bits.pack(self.code, self.format.bits)

    def storage_bits(self, metadata: bool = True) -> int:
        """Bits of the codes; with `metadata` also of the scales and zero points."""
        return self.format.bits * self.code.size + (self.format.meta_bits * 2 * self.scale.size if metadata else 0)

    def equals(self, other: object) -> bool:
        """Equal format and equal stored fields, the bits of each; stages that are not stored do not count."""
        if not isinstance(other, AffineTensor) or self.format != other.format:
            return False
        fields = zip((self.code, self.scale, self.zero), (other.code, other.scale, other.zero), strict=True)
        return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in fields)

    def __repr__(self) -> str:
        return f"AffineTensor({self.format!r}, shape={self.shape})"


def require_codes(codes: Any, width: int) -> np.ndarray:
    """`codes` as unsigned integers of `width` bits; the first that does not fit is refused with its index."""
    array = np.asarray(codes)
    if array.dtype.kind not in "iu" or 8 * array.dtype.itemsize < width:
        raise RefusedType(f"Affine.decode: integers of at least {width} bits are needed, got dtype {array.dtype}")
    bad = (array < 0) | (array >= 1 << width)
    if bad.any():
        index = first_index(bad)
        place = index[0] if len(index) == 1 else index
        raise Refused(f"Affine.decode: code {int(array[index])} at index {place} does not fit {width} bits")
    return array.astype(bits.code_dtype(width), copy=False)
