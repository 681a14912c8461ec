"""Integer weights with an fp16 factor per group of inputs: INT4 in groups of 128, or one group per row.

Paper: [harmonia §IV-B] (the group-wise weight factor), [harmonia §V-A, Table I]. Decision: D-harmonia-14 (symmetric;
the zero point is an option).
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import bits, fp16, integers
from refemu.arith.checks import Refused, RefusedType, as_array, at, first_index, require_int, require_integers
from refemu.arith.records import parameters, plain_fields
from refemu.formats import groups
from refemu.formats.field import Field
from refemu.formats.html import Shown


@parameters(eq=False)
class GroupIntTensor(Shown):
    """Encoded weights, as `GroupInt.encode` returns them. Arrays are read-only; compare tensors with `equals`."""

    format: "GroupInt"  #: format of the codes
    code: np.ndarray  #: int8 (uint8 with a zero point), (..., in)
    scale: np.ndarray  #: float16, (..., groups): finite, not negative
    zero: np.ndarray | None = None  #: uint8, (..., groups); None without a zero point

    def __post_init__(self) -> None:
        plain_fields(self)
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
        rule = "must be finite and at least 0"
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
        """Stored fields as unsigned bit patterns: `code`, `scale`, and `zero` where there is one.

        Returns
        -------
        mapping of str to Field
            By name.
        """
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
        """Codes less their zero points: values in units of the scale.

        Returns
        -------
        ndarray of int64
            In the shape of the values.
        """
        code = self.code.astype(np.int64)
        return (
            code
            if self.zero is None
            else code - groups.spread(self.zero.astype(np.int64), self.size, self.shape[-1], code.ndim - 1)
        )

    def decode(self) -> np.ndarray:
        """Codes without their zero points, as integers: `grid()`.

        Returns
        -------
        ndarray of int64
            In the shape of the values.
        """
        return self.grid()

    def dequantize(self) -> np.ndarray:
        """Decode to real values, in float32, which is exact: 9 bits times 11 fit.

        Returns
        -------
        ndarray of float32
            Values.
        """
        scale = groups.spread(self.scale.astype(np.float64), self.size, self.shape[-1], self.code.ndim - 1)
        return (self.grid() * scale).astype(np.float32)

    def scales_of(self, group: int) -> np.ndarray:
        """Factor of every block floating point group of inputs.

        Parameters
        ----------
        group : int
            Inputs of a group.

        Returns
        -------
        ndarray of float16 (..., ceil(in / group))
            Factors.

        Raises
        ------
        Refused
            A group could meet two factors.
        """
        length = self.shape[-1]
        if self.size % group and length > self.size:
            raise Refused(f"GroupIntTensor: groups of {group} inputs cross weight groups of {self.size}")
        return self.scale[..., np.arange(0, length, group) // self.size]

    def storage_bits(self, metadata: bool = True) -> int:
        """Count the stored bits.

        Parameters
        ----------
        metadata : bool
            Count also 16 bits per scale, and the zero points.

        Returns
        -------
        int
            Bits.
        """
        extra = 16 * self.scale.size + (0 if self.zero is None else self.format.bits * self.zero.size)
        return self.format.bits * self.code.size + (extra if metadata else 0)

    def pack(self) -> bytes:
        """Pack the codes in C order without gaps, element 0 in the least significant bits.

        Returns
        -------
        bytes
            Packed codes.
        """
        return bits.pack(self.fields()["code"].array, self.format.bits)

    def equals(self, other: object) -> bool:
        """Whether format, codes, scales (by their bits) and zero points are equal.

        Parameters
        ----------
        other : object
            Anything.

        Returns
        -------
        bool
            True if it is an equal GroupIntTensor.
        """
        if not isinstance(other, GroupIntTensor) or self.format != other.format:
            return False
        pairs = ((self.code, other.code), (self.scale.view(np.uint16), other.scale.view(np.uint16)))
        same = all(np.array_equal(a, b) for a, b in pairs)
        return same and (self.zero is None or (other.zero is not None and np.array_equal(self.zero, other.zero)))

    def __repr__(self) -> str:
        return f"GroupIntTensor({self.format.name}, shape={self.shape}, scale={self.scale.shape})"


@parameters
class GroupInt:
    """Integers with an fp16 factor per group along the last axis: w = scale * code, in two's complement.

    With `zero_point` w = scale * (code - zero), both unsigned (D-harmonia-14). The last group of a row may be short.

    References
    ----------
    [harmonia §IV-B, §V-A]
    """

    bits: int = 4  #: of one code, 2 to 8
    group: int | None = None  #: elements under one scale; None = the whole row
    zero_point: bool = False  #: unsigned codes around a zero point per group

    def __post_init__(self) -> None:
        plain_fields(self)
        require_int(self.bits, 2, 8, "GroupInt", "bits")
        if self.group is not None:
            require_int(self.group, 1, 1 << 30, "GroupInt", "group")
        if not isinstance(self.zero_point, bool):
            raise RefusedType(f"GroupInt: zero_point must be a bool, got {self.zero_point!r}")

    @property
    def name(self) -> str:
        """`int4_g128`, `int4_row`, with `_zp` for a zero point."""
        return f"int{self.bits}_{f'g{self.group}' if self.group else 'row'}" + ("_zp" if self.zero_point else "")

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest code."""
        return integers.limits(self.bits, not self.zero_point)

    @property
    def largest(self) -> int:
        """Divisor of a group's largest magnitude (with a zero point: of its range) that gives the scale."""
        return self.limits[1]

    def size(self, length: int) -> int:
        """Elements of a full group.

        Parameters
        ----------
        length : int
            Elements of a row.

        Returns
        -------
        int
            Elements.
        """
        return self.group or max(length, 1)

    def encode(self, w: ArrayLike) -> GroupIntTensor:
        """Encode weights as the codes nearest to w / scale, ties to even.

        Scale is fp16(largest magnitude / (2^(bits-1) - 1)); with `zero_point` fp16(range / (2^bits - 1)) of the range
        that includes 0, and zero = rint(-smallest / scale). A group whose scale is 0 has codes 0. Quotients are
        binary64, rounded once.

        Parameters
        ----------
        w : array_like of float16 or float32
            Finite; at least one element along the last axis (weights: (out, in)).

        Returns
        -------
        GroupIntTensor
            Codes, scales and zero points.

        Raises
        ------
        Refused
            NaN, infinity, or a scale above 65504, with row, group and value.
        RefusedType
            Another dtype.
        """
        values = require_weights(w)
        blocks = groups.split(values, self.size(values.shape[-1]), -1)
        low, high = self.range_of(blocks)
        scale = self.scale_of(low, high)
        step = scale[..., None].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            places = np.where(step == 0, 0, np.rint(blocks / step))
            zero = np.where(scale == 0, 0, np.rint(-low / scale.astype(np.float64))) if self.zero_point else None
        if zero is not None:
            zero = np.minimum(zero, self.largest)
            places = places + zero[..., None]
        code = integers.from_float(np.clip(places, *self.limits))
        return self.tensor(
            groups.join(code, values.shape[-1], -1), scale, None if zero is None else integers.from_float(zero)
        )

    def range_of(self, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Range that the codes of each group cover: symmetric, or the data's and 0.

        Parameters
        ----------
        blocks : ndarray of float64 (..., groups, size)
            Weights by group.

        Returns
        -------
        low, high : ndarray of float64 (..., groups)
            Ends.
        """
        if self.zero_point:
            return blocks.min(axis=-1, initial=0), blocks.max(axis=-1, initial=0)
        high = np.abs(blocks).max(axis=-1, initial=0)
        return -high, high

    def scale_of(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Factors of groups with these ends.

        Parameters
        ----------
        low, high : ndarray of float64
            Ends.

        Returns
        -------
        ndarray of float16
            Factors.

        Raises
        ------
        Refused
            A factor is above 65504.
        """
        quotient = (high - low if self.zero_point else high) / self.largest
        bad = quotient > fp16.MAX
        if bad.any():
            index = first_index(bad)
            raise Refused(
                f"GroupInt.encode: scale {float(quotient[index])!r} of row {index[:-1]}, group {index[-1]} "
                f"is above {fp16.MAX}"
            )
        return fp16.to_f16(quotient)

    def tensor(self, code: ArrayLike, scale: ArrayLike, zero: ArrayLike | None = None) -> GroupIntTensor:
        """Make the tensor of codes.

        Parameters
        ----------
        code : array_like of integers (..., in)
            Codes.
        scale : array_like of float16 (..., groups)
            Factors, finite and at least 0; not 0 for nonzero codes.
        zero : array_like of integers (..., groups), optional
            Zero points; needed with `zero_point`, and only there.

        Returns
        -------
        GroupIntTensor
            Codes, scales and zero points.

        Raises
        ------
        Refused
            A code, zero point or factor is out of range, or a shape wrong.
        RefusedType
            A dtype is wrong.
        """
        low, high = self.limits
        codes = require_integers(code, "GroupIntTensor.code")
        groups.require_axis(-1, codes.shape, "GroupIntTensor")
        if (zero is not None) != self.zero_point:
            raise Refused(f"GroupIntTensor: {self} {'needs zero' if self.zero_point else 'has no zero'}")
        narrow = np.uint8 if self.zero_point else np.int8
        self._require(codes, low, high, "code")
        zeros = None
        if zero is not None:
            zeros = require_integers(zero, "GroupIntTensor.zero")
            self._require(zeros, low, high, "zero")
            zeros = zeros.astype(np.uint8)
        factors = as_array(scale)
        if factors.dtype != np.float16:
            raise RefusedType(f"GroupIntTensor: scale must be float16, got dtype {factors.dtype}")
        return GroupIntTensor(self, codes.astype(narrow), factors.copy(), zeros)

    def _require(self, codes: np.ndarray, low: int, high: int, name: str) -> None:
        if codes.size == 0 or (int(codes.min()) >= low and int(codes.max()) <= high):
            return
        index = first_index((codes < low) | (codes > high))
        raise Refused(f"GroupIntTensor: {name} {int(codes[index])}{at(index)} is outside [{low}, {high}]")


def require_weights(w: ArrayLike) -> np.ndarray:
    """float16 or float32 weights as float64; rejects NaN and infinity with the first index."""
    array = as_array(w)
    if array.dtype not in (np.float16, np.float32):
        raise RefusedType(f"GroupInt.encode: w must be float16 or float32, got dtype {array.dtype}")
    groups.require_axis(-1, array.shape, "GroupInt.encode")
    bad = ~np.isfinite(array)
    if bad.any():
        index = first_index(bad)
        raise Refused(f"GroupInt.encode: w must be finite, got {float(array[index])}{at(index)}")
    return array.astype(np.float64)


INT4_G128 = GroupInt(bits=4, group=128)  #: weights of every linear layer [harmonia §V-A, Table I]
