"""Affine codes: a group of features as steps of one size above its minimum.

Paper: [leankv §2.2 Eq. (2), §4, §6.2]. Decisions: D-leankv-1 (sign of the stored zero point), D-leankv-2 (division),
D-leankv-3 (rounded or unrounded scale), D-leankv-4 (type of the metadata), D-leankv-5 (rounding and clamp), D-leankv-6
(constant groups), D-leankv-7 (scales beyond fp16, `status`), D-leankv-8 (minimum among zeros), D-leankv-9 (NaN and
infinity), D-leankv-10 (groups), D-leankv-11 (order of packed codes).
"""

from collections.abc import Mapping
from math import prod
from typing import Literal, TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import bits, fp16, rounding, selftest
from refemu.arith.checks import Refused, RefusedType, as_array, first_index, lookup, require_int
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.formats.field import Field
from refemu.formats.groups import require_shape
from refemu.formats.html import Shown

WIDTHS = (1, 2, 4, 8, 16)  #: bits of a code; 16 = the fp16 word itself

ZeroPoint: TypeAlias = Literal["neg_min", "min"]  #: stored: -min, never -0; or min, of several zeros the last one
Division: TypeAlias = Literal["div", "recip_mul"]  #: (x - min) / s, or times the rounded 1 / s
StepUsed: TypeAlias = Literal["unrounded", "stored"]  #: s and min before, or after rounding to the metadata's type
Metadata: TypeAlias = Literal["fp16", "bf16", "fp32"]  #: type of a stored scale and zero point
Preset: TypeAlias = Literal["paper", "diffkv"]  #: the paper's choices, or those of the later published code


class Choices(TypedDict):
    """The parameters that a preset sets."""

    zero: ZeroPoint
    quant_div: Division


PRESETS: dict[str, Choices] = {
    "paper": {"zero": "neg_min", "quant_div": "div"},
    "diffkv": {"zero": "min", "quant_div": "recip_mul"},
}  #: parameters by name, one of `Preset`
META_BITS: dict[Metadata, int] = {"fp16": 16, "bf16": 16, "fp32": 32}  #: types of scale and zero point
WORD = 16  #: bits of a word of packed codes
SCALE_UNDERFLOW, SCALE_OVERFLOW, ZERO_OVERFLOW, CONSTANT = 1, 2, 4, 8  #: bits of `status`


@parameters(eq=False)
class AffineTensor(Shown):
    """Encoded vectors of F features, in groups of contiguous ones. Arrays are read-only; compare with `equals`."""

    format: "Affine"  #: format of the codes
    code: np.ndarray  #: (..., F) uint8, or uint16 for 16 bits: the fp16 words themselves
    scale: np.ndarray  #: (..., groups) bit patterns of the stored scale, uint16 (uint32 where metadata is fp32)
    zero: np.ndarray  #: (..., groups) bit patterns of the stored zero point
    s32: np.ndarray | None = None  #: (..., groups) uint32 pattern of the scale before it is rounded; None when unpacked
    inv32: np.ndarray | None = None  #: its reciprocal, uint32 pattern; 0 where the format divides
    status: np.ndarray | None = None  #: (..., groups) uint8: the flags above

    def __post_init__(self) -> None:
        plain_fields(self)
        for array in (self.code, self.scale, self.zero, self.s32, self.inv32, self.status):
            if array is not None:
                array.flags.writeable = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return self.code.shape

    def fields(self) -> Mapping[str, Field]:
        """Stored fields as bit patterns: `code`, `scale`, `zero`; after `encode` also `s32`, `inv32`, `status`.

        Returns
        -------
        mapping of str to Field
            By name.
        """
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
        """Codes as integers: steps above the minimum of the group, at 16 bits the fp16 words.

        Returns
        -------
        ndarray of int64
            In the shape of the values.
        """
        return self.code.astype(np.int64)

    def dequantize(self) -> np.ndarray:
        """Decode to real values, in float32.

        Returns
        -------
        ndarray of float32
            In the shape of the codes.
        """
        return self.format.decode(self.code, self.scale, self.zero)

    def words(self) -> np.ndarray:
        """Pack codes in words of 16 bits, feature 0 in the least significant bits.

        Returns
        -------
        ndarray of uint16 (..., F * bits / 16)
            Words.
        """
        count = self.shape[-1] * self.format.bits // WORD
        return np.frombuffer(self.pack(), "<u2").astype(np.uint16).reshape(*self.shape[:-1], count)

    def metadata(self) -> np.ndarray:
        """Metadata as stored in a page with the codes: scale and zero of group 0, of group 1, ...

        Returns
        -------
        ndarray (..., 2 * groups)
            Bit patterns.
        """
        return np.stack([self.scale, self.zero], axis=-1).reshape(*self.scale.shape[:-1], 2 * self.scale.shape[-1])

    def pack(self) -> bytes:
        """Pack the codes in C order without gaps, little-endian.

        Returns
        -------
        bytes
            Packed codes.
        """
        return bits.pack(self.code, self.format.bits)

    def storage_bits(self, metadata: bool = True) -> int:
        """Count the bits of the codes.

        Parameters
        ----------
        metadata : bool
            Count also those of scales and zero points.

        Returns
        -------
        int
            Bits.
        """
        return self.format.bits * self.code.size + (self.format.meta_bits * 2 * self.scale.size if metadata else 0)

    def equals(self, other: object) -> bool:
        """Whether format and stored fields are equal, bit for bit; stages that are not stored do not count.

        Parameters
        ----------
        other : object
            Anything.

        Returns
        -------
        bool
            True if it is an equal AffineTensor.
        """
        if not isinstance(other, AffineTensor) or self.format != other.format:
            return False
        fields = zip((self.code, self.scale, self.zero), (other.code, other.scale, other.zero), strict=True)
        return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in fields)

    def __repr__(self) -> str:
        return f"AffineTensor({self.format!r}, shape={self.shape})"


@parameters
class Affine:
    """Codes q = round((x - min) / s), s = (max - min) / R, R = 2**bits - 1, for groups of contiguous features.

    All arithmetic is float32, each operation rounded. A vector is the last axis; its groups share nothing.

    References
    ----------
    [leankv §2.2 Eq. (2), §4, §6.2]
    """

    bits: int  #: of a code, one of WIDTHS
    groups: int = 1  #: of a vector; 0 where there is no metadata, at 16 bits
    zero: ZeroPoint = "neg_min"  #: stored zero point: -min, never -0; or "min", of several zeros the last
    quant_div: Division = "div"  #: (x - min) / s by "div"; or "recip_mul": times the rounded 1 / s
    quantize_with: StepUsed = "unrounded"  #: s and min before, or "stored" = after rounding to the type of the metadata
    meta: Metadata = "fp16"  #: type of the stored scale and zero point: "fp16", "bf16" or "fp32"

    def __post_init__(self) -> None:
        plain_fields(self)
        require_int(self.bits, -(1 << 31), 1 << 31, "Affine", "bits")
        if self.bits not in WIDTHS:
            raise Refused(f"Affine: bits must be 1, 2, 4, 8 or 16, got {self.bits}")
        require_options(self, "Affine")
        require_int(self.groups, 0 if self.bits == WORD else 1, 1 << 20, "Affine", "groups")
        if self.bits == WORD:
            object.__setattr__(self, "groups", 0)

    @classmethod
    def preset(cls, name: Preset, bits: int, groups: int = 1) -> "Affine":
        """Make the format of a preset.

        Parameters
        ----------
        name : {"paper", "diffkv"}
            Preset.
        bits : int
            Width of a code.
        groups : int
            Groups of a vector.

        Returns
        -------
        Affine
            Format.

        Raises
        ------
        Refused
            An unknown preset, or a width that is none of `WIDTHS`.
        """
        return cls(bits, groups, **lookup("preset", name, PRESETS))

    @property
    def steps(self) -> int:
        """R, the largest code."""
        return (1 << self.bits) - 1

    @property
    def meta_bits(self) -> int:
        """Bits of a stored scale, and of a stored zero point."""
        return META_BITS[self.meta]

    def encode(self, x: ArrayLike) -> AffineTensor:
        """Encode vectors.

        Parameters
        ----------
        x : array_like of float16, bfloat16 or float32 (..., F)
            F >= 1, finite.

        Returns
        -------
        AffineTensor
            Codes, scales and zero points.

        Raises
        ------
        Refused
            NaN, infinity, or groups that F or a 16-bit word cuts.
        RefusedType
            Another dtype.
        """
        values = require_values(x)
        self.require_features(values.shape[-1])
        if self.bits == WORD:
            return self._passed(values)
        with np.errstate(all="ignore"):
            grouped = values.reshape(*values.shape[:-1], self.groups, values.shape[-1] // self.groups)
            return self._encode(grouped, *self._ends(grouped), values.shape)

    def _encode(self, x: np.ndarray, low: np.ndarray, high: np.ndarray, shape: tuple[int, ...]) -> AffineTensor:
        """[leankv Eq. (2)] step by step; x (..., groups, features), its ends (..., groups)."""
        s = (high - low) / np.float32(self.steps)
        scale, zero = self.stored(s), self.stored(np.float32(0) - low if self.zero == "neg_min" else low)
        step, least = self.used(s, low, scale, zero)
        inv = np.float32(1) / step if self.quant_div == "recip_mul" else np.zeros_like(step)
        distance = x - least[..., None]
        t = distance * inv[..., None] if self.quant_div == "recip_mul" else distance / step[..., None]
        code = self._rounded(t).reshape(shape)
        return AffineTensor(
            self, code, scale, zero, s.view(np.uint32), inv.view(np.uint32), self.status(low, high, scale, zero)
        )

    def _ends(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value along the last axis: +0 for any zero, or the last of the zeros (D-leankv-8)."""
        if self.zero == "neg_min":
            x = x + np.float32(0)  # -0 becomes +0
        low = high = x
        while low.shape[-1] > 1:  # no reduction: which zero NumPy returns is not specified
            low, high = _later_where(np.less_equal, low), _later_where(np.greater_equal, high)
        return low[..., 0], high[..., 0]

    def used(
        self, s: np.ndarray, low: np.ndarray, scale: np.ndarray, zero: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Step and minimum that the codes are made with (D-leankv-3).

        Parameters
        ----------
        s, low : ndarray of float32
            Before rounding to the metadata's type.
        scale, zero : ndarray of uint16 or uint32
            Stored bit patterns.

        Returns
        -------
        step, minimum : ndarray of float32
            As `quantize_with` says.
        """
        if self.quantize_with == "unrounded":
            return s, low
        least = self.widened(zero)
        return self.widened(scale), -least if self.zero == "neg_min" else least

    def _rounded(self, t: np.ndarray) -> np.ndarray:
        """Half to even, into [0, R], NaN to 0 (D-leankv-5, D-leankv-6)."""
        whole = rounding.round_float(np.where(np.isnan(t), np.float32(0), t), "half_even")
        return np.minimum(np.maximum(whole, 0), self.steps).astype(np.uint8)

    def stored(self, x: np.ndarray) -> np.ndarray:
        """Round to the type of the metadata; beyond its range to infinity.

        Parameters
        ----------
        x : ndarray of float32
            Values.

        Returns
        -------
        ndarray of uint16, uint32 for "fp32"
            Bit patterns.
        """
        if self.meta == "fp16":
            return fp16.bits(fp16.narrow(x))  # never NaN: the ends are finite
        words = np.ascontiguousarray(x).view(np.uint32)
        if self.meta == "fp32":
            return words.copy()
        even = (words >> np.uint32(16)) & np.uint32(1)
        return ((words + np.uint32(0x7FFF) + even) >> np.uint32(16)).astype(np.uint16)

    def widened(self, words: np.ndarray) -> np.ndarray:
        """Read stored patterns, exactly.

        Parameters
        ----------
        words : ndarray of uint16 or uint32
            Bit patterns.

        Returns
        -------
        ndarray of float32
            Values.
        """
        if self.meta == "fp16":
            return fp16.to_f32(fp16.values(words))
        if self.meta == "fp32":
            return words.astype(np.uint32).view(np.float32)
        return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)

    def status(self, low: np.ndarray, high: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
        """Flags of groups (D-leankv-7): a scale of 0 though the ends differ, infinite metadata, equal ends.

        Parameters
        ----------
        low, high : ndarray of float32
            Ends of every group.
        scale, zero : ndarray of uint16 or uint32
            Stored bit patterns.

        Returns
        -------
        ndarray of uint8
            Bits `SCALE_UNDERFLOW`, `SCALE_OVERFLOW`, `ZERO_OVERFLOW`, `CONSTANT`.
        """
        constant = low == high
        flags = (
            (~constant & (scale == 0), SCALE_UNDERFLOW),
            (np.isinf(self.widened(scale)), SCALE_OVERFLOW),
            (np.isinf(self.widened(zero)), ZERO_OVERFLOW),
            (constant, CONSTANT),
        )
        result = np.zeros(low.shape, np.uint8)
        for condition, flag in flags:
            result |= np.where(condition, np.uint8(flag), np.uint8(0))
        return result

    def _passed(self, values: np.ndarray) -> AffineTensor:
        """16 bits: the fp16 words, rounded from a wider input, and no metadata."""
        words = fp16.bits(fp16.to_f16(values))
        none = np.zeros((*values.shape[:-1], 0), np.uint16)
        return AffineTensor(self, words, none, none.copy())

    def decode(self, code: ArrayLike, scale: ArrayLike | None = None, zero: ArrayLike | None = None) -> np.ndarray:
        """Decode codes: fl(s * q - z), or fl(s * q + z) where z is the minimum; at 16 bits the fp16 values.

        s * q is exact with fp16 and bf16 metadata, so fusing would change nothing. An infinite scale gives infinity,
        and NaN for code 0.

        Parameters
        ----------
        code : array_like of integers (..., F)
            Codes.
        scale, zero : array_like of uint16 or uint32 (..., groups), optional
            Bit patterns; not read at 16 bits.

        Returns
        -------
        ndarray of float32 (..., F)
            Values, NaN canonical.

        Raises
        ------
        Refused
            A code does not fit.
        RefusedType
            A dtype is too narrow.
        """
        codes = require_codes(code, self.bits)
        if self.bits == WORD:
            return fp16.to_f32(fp16.values(codes))
        self.require_features(codes.shape[-1])
        s, z = (self.widened(np.asarray(words))[..., None] for words in (scale, zero))
        q = codes.reshape(*codes.shape[:-1], self.groups, codes.shape[-1] // self.groups).astype(np.float32)
        with np.errstate(all="ignore"):
            product = s * q
            values = product - z if self.zero == "neg_min" else product + z
        return fp16.canonical(values).reshape(codes.shape)

    def unpack(self, data: bytes, shape: tuple[int, ...], scale: ArrayLike, zero: ArrayLike) -> AffineTensor:
        """Make the tensor whose `pack()` is given.

        Parameters
        ----------
        data : bytes
            Packed codes.
        shape : tuple of int
            Shape of the values.
        scale, zero : array_like (..., groups)
            Bit patterns.

        Returns
        -------
        AffineTensor
            Tensor without the stages that are not stored.

        Raises
        ------
        Refused
            A wrong number of bytes, or features that do not split into groups.
        """
        shape = require_shape(shape, "Affine.unpack")
        self.require_features(shape[-1])
        code = bits.unpack(data, self.bits, prod(shape)).reshape(shape)
        return AffineTensor(self, code, np.array(scale), np.array(zero))

    def of_words(self, words: np.ndarray, metadata: np.ndarray) -> AffineTensor:
        """Make the tensor whose `words()` and `metadata()` are given.

        Parameters
        ----------
        words : ndarray of uint16 (..., F * bits / 16)
            Packed codes.
        metadata : ndarray of uint16 (..., 2 * groups)
            Bit patterns.

        Returns
        -------
        AffineTensor
            Tensor without the stages that are not stored.
        """
        shape = (*words.shape[:-1], words.shape[-1] * WORD // self.bits)
        pairs = metadata.reshape(*metadata.shape[:-1], self.groups, 2)
        return self.unpack(words.astype("<u2").tobytes(), shape, pairs[..., 0], pairs[..., 1])

    def require_features(self, features: int) -> None:
        """Check that a vector splits into groups of whole 16-bit words.

        Parameters
        ----------
        features : int
            Features of the vector.

        Raises
        ------
        Refused
            It does not.
        """
        per_word = WORD // self.bits
        size = features // max(self.groups, 1)
        if size < 1 or size * max(self.groups, 1) != features or size % per_word:
            raise Refused(
                f"Affine: {features} features in {self.groups} groups do not make groups of a multiple of "
                f"{per_word}, the {self.bits}-bit codes of a word"
            )


def _later_where(stays: np.ufunc, x: np.ndarray) -> np.ndarray:
    """Of every two neighbours the later where `stays(later, earlier)`, else the earlier; an odd last one as it is."""
    paired = x.shape[-1] & ~1
    earlier, later = x[..., 0:paired:2], x[..., 1:paired:2]
    return np.concatenate((np.where(stays(later, earlier), later, earlier), x[..., paired:]), axis=-1)


def require_values(x: ArrayLike) -> np.ndarray:
    """`x` as float32 with at least one axis, exact; rejects other dtypes, NaN and infinity (D-leankv-9)."""
    array = as_array(x)
    if array.dtype not in (np.float16, np.float32) and array.dtype.name != "bfloat16":
        raise RefusedType(f"Affine.encode: fp16, bf16 or fp32 is needed, got dtype {array.dtype}")
    if array.ndim < 1:
        raise RefusedType("Affine.encode: vectors need at least one axis, got a scalar")
    selftest.require_round_to_nearest()
    values = array.astype(np.float32)
    bad = ~np.isfinite(values)
    if bad.any():
        index = first_index(bad)
        kind = "NaN" if np.isnan(values[index]) else "infinity"
        raise Refused(f"Affine.encode: {kind} at index {index[0] if len(index) == 1 else index}")
    return values


def require_codes(codes: ArrayLike, width: int) -> np.ndarray:
    """`codes` as unsigned integers of `width` bits; rejects the first that does not fit with its index."""
    array = as_array(codes)
    if array.dtype.kind not in "iu" or 8 * array.dtype.itemsize < width:
        raise RefusedType(f"Affine.decode: integers of at least {width} bits are needed, got dtype {array.dtype}")
    bad = (array < 0) | (array >= 1 << width)
    if bad.any():
        index = first_index(bad)
        place = index[0] if len(index) == 1 else index
        raise Refused(f"Affine.decode: code {int(array[index])} at index {place} does not fit {width} bits")
    return array.astype(bits.code_dtype(width), copy=False)
