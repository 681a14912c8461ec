"""Integer codes with their fp16 factors, one per group of a row.

Paper: [harmonia §IV-B] (the group-wise weight factor), [harmonia §V-A, Table I]. Decision: D-harmonia-14.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from refemu.arith import bits
from refemu.arith.checks import Refused, first_index
from refemu.arith.records import parameters
from refemu.formats import groups
from refemu.formats.field import Field
from refemu.formats.html import Shown

if TYPE_CHECKING:
    from refemu.formats.groupint import GroupInt


@parameters(eq=False)
class GroupIntTensor(Shown):
    """What `GroupInt.encode` returns. Arrays are read-only; compare tensors with `equals`."""

    format: "GroupInt"
    code: np.ndarray  #: int8 (uint8 with a zero point), (..., in)
    scale: np.ndarray  #: float16, (..., groups): finite, not negative
    zero: np.ndarray | None = None  #: uint8, (..., groups); None without a zero point

    def __post_init__(self) -> None:
        per_group = (*self.shape[:-1], groups.count(self.shape[-1], self.size))
        for name, array in (("scale", self.scale), ("zero", self.zero)):
            if array is not None and array.shape != per_group:
                raise Refused(f"GroupIntTensor: code of shape {self.shape} needs {name} {per_group}, got {array.shape}")
        self._require_scale()
        for array in (self.code, self.scale, self.zero):
            if array is not None:
                array.flags.writeable = False

    def _require_scale(self) -> None:
        bad = ~(np.isfinite(self.scale) & ~np.signbit(self.scale))
        rule = "must be finite and not negative"
        if not bad.any() and not self.scale.all():
            bad = (self.scale == 0) & (groups.split(self.grid(), self.size, -1) != 0).any(axis=-1)
            rule = "stands for codes that are not 0"
        if bad.any():
            index = first_index(bad)
            raise Refused(
                f"GroupIntTensor: scale {float(self.scale[index])} of row {index[:-1]}, group {index[-1]} {rule}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return self.code.shape

    @property
    def size(self) -> int:
        """Elements of a full group."""
        return self.format.size(self.shape[-1])

    def fields(self) -> Mapping[str, Field]:
        """`code`, `scale`, and `zero` where there is one, as unsigned bit patterns."""
        width = self.format.bits
        codes = self.code.view(np.uint8) & np.uint8((1 << width) - 1)
        fields = {
            "code": Field(codes, width, not self.format.zero_point, "code of a weight"),
            "scale": Field(self.scale.view(np.uint16), 16, True, "fp16 weight factor of the group"),
        }
        if self.zero is not None:
            fields["zero"] = Field(self.zero, width, False, "the code of 0")
        return fields

    def grid(self) -> np.ndarray:
        """Codes less their zero points, int64: values in units of the scale."""
        code = self.code.astype(np.int64)
        return (
            code
            if self.zero is None
            else code - groups.spread(self.zero.astype(np.int64), self.size, self.shape[-1], code.ndim - 1)
        )

    def decode(self) -> np.ndarray:
        """Values, float64, exact."""
        scale = groups.spread(self.scale.astype(np.float64), self.size, self.shape[-1], self.code.ndim - 1)
        return self.grid() * scale

    def dequantize(self) -> np.ndarray:
        """Values, float32: exact too, since 9 bits times 11 fit."""
        return self.decode().astype(np.float32)

    def scales_of(self, group: int) -> np.ndarray:
        """The factor of every block floating point group of `group` inputs: float16, (..., ceil(in / group)).

        Refused: a group that could meet two factors.
        """
        length = self.shape[-1]
        if self.size % group and length > self.size:
            raise Refused(f"GroupIntTensor: groups of {group} inputs cross weight groups of {self.size}")
        return self.scale[..., np.arange(0, length, group) // self.size]

    def storage_bits(self, metadata: bool = True) -> int:
        """Bits of the codes; with `metadata` also 16 per scale and the bits of each zero point."""
        extra = 16 * self.scale.size + (0 if self.zero is None else self.format.bits * self.zero.size)
        return self.format.bits * self.code.size + (extra if metadata else 0)

    def pack(self) -> bytes:
        """Codes in C order without gaps, element 0 in the least significant bits."""
        return bits.pack(self.fields()["code"].array, self.format.bits)

    def equals(self, other: object) -> bool:
        """Equal format, codes, scales (by their bits) and zero points."""
        if not isinstance(other, GroupIntTensor) or self.format != other.format:
            return False
        pairs = ((self.code, other.code), (self.scale.view(np.uint16), other.scale.view(np.uint16)))
        same = all(np.array_equal(a, b) for a, b in pairs)
        return same and (self.zero is None or (other.zero is not None and np.array_equal(self.zero, other.zero)))

    def __repr__(self) -> str:
        return f"GroupIntTensor({self.format.name}, shape={self.shape}, scale={self.scale.shape})"
