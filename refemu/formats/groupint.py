"""Integer weights with an fp16 factor per group of inputs: INT4 in groups of 128, or one group per row.

Paper: [harmonia §IV-B], [harmonia §V-A, Table I]. Decision: D-harmonia-14 (symmetric; the zero point is an option).
"""

from typing import Any

import numpy as np

from refemu.arith import fp16, integers
from refemu.arith.checks import Refused, RefusedType, at, first_index, require_int, require_integers
from refemu.arith.records import parameters
from refemu.formats import groups
from refemu.formats.groupint_tensor import GroupIntTensor


@parameters
class GroupInt:
    """w = scale * code along the last axis, code in two's complement of `bits` bits; with `zero_point` w = scale *
    (code - zero), both unsigned (D-harmonia-14). The last group of a row may be short.
    """

    bits: int = 4  #: of one code, 2 to 8
    group: int | None = None  #: elements under one scale; None = the whole row
    zero_point: bool = False  #: unsigned codes around a zero point per group

    def __post_init__(self) -> None:
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
        """What the largest magnitude (with a zero point: the range) of a group is divided by for its scale."""
        return self.limits[1]

    def size(self, length: int) -> int:
        """Elements of a full group in rows of `length`."""
        return self.group or max(length, 1)

    def encode(self, w: Any) -> GroupIntTensor:
        """Codes nearest to w / scale, ties to even, under scale = fp16(largest magnitude / (2^(bits-1) - 1)).

        w: float16 or float32 with at least one element along the last axis (weights: (out, in)). A group whose scale
        is 0 has codes 0. Quotients are binary64, rounded once. With `zero_point`, scale = fp16(range / (2^bits - 1)) of
        the range that includes 0, and zero = rint(-smallest / scale).
        Refused: another dtype; NaN, infinity; a scale above 65504; with row, group and value.
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
        """The ends, float64, of the range that the codes of each group cover: symmetric, or the data's and 0."""
        if self.zero_point:
            return blocks.min(axis=-1, initial=0), blocks.max(axis=-1, initial=0)
        high = np.abs(blocks).max(axis=-1, initial=0)
        return -high, high

    def scale_of(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The factors, float16, of groups with these ends; refuses one above 65504."""
        quotient = (high - low if self.zero_point else high) / self.largest
        bad = quotient > fp16.MAX
        if bad.any():
            index = first_index(bad)
            raise Refused(
                f"GroupInt.encode: scale {float(quotient[index])!r} of row {index[:-1]}, group {index[-1]} "
                f"is above {fp16.MAX}"
            )
        return fp16.to_f16(quotient)

    def tensor(self, code: Any, scale: Any, zero: Any = None) -> GroupIntTensor:
        """The GroupIntTensor of given codes: (..., in), scale float16 and zero (..., groups).

        Refused: a code or zero out of range; a scale that is negative, infinite, NaN, or 0 beside codes that are not 0.
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
        factors = np.asarray(scale)
        if factors.dtype != np.float16:
            raise RefusedType(f"GroupIntTensor: scale must be float16, got dtype {factors.dtype}")
        return GroupIntTensor(self, codes.astype(narrow), factors.copy(), zeros)

    def _require(self, codes: np.ndarray, low: int, high: int, name: str) -> None:
        if codes.size == 0 or (int(codes.min()) >= low and int(codes.max()) <= high):
            return
        index = first_index((codes < low) | (codes > high))
        raise Refused(f"GroupIntTensor: {name} {int(codes[index])}{at(index)} is outside [{low}, {high}]")


def require_weights(w: Any) -> np.ndarray:
    """float16 or float32 weights as float64; refuses NaN and infinity with the first index."""
    array = np.asarray(w)
    if array.dtype not in (np.float16, np.float32):
        raise RefusedType(f"GroupInt.encode: w must be float16 or float32, got dtype {array.dtype}")
    groups.require_axis(-1, array.shape, "GroupInt.encode")
    bad = ~np.isfinite(array)
    if bad.any():
        index = first_index(bad)
        raise Refused(f"GroupInt.encode: w must be finite, got {float(array[index])}{at(index)}")
    return array.astype(np.float64)


INT4_G128 = GroupInt(bits=4, group=128)  #: weights of every linear layer [harmonia §V-A, Table I]
