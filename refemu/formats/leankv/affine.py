"""Affine codes: a group of features as steps of one size above its minimum.

Paper: [leankv §2.2 Eq. (2), §4]. Decisions: D-leankv-1 (sign of the stored zero point), D-leankv-2 (division),
D-leankv-3 (rounded or unrounded scale), D-leankv-4 (type of the metadata), D-leankv-5 (rounding and clamp), D-leankv-6
(constant groups), D-leankv-7 (scales beyond fp16), D-leankv-8 (minimum among zeros), D-leankv-9 (NaN and infinity),
D-leankv-10 (groups).
"""

from math import prod
from typing import Any

import numpy as np

from refemu.arith import bits, fp16, rounding, selftest
from refemu.arith.checks import Refused, RefusedType, first_index, lookup, require_choice, require_int
from refemu.arith.records import parameters
from refemu.formats.affine_tensor import (
    CONSTANT,
    SCALE_OVERFLOW,
    SCALE_UNDERFLOW,
    WORD,
    ZERO_OVERFLOW,
    AffineTensor,
    require_codes,
)

WIDTHS = (1, 2, 4, 8, 16)  #: bits of a code; 16 = the fp16 word itself
PRESETS = {
    "paper": {"zero": "neg_min", "quant_div": "div"},
    "diffkv": {"zero": "min", "quant_div": "recip_mul"},
}  #: parameters by name
META_BITS = {"fp16": 16, "bf16": 16, "fp32": 32}  #: types of scale and zero point


@parameters
class Affine:
    """Codes q = round((x - min) / s), s = (max - min) / R, R = 2**bits - 1, for groups of contiguous features.

    All arithmetic is float32, each operation rounded. A vector is the last axis; its groups share nothing.
    """

    bits: int  #: of a code, one of WIDTHS
    groups: int = 1  #: of a vector; 0 where there is no metadata, at 16 bits
    zero: str = "neg_min"  #: stored zero point: "neg_min" = -min, never -0; or "min", of several zeros the last one
    quant_div: str = "div"  #: (x - min) / s by "div"; or "recip_mul": times the rounded 1 / s
    quantize_with: str = "unrounded"  #: s and min before, or "stored" = after rounding to the type of the metadata
    meta: str = "fp16"  #: type of the stored scale and zero point: "fp16", "bf16" or "fp32"

    def __post_init__(self) -> None:
        require_int(self.bits, -(1 << 31), 1 << 31, "Affine", "bits")
        if self.bits not in WIDTHS:
            raise Refused(f"Affine: bits must be 1, 2, 4, 8 or 16, got {self.bits}")
        require_choice(self.zero, ("neg_min", "min"), "Affine", "zero")
        require_choice(self.quant_div, ("div", "recip_mul"), "Affine", "quant_div")
        require_choice(self.quantize_with, ("unrounded", "stored"), "Affine", "quantize_with")
        require_choice(self.meta, META_BITS, "Affine", "meta")
        require_int(self.groups, 0 if self.bits == WORD else 1, 1 << 20, "Affine", "groups")
        if self.bits == WORD:
            object.__setattr__(self, "groups", 0)

    @classmethod
    def preset(cls, name: str, bits: int, groups: int = 1) -> "Affine":
        """The format of `bits` in `groups` with the parameters of preset `name`, one of PRESETS."""
        return cls(bits, groups, **lookup("preset", name, PRESETS))

    @property
    def steps(self) -> int:
        """R, the largest code."""
        return (1 << self.bits) - 1

    @property
    def meta_bits(self) -> int:
        """Bits of a stored scale, and of a stored zero point."""
        return META_BITS[self.meta]

    def encode(self, x: Any) -> AffineTensor:
        """Codes, scales and zero points of the vectors `x`, (..., F) fp16, bf16 or fp32, F >= 1, all finite.

        Raises TypeError for another dtype; ValueError for NaN and infinity, for groups that F or a 16-bit word cuts.
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
        low, high = x[..., 0], x[..., 0]
        for i in range(1, x.shape[-1]):  # no reduction: which zero NumPy returns is not specified
            low, high = np.where(x[..., i] <= low, x[..., i], low), np.where(x[..., i] >= high, x[..., i], high)
        return low, high

    def used(
        self, s: np.ndarray, low: np.ndarray, scale: np.ndarray, zero: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Step and minimum that the codes are made with, float32 (D-leankv-3)."""
        if self.quantize_with == "unrounded":
            return s, low
        least = self.widened(zero)
        return self.widened(scale), -least if self.zero == "neg_min" else least

    def _rounded(self, t: np.ndarray) -> np.ndarray:
        """Half to even, into [0, R], NaN to 0 (D-leankv-5, D-leankv-6)."""
        whole = rounding.round_float(np.where(np.isnan(t), np.float32(0), t), "half_even")
        return np.minimum(np.maximum(whole, 0), self.steps).astype(np.uint8)

    def stored(self, x: np.ndarray) -> np.ndarray:
        """float32 `x` rounded to the type of the metadata, its bit patterns; beyond the range infinity."""
        if self.meta == "fp16":
            return fp16.bits(fp16.narrow(x))  # never NaN: the ends are finite
        words = np.ascontiguousarray(x).view(np.uint32)
        if self.meta == "fp32":
            return words.copy()
        even = (words >> np.uint32(16)) & np.uint32(1)
        return ((words + np.uint32(0x7FFF) + even) >> np.uint32(16)).astype(np.uint16)

    def widened(self, words: np.ndarray) -> np.ndarray:
        """float32 values of stored patterns, exact."""
        if self.meta == "fp16":
            return fp16.to_f32(fp16.values(words))
        if self.meta == "fp32":
            return words.astype(np.uint32).view(np.float32)
        return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)

    def status(self, low: np.ndarray, high: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
        """The flags of a group (D-leankv-7): a scale of 0 though the ends differ, infinite metadata, equal ends."""
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

    def decode(self, code: Any, scale: Any = None, zero: Any = None) -> np.ndarray:
        """Values of codes (..., F): fl(s * q - z), or fl(s * q + z) where z is the minimum; at 16 bits the fp16 values.

        scale, zero: bit patterns (..., groups). s * q is exact with fp16 and bf16 metadata, so fusing would change
        nothing. An infinite scale gives infinity, and NaN for code 0. Returns float32, NaN canonical.
        Raises TypeError for a dtype too narrow, ValueError for a code that does not fit.
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

    def unpack(self, data: bytes, shape: tuple[int, ...], scale: Any, zero: Any) -> AffineTensor:
        """The tensor of `shape` whose `pack()` is `data`, with the patterns of its metadata."""
        self.require_features(shape[-1])
        code = bits.unpack(data, self.bits, prod(shape)).reshape(shape)
        return AffineTensor(self, code, np.array(scale), np.array(zero))

    def of_words(self, words: np.ndarray, metadata: np.ndarray) -> AffineTensor:
        """The tensor whose `words()` and `metadata()` these are: (..., F * bits / 16), (..., 2 * groups), uint16."""
        shape = (*words.shape[:-1], words.shape[-1] * WORD // self.bits)
        pairs = metadata.reshape(*metadata.shape[:-1], self.groups, 2)
        return self.unpack(words.astype("<u2").tobytes(), shape, pairs[..., 0], pairs[..., 1])

    def require_features(self, features: int) -> None:
        """Refuse a vector that does not split into groups of whole 16-bit words."""
        per_word = WORD // self.bits
        size = features // max(self.groups, 1)
        if size < 1 or size * max(self.groups, 1) != features or size % per_word:
            raise Refused(
                f"Affine: {features} features in {self.groups} groups are no groups of a multiple of "
                f"{per_word}, the {self.bits}-bit codes of a word"
            )


def require_values(x: Any) -> np.ndarray:
    """`x` as float32 with at least one axis, exact; refuses other dtypes, NaN and infinity (D-leankv-9)."""
    array = np.asarray(x)
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
