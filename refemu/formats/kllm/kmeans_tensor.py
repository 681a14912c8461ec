"""The encoded form of a K-Means tensor: indices, scales, zero points, outliers and the codebook, apart.

Paper: [kllm §II-A, Eq. (1), §III-A, §III-D]. Decisions: D-kllm-32 (inliers read as fp16 are rounded), D-kllm-38 (how
outliers are stored).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from refemu.arith import bits, fp16
from refemu.arith.checks import Refused, RefusedType, at, first_index, require_choice
from refemu.formats.field import Field
from refemu.formats.html import Shown
from refemu.formats.kllm.codebook import Codebook

OutlierLayout: TypeAlias = Literal["mask", "list", "none"]  #: a bit per value; positions; no outliers (D-kllm-38)

#: part of a tensor -> what it may be stored as; compared at every step of a decoder, hence made once
DTYPES: dict[str, tuple[np.dtype, ...]] = {
    "index": (np.dtype(np.uint8),),
    "scale": (np.dtype(np.uint16), np.dtype(np.uint32)),
    "mask": (np.dtype(np.bool_),),
    "outlier": (np.dtype(np.uint16),),
    "zero": (np.dtype(np.uint16),),
}


@dataclass(frozen=True, eq=False, repr=False)
class KMeansTensor(Shown):
    """Encoded tensor of `KMeans.encode`, and result of index functions and index products. Arrays are read-only.

    A vector (a token, or an output channel) runs along `axis`; `vectors` is the shape without it. Value of an element,
    [kllm Eq. (1)]: s * (c[index] - z), or its fp16 outlier. A part that breaks its rule below raises.
    """

    codebook: Codebook  #: one for all vectors, or with one row per vector
    index: np.ndarray  #: uint8, the shape of the values; below 2**bits; 0 at outliers, where it is not read
    scale: np.ndarray  #: patterns, uint16 fp16 or uint32 float32, shape `vectors`; positive and finite
    mask: np.ndarray  #: bool, the shape of the values; True = outlier
    outlier: np.ndarray  #: uint16 fp16 patterns, one per True of `mask`: vector by vector, ascending positions
    axis: int = -1  #: axis of the vectors; stored as at least 0
    zero: np.ndarray | None = None  #: uint16 fp16 patterns, shape `vectors`, finite; None = no zero points

    def __post_init__(self) -> None:
        for name in ("index", "scale", "mask", "outlier", "zero"):
            part = getattr(self, name)
            object.__setattr__(self, name, part if part is None else np.asarray(part))
        if self.index.ndim == 0 or not -self.index.ndim <= self.axis < self.index.ndim:
            raise RefusedType(f"KMeansTensor: index of shape {self.index.shape} has no axis {self.axis}")
        object.__setattr__(self, "axis", int(self.axis) % self.index.ndim)
        self._require_dtypes()
        self._require_shapes()
        self._require_values()
        for array in (self.index, self.scale, self.mask, self.outlier, self.zero):
            if array is not None:
                array.flags.writeable = False

    def _require_dtypes(self) -> None:
        for name, dtypes in DTYPES.items():
            array = getattr(self, name)
            if array is not None and array.dtype not in dtypes:
                raise RefusedType(f"KMeansTensor: {name} must be {' or '.join(map(str, dtypes))}, got {array.dtype}")

    def _require_shapes(self) -> None:
        if self.mask.shape != self.index.shape:
            raise Refused(f"KMeansTensor: mask must have shape {self.index.shape}, got {self.mask.shape}")
        for name, array in (("scale", self.scale), ("zero", self.zero)):
            if array is not None and array.shape != self.vectors:
                raise Refused(f"KMeansTensor: {name} must have shape {self.vectors}, got {array.shape}")
        if self.codebook.values.shape[:-1] not in ((), self.vectors):
            raise Refused(
                f"KMeansTensor: codebook must have one row, or {self.vectors} rows, got shape "
                f"{self.codebook.values.shape}"
            )
        marked = int(np.count_nonzero(self.mask))
        if self.outlier.shape != (marked,):
            raise Refused(f"KMeansTensor: mask marks {marked} outliers, got {self.outlier.shape}")

    def _require_values(self) -> None:
        size = 1 << self.codebook.bits
        if self.index.size and int(self.index.max()) >= size:
            place = first_index(self.index >= size)
            raise Refused(f"KMeansTensor: index {int(self.index[place])}{at(place)} is outside [0, {size})")
        scales = self.scales
        bad = ~(np.isfinite(scales) & (scales > 0))
        if bad.any():
            place = first_index(bad)
            raise Refused(f"KMeansTensor: scale {scales[place]!s}{at(place)} is not positive and finite")
        for name, words in (("zero", self.zero), ("outlier", self.outlier)):
            values = None if words is None else fp16.values(words)
            if values is not None and not np.isfinite(values).all():
                place = first_index(~np.isfinite(values))
                raise Refused(f"KMeansTensor: {name} {values[place]!s}{at(place)} is not finite")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return self.index.shape

    @property
    def vectors(self) -> tuple[int, ...]:
        """The shape of the values without `axis`."""
        return tuple(n for i, n in enumerate(self.index.shape) if i != self.axis)

    @property
    def length(self) -> int:
        """Values of a vector."""
        return int(self.index.shape[self.axis])

    @property
    def bits(self) -> int:
        """Width of an index."""
        return self.codebook.bits

    @property
    def scales(self) -> np.ndarray:
        """Scales as floats of their width, shape `vectors`."""
        return self.scale.view(np.float16 if self.scale.dtype == np.uint16 else np.float32)

    @property
    def zeros(self) -> np.ndarray | None:
        """Zero points as float16, shape `vectors`, or None."""
        return None if self.zero is None else self.zero.view(np.float16)

    def rows(self, array: np.ndarray | None = None) -> np.ndarray:
        """Arrange `index`, or another array of the shape of the values, by vectors in C order.

        Parameters
        ----------
        array : ndarray, optional
            Array of the shape of the values.

        Returns
        -------
        ndarray (number of vectors, length)
            A contiguous copy or view.
        """
        moved = self.index if array is None else array
        if self.axis != moved.ndim - 1:
            moved = np.moveaxis(moved, self.axis, -1)
        return np.ascontiguousarray(moved.reshape(-1, self.length))

    def fields(self) -> Mapping[str, Field]:
        """Stored fields as unsigned bit patterns.

        Returns
        -------
        mapping of str to Field
            By name.
        """
        wide = 8 * self.scale.itemsize
        fields = {
            "index": Field(self.index, self.bits, False, "entry of the codebook; 0 at outliers"),
            "scale": Field(self.scale, wide, False, "positive float pattern, one per vector"),
        }
        if self.zero is not None:
            fields["zero"] = Field(self.zero, 16, True, "fp16 pattern: value = scale x (centroid - zero)")
        fields["mask"] = Field(self.mask.view(np.uint8), 1, False, "1 = outlier, stored in fp16")
        fields["outlier"] = Field(self.outlier, 16, True, "fp16 patterns, vector by vector, ascending positions")
        fields["codebook"] = Field(self.codebook.values, self.codebook.entry_bits, True, "centroids in index order")
        return fields

    def decode(self) -> np.ndarray:
        """Indices of the centroids, as integers; 0 at outliers.

        Returns
        -------
        ndarray of int64
            In the shape of the values.
        """
        return self.index.astype(np.int64)

    def dequantize(self) -> np.ndarray:
        """Decode to real values, exactly, s * (c[index] - z) [kllm Eq. (1)]; outliers are their value.

        Returns
        -------
        ndarray of float64
            In the shape of the values.
        """
        return self._with_outliers(self._inliers())

    def dequantize_fp16(self) -> np.ndarray:
        """Decode to fp16: inliers are rounded once from the exact value (D-kllm-32).

        Returns
        -------
        ndarray of float16
            In the shape of the values.
        """
        return self._with_outliers(fp16.narrow(self._inliers()))

    def _inliers(self) -> np.ndarray:
        """Exact: 22 bits of a product, 53 with a zero point."""
        rows = np.moveaxis(self.index, self.axis, -1).astype(np.int64)
        centroids = self.codebook.centroids.astype(np.float64)
        picked = centroids[rows] if centroids.ndim == 1 else np.take_along_axis(centroids, rows, axis=-1)
        if self.zeros is not None:
            picked = picked - self.zeros.astype(np.float64)[..., None]
        return np.moveaxis(self.scales.astype(np.float64)[..., None] * picked, -1, self.axis)

    def _with_outliers(self, values: np.ndarray) -> np.ndarray:
        moved = np.array(np.moveaxis(values, self.axis, -1))
        moved[np.moveaxis(self.mask, self.axis, -1)] = self.outlier.view(np.float16)
        return np.ascontiguousarray(np.moveaxis(moved, -1, self.axis))

    def storage_bits(self, layout: OutlierLayout = "mask", codebook: bool = True) -> int:
        """Count the bits of indices, scales, zero points, outliers and codebook (D-kllm-38).

        Parameters
        ----------
        layout : {"mask", "list", "none"}
            Outliers: one bit per value and 16 per outlier; 16 and a position of ceil(log2 N) bits each; or none.
        codebook : bool
            Count the codebook.

        Returns
        -------
        int
            Bits.

        Raises
        ------
        Refused
            An unknown layout, or "none" where there are outliers.
        """
        require_choice(layout, get_args(OutlierLayout), "storage_bits", "layout")
        if layout == "none" and self.outlier.size:
            raise Refused(f'storage_bits: layout="none" has no place for {self.outlier.size} outliers')
        position = (self.length - 1).bit_length()
        outliers = {"mask": self.mask.size + 16 * self.outlier.size, "list": (16 + position) * self.outlier.size}
        vectors = self.scale.nbytes + (0 if self.zero is None else self.zero.nbytes)
        entries = self.codebook.values.nbytes if codebook else 0
        return self.bits * self.index.size + 8 * (vectors + entries) + outliers.get(layout, 0)

    def pack(self) -> bytes:
        """Pack the indices without gaps, vector by vector, element 0 in the least significant bits (D-arith-12).

        Returns
        -------
        bytes
            Packed indices.
        """
        return bits.pack(self.rows(), self.bits)

    def equals(self, other: object) -> bool:
        """Whether codebook and axis are equal, and every array in dtype, shape and bits.

        Parameters
        ----------
        other : object
            Anything.

        Returns
        -------
        bool
            True if it is an equal KMeansTensor.
        """
        if not isinstance(other, KMeansTensor) or (self.codebook, self.axis) != (other.codebook, other.axis):
            return False
        names = ("index", "scale", "mask", "outlier", "zero")
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    def __repr__(self) -> str:
        zero = "" if self.zero is None else ", with zero points"
        return (
            f"KMeansTensor({self.bits} bits, shape={self.shape}, axis={self.axis}, {self.outlier.size} outliers{zero})"
        )


def unpack(data: bytes | np.ndarray, like: KMeansTensor) -> KMeansTensor:
    """The tensor whose `pack` gave `data` and whose other parts are those of `like`.

    Rejects a wrong number of bytes, spare bits that are set.
    """
    moved = np.moveaxis(like.index, like.axis, -1).shape
    index = bits.unpack(data, like.bits, like.index.size).reshape(moved)
    index = np.ascontiguousarray(np.moveaxis(index, -1, like.axis))
    return KMeansTensor(like.codebook, index, like.scale, like.mask, like.outlier, like.axis, like.zero)


def _same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
