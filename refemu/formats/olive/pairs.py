"""An outlier-victim-pair encoded tensor: a code per element, the scales, and the paper's memory layout.

Paper: [olive §3.1, Fig. 4]. Decisions: D-olive-1 (which half of a word is the left element), D-olive-24 (which elements
are a pair; odd lengths).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from refemu.arith import bits
from refemu.arith.checks import Refused
from refemu.arith.records import parameters
from refemu.formats.field import Field
from refemu.formats.html import Shown

if TYPE_CHECKING:
    from refemu.formats.ovp import Ovp


def to_pairs(array: np.ndarray, axis: int | None) -> np.ndarray:
    """Elements as pairs, left first: shape (..., n / 2, 2) with `axis` moved last; (size / 2, 2) for axis None.

    An odd length along the axis gets one zero at its end (D-olive-24); flat pairs refuse an odd size.
    """
    if axis is None:
        if array.size % 2:
            raise Refused(f"Ovp: flat pairs need an even number of elements, got {array.size}")
        return array.reshape(-1, 2)
    moved = np.moveaxis(array, axis, -1)
    if moved.shape[-1] % 2:
        moved = np.concatenate([moved, np.zeros((*moved.shape[:-1], 1), array.dtype)], axis=-1)
    return moved.reshape(*moved.shape[:-1], moved.shape[-1] // 2, 2)


def from_pairs(pairs: np.ndarray, shape: tuple[int, ...], axis: int | None) -> np.ndarray:
    """The inverse of `to_pairs`: elements in `shape`, whose length along `axis` is even."""
    if axis is None:
        return pairs.reshape(shape)
    return np.moveaxis(pairs.reshape(*without(shape, axis), shape[axis]), -1, axis)


def without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """`shape` less the length along `axis`."""
    return tuple(n for i, n in enumerate(shape) if i != axis % len(shape))


def padded(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    """`shape` with the length along `axis` rounded up to even."""
    if axis is None:
        return shape
    return tuple(n + n % 2 if i == axis % len(shape) else n for i, n in enumerate(shape))


@parameters(eq=False)
class OvpTensor(Shown):
    """What `Ovp.encode` returns. Arrays are read-only; compare tensors with `equals`."""

    format: "Ovp"
    code: np.ndarray  #: uint8, one code per element, padded shape
    shape: tuple[int, ...]  #: of the values
    axis: int  #: along which elements are paired and share a scale; flat pairs run across it
    scale: np.ndarray | None = None  #: float32, of one shape with the values without `axis`, or a scalar; None = 1

    def __post_init__(self) -> None:
        for array in (self.code, self.scale):
            if array is not None:
                array.flags.writeable = False

    def fields(self) -> Mapping[str, Field]:
        """`code`, and `scale` where there is one, as unsigned bit patterns."""
        fields = {"code": Field(self.code, self.format.width, True, f"{self.format.name} codes, pairs along the axis")}
        if self.scale is not None:
            fields["scale"] = Field(self.scale.view(np.uint32), 32, True, "float32 pattern: value = grid units x scale")
        return fields

    def decode(self) -> np.ndarray:
        """Values in grid units, int64 in the shape of the values; victims are 0, the padding is dropped."""
        grid = self.format.decode(self.code, self.axis)
        return grid[tuple(slice(n) for n in self.shape)]

    def dequantize(self) -> np.ndarray:
        """fl32(grid x scale), float32 in the shape of the values: one rounding of the exact product."""
        if self.scale is None:
            return self.decode().astype(np.float32)
        scale = self.scale if self.scale.ndim == 0 else np.expand_dims(self.scale, self.axis)
        return (self.decode() * scale.astype(np.float64)).astype(np.float32)

    def pairs(self) -> np.ndarray:
        """Pairs as the decoder's port sees them: uint8 (uint16 for 8-bit codes), shape (..., padded / 2).

        The paired axis stands last; flat pairs have shape (size / 2,). The left element is in the low half unless the
        format says `left="high"` (D-olive-1).
        """
        return self.format.join(to_pairs(self.code, self.format.paired(self.shape, self.axis)))

    def pack(self) -> bytes:
        """The memory layout: pairs in C order (paired axis last), the lower half of each word first (D-olive-1)."""
        pairs = to_pairs(self.code, self.format.paired(self.shape, self.axis))
        return bits.pack(pairs[..., self.format.low_first], self.format.width)

    def storage_bits(self, metadata: bool = True) -> int:
        """Bits of the codes, padding included; with `metadata` also 32 per scale, 1 type bit and 4 bias bits."""
        codes = self.format.width * self.code.size
        scales = 0 if self.scale is None else self.scale.size
        return codes + (32 * scales + 5 if metadata else 0)

    def equals(self, other: object) -> bool:
        """Equal format, shape, axis, codes and scales, the bits of each."""
        if not isinstance(other, OvpTensor):
            return False
        same = (self.format, self.shape, self.axis) == (other.format, other.shape, other.axis)
        return same and all(_same(a, b) for a, b in ((self.code, other.code), (self.scale, other.scale)))

    def __repr__(self) -> str:
        scales = "none" if self.scale is None else self.scale.shape
        return f"OvpTensor({self.format.name}, shape={self.shape}, axis={self.axis}, scale={scales})"


def _same(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
