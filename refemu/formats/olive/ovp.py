"""Outlier-victim pairs: an outlier takes its neighbour's code space, and an unused code says so.

Paper: [olive §3.1, Alg. 1, Fig. 4]. Decisions: D-olive-2 (magnitudes in Alg. 1), D-olive-3, D-olive-4 (the threshold),
D-olive-5, D-olive-6 (two outliers in a pair), D-olive-9 (between N and T), D-olive-18 (illegal pairs), D-olive-25 (the
division by the scale), D-olive-46 (far outliers), D-olive-47 (NaN and infinity).
"""

from collections.abc import Mapping
from math import prod
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import bits
from refemu.arith.checks import Refused, RefusedType, as_array, at, first_index, require_choice, require_range
from refemu.arith.records import parameters, plain_fields
from refemu.formats.field import Field
from refemu.formats.groups import require_shape
from refemu.formats.html import Shown
from refemu.formats.integer import INT4, INT8, IntFormat
from refemu.formats.nearest import TIES, Ties, exact, magnitude, require_finite, require_real
from refemu.formats.olive.abfloat import E2M1_BIAS2, E2M1_BIAS3, E2M5_BIAS2, E4M3_BIAS4, AbFloat
from refemu.formats.olive.flint import FLINT4, Flint
from refemu.formats.olive.pairs import from_pairs, padded, to_pairs, without

Winner: TypeAlias = Literal["larger", "left"]  #: of two outliers in a pair: an exact tie goes to the right (D-olive-5)
Pairing: TypeAlias = Literal["axis", "flat"]  #: neighbours along an axis, or in all of a tensor in C order (D-olive-24)
Half: TypeAlias = Literal["low", "high"]  #: of a packed word (D-olive-1)

SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


@parameters(eq=False)
class OvpTensor(Shown):
    """Encoded tensor of pairs, as `Ovp.encode` returns it. Arrays are read-only; compare tensors with `equals`."""

    format: "Ovp"  #: format of the codes
    code: np.ndarray  #: uint8, one code per element, padded shape
    shape: tuple[int, ...]  #: of the values
    axis: int  #: along which elements are paired and share a scale; flat pairs run across it
    scale: np.ndarray | None = None  #: float32, of one shape with the values without `axis`, or a scalar; None = 1

    _drawing: ClassVar[str] = "refemu.draw.olive.pair:tensor"

    def __post_init__(self) -> None:
        plain_fields(self)
        for array in (self.code, self.scale):
            if array is not None:
                array.flags.writeable = False

    def fields(self) -> Mapping[str, Field]:
        """Stored fields as unsigned bit patterns: `code`, and `scale` where there is one.

        Returns
        -------
        mapping of str to Field
            By name.
        """
        fields = {"code": Field(self.code, self.format.width, True, f"{self.format.name} codes, pairs along the axis")}
        if self.scale is not None:
            fields["scale"] = Field(self.scale.view(np.uint32), 32, True, "float32 pattern: value = grid units x scale")
        return fields

    def decode(self) -> np.ndarray:
        """Decode to grid units; victims are 0, the padding is dropped.

        Returns
        -------
        ndarray of int64
            In the shape of the values.
        """
        grid = self.format.decode(self.code, self.axis)
        return grid[tuple(slice(n) for n in self.shape)]

    def dequantize(self) -> np.ndarray:
        """Decode and scale, fl32(grid x scale): one rounding of the exact product.

        Returns
        -------
        ndarray of float32
            In the shape of the values.
        """
        if self.scale is None:
            return self.decode().astype(np.float32)
        scale = self.scale if self.scale.ndim == 0 else np.expand_dims(self.scale, self.axis)
        return (self.decode() * scale.astype(np.float64)).astype(np.float32)

    def pairs(self) -> np.ndarray:
        """Pairs as the decoder's port sees them.

        The paired axis is last; flat pairs have shape (size / 2,). The left element is in the low half unless the
        format says `left="high"` (D-olive-1).

        Returns
        -------
        ndarray of uint8, uint16 for 8-bit codes
            (..., padded / 2).
        """
        return self.format.join(to_pairs(self.code, self.format.paired(self.shape, self.axis)))

    def pack(self) -> bytes:
        """Pack the codes: pairs in C order (paired axis last), the lower half of each word first (D-olive-1).

        Returns
        -------
        bytes
            Packed codes.
        """
        pairs = to_pairs(self.code, self.format.paired(self.shape, self.axis))
        return bits.pack(pairs[..., self.format.low_first], self.format.width)

    def storage_bits(self, metadata: bool = True) -> int:
        """Count the stored bits, padding included.

        Parameters
        ----------
        metadata : bool
            Count also 32 bits per scale, 1 type bit and 4 bias bits.

        Returns
        -------
        int
            Bits.
        """
        codes = self.format.width * self.code.size
        scales = 0 if self.scale is None else self.scale.size
        return codes + (32 * scales + 5 if metadata else 0)

    def equals(self, other: object) -> bool:
        """Whether format, shape, axis, codes and scales are equal, bit for bit.

        Parameters
        ----------
        other : object
            Anything.

        Returns
        -------
        bool
            True if it is an equal OvpTensor.
        """
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


@parameters
class Ovp:
    """Pairs of codes: two normal values, or one outlier next to the identifier 10...0 (the victim, decoded as 0).

    With N the largest normal value, M1 the smallest outlier magnitude, T = `threshold` or (N + M1) / 2: v is an outlier
    if |v| > T (`closed`: |v| >= T) and |v| <= `far`. A normal value beyond N saturates (D-olive-9).

    References
    ----------
    [olive §3.1, Alg. 1, Fig. 4]
    """

    normal: IntFormat | Flint  #: type of both values of a pair without outlier
    outlier: AbFloat | None  #: type of the outlier; None = no outliers, everything saturates at N (a baseline)
    threshold: float | None = None  #: T in grid units; None = midway between N and M1 (D-olive-3)
    closed: bool = False  #: whether |v| = T is an outlier (D-olive-4)
    winner: Winner = "larger"  #: of two outliers: "larger", an exact tie to the right; or "left" (D-olive-5)
    rounding: Ties = "half_even"  #: ties of both types, one of `nearest.TIES`
    pairing: Pairing = "axis"  #: elements 2k, 2k + 1 along an axis; "flat": of the whole tensor in C order (D-olive-24)
    left: Half = "low"  #: half of the packed word that holds the left element: "low" or "high" (D-olive-1)
    far: float | None = None  #: a magnitude beyond it becomes 0 (D-olive-46)

    def __post_init__(self) -> None:
        plain_fields(self)
        require_choice(self.winner, get_args(Winner), "Ovp", "winner")
        require_choice(self.rounding, TIES, "Ovp", "rounding")
        require_choice(self.pairing, get_args(Pairing), "Ovp", "pairing")
        require_choice(self.left, get_args(Half), "Ovp", "left")
        self._require_types()
        for name, value in (("threshold", self.threshold), ("far", self.far)):
            if value is not None and (not isinstance(value, int | float) or isinstance(value, bool)):
                raise RefusedType(f"Ovp: {name} must be a number, got {value!r}")
            if value is not None and not (np.isfinite(value) and value > 0):
                raise Refused(f"Ovp: {name} must be finite and above 0, got {value}")

    def _require_types(self) -> None:
        if not isinstance(self.normal, IntFormat | Flint) or not isinstance(self.outlier, AbFloat | None):
            raise RefusedType(
                "Ovp: normal must be an IntFormat or a Flint and outlier an AbFloat or None, got "
                f"{self.normal!r}, {self.outlier!r}"
            )
        if not isinstance(self.closed, bool):
            raise RefusedType(f"Ovp: closed must be a bool, got {self.closed!r}")
        # unsigned grids have no code to spare for the identifier, so there are none (D-olive-22)
        if (isinstance(self.normal, IntFormat) and not self.normal.symmetric) or self.normal.width > 8:
            raise Refused(f"Ovp: normal must leave 10...0 unused and have at most 8 bits, got {self.normal}")
        if self.outlier is None:
            if self.threshold is not None:
                raise Refused(f"Ovp: threshold needs an outlier format, got {self.threshold} with outlier=None")
            return
        if self.normal.width != self.outlier.width:
            raise Refused(f"Ovp: both types must have one width, got {self.normal.width} and {self.outlier.width}")
        if self.threshold is None and self.outlier.smallest <= self.normal.largest:
            raise Refused(
                f"Ovp: smallest outlier {self.outlier.smallest} is not above the largest normal value "
                f"{self.normal.largest}; give threshold"
            )

    @property
    def name(self) -> str:
        """`ovp_int4_e2m1_bias2`; `ovp_int4_none` without outliers."""
        return f"ovp_{self.normal.name}_{self.outlier.name if self.outlier else 'none'}"

    @property
    def width(self) -> int:
        """Bits of one code; a pair has twice as many."""
        return self.normal.width

    @property
    def digits(self) -> int:
        """Hexadecimal digits of a pair word."""
        return (2 * self.width + 3) // 4

    @property
    def boundary(self) -> float:
        """T in grid units; infinity without outliers."""
        if self.outlier is None:
            return float("inf")
        return (self.normal.largest + self.outlier.smallest) / 2 if self.threshold is None else float(self.threshold)

    @property
    def low_first(self) -> list[int]:
        """Lanes of a pair (0 = left) from the least significant half of its word up."""
        return [0, 1] if self.left == "low" else [1, 0]

    def encode(self, x: ArrayLike, scale: ArrayLike | None = None, axis: int = -1) -> OvpTensor:
        """Encode values; elements 2k and 2k + 1 along `axis` form a pair.

        Parameters
        ----------
        x : array_like of integers, float16, float32 or float64
            At least one axis, finite. Without a scale in grid units, used exactly; with one, fl32(fl32(x) / scale) is
            encoded (D-olive-25), and a quotient beyond float32 saturates.
        scale : float32, optional
            Positive and normal, a scalar or of x's shape without `axis`.
        axis : int
            Axis of the pairs.

        Returns
        -------
        OvpTensor
            Codes and scales.

        Raises
        ------
        Refused
            NaN, infinity, a bad scale or axis, or flat pairs of an odd size.
        RefusedType
            Another dtype.
        """
        x = as_array(x)
        paired = self.paired(x.shape, axis)
        scale = None if scale is None else require_scale(scale, x.shape, axis)
        values = exact(x, "Ovp.encode") if scale is None else quotient(x, scale, axis).astype(np.float64)
        codes = self._codes(to_pairs(values, paired)).astype(np.uint8)
        return OvpTensor(self, from_pairs(codes, padded(x.shape, paired), paired), x.shape, axis % x.ndim, scale)

    def _codes(self, pairs: np.ndarray) -> np.ndarray:
        """[olive Alg. 1] on (..., 2) values, compared as magnitudes and before rounding (D-olive-2, D-olive-6)."""
        size, normal = magnitude(pairs), self.normal.code_of(pairs, self.rounding)
        if self.far is not None:
            normal = np.where(size > self.far, 0, normal)
        if self.outlier is None:
            return normal
        left, right = self._stored(size)
        outlier = self.outlier.code_of(pairs, self.rounding)
        stored, victim = np.stack([left, right], axis=-1), np.stack([right, left], axis=-1)
        return np.where(stored, outlier, np.where(victim, self.normal.identifier, normal))

    def _stored(self, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether the left, the right element of each pair is stored as an outlier; never both."""
        out = size >= self.boundary if self.closed else size > self.boundary
        if self.far is not None:
            out &= size <= self.far
        first, second = out[..., 0], out[..., 1]
        beats = first if self.winner == "left" else size[..., 0] > size[..., 1]
        left = first & (~second | beats)
        return left, second & ~left

    def decode(self, codes: ArrayLike, axis: int = -1, *, strict: bool = True) -> np.ndarray:
        """Decode to grid values; elements 2k and 2k + 1 along `axis` (flat pairs: of the whole array) form a pair.

        Parameters
        ----------
        codes : array_like of integers
            Below 2**width, an even number along the axis.
        axis : int
            Axis of the pairs.
        strict : bool
            Whether an illegal pair (an identifier next to a reserved code) raises; else it is (0, 0).

        Returns
        -------
        ndarray of int64
            Grid values in the shape of the codes; a victim is 0.

        Raises
        ------
        Refused
            A code is out of range, a number of them odd, or a pair illegal.
        RefusedType
            Another dtype.
        """
        array = require_range(codes, 0, 1 << self.width, "Ovp.decode", "code").astype(np.int64)
        paired = self.paired(array.shape, axis)
        if paired is not None and array.shape[paired] % 2:
            raise Refused(f"Ovp.decode: codes come in pairs, got {array.shape[paired]} along axis {axis}")
        pairs = to_pairs(array, paired)
        illegal = self.illegal(pairs)
        if strict and illegal.any():
            self._refuse_pair(pairs, first_index(illegal))
        return from_pairs(np.where(illegal[..., None], 0, self._values(pairs)), array.shape, paired)

    def _values(self, pairs: np.ndarray) -> np.ndarray:
        """[olive §4.2]: a code next to an identifier is an outlier; everything else is a normal value."""
        victim = pairs == self.normal.identifier
        normal = self.normal.value_of(np.where(victim, 0, pairs))
        if self.outlier is None:
            return normal
        return np.where(victim, 0, np.where(victim[..., ::-1], self.outlier.value_of(pairs), normal))

    def illegal(self, pairs: np.ndarray) -> np.ndarray:
        """Whether codes are not a pair: an identifier next to a reserved code, or any identifier without outliers.

        Parameters
        ----------
        pairs : ndarray of int (..., 2)
            Codes, left first.

        Returns
        -------
        ndarray of bool (...)
            True for an illegal pair.
        """
        victim = pairs == self.normal.identifier
        if self.outlier is None:
            return victim.any(axis=-1)
        return (victim[..., ::-1] & (pairs & (self.normal.identifier - 1) == 0)).any(axis=-1)

    def _refuse_pair(self, pairs: np.ndarray, index: tuple[int, ...]) -> None:
        place = index[0] if len(index) == 1 else index
        word = int(self.join(pairs[index]))
        raise Refused(f"Ovp.decode: pair {place} is 0x{word:0{self.digits}x}: an identifier {self._why(pairs[index])}")

    def _why(self, pair: np.ndarray) -> str:
        """Reason that a pair with an identifier is illegal."""
        if self.outlier is None:
            return "in a format without outliers"
        partner = next((int(code) for code in pair if code != self.normal.identifier), self.normal.identifier)
        return f"next to the reserved code {partner:0{self.width}b}"

    def join(self, pairs: np.ndarray) -> np.ndarray:
        """Join codes to words as the decoder's port sees them.

        Parameters
        ----------
        pairs : ndarray of int (..., 2)
            Codes, left first.

        Returns
        -------
        ndarray of uint8, uint16 for codes above 4 bits (...)
            Words.
        """
        low, high = (pairs[..., lane].astype(np.uint16) for lane in self.low_first)
        return (low | high << self.width).astype(bits.code_dtype(2 * self.width))

    def split(self, words: ArrayLike) -> np.ndarray:
        """Split words into codes: the inverse of `join`.

        Parameters
        ----------
        words : array_like of integers (...)
            Below 2**(2 * width).

        Returns
        -------
        ndarray of uint8 (..., 2)
            Codes, left first.

        Raises
        ------
        Refused
            A word is out of range.
        RefusedType
            Another dtype.
        """
        array = require_range(words, 0, 1 << 2 * self.width, str(self), "pair")
        halves = np.stack([array & ((1 << self.width) - 1), array >> self.width], axis=-1)
        return halves[..., self.low_first].astype(np.uint8)

    def legal_pairs(self) -> np.ndarray:
        """List every pair word that decodes.

        Returns
        -------
        ndarray of uint8, uint16 for codes above 4 bits
            Words, ascending.
        """
        words = np.arange(1 << 2 * self.width)
        return words[~self.illegal(self.split(words))].astype(bits.code_dtype(2 * self.width))

    def round(self, x: ArrayLike, scale: ArrayLike | None = None, axis: int = -1) -> np.ndarray:
        """Round values to representable ones, `encode(x, scale, axis).decode()`.

        Parameters
        ----------
        x : array_like of integers, float16, float32 or float64
            As for `encode`.
        scale : float32, optional
            As for `encode`.
        axis : int
            Axis of the pairs.

        Returns
        -------
        ndarray of int64
            Grid units.
        """
        return self.encode(x, scale, axis).decode()

    def tensor(
        self, words: ArrayLike, shape: tuple[int, ...], scale: ArrayLike | None = None, axis: int = -1
    ) -> OvpTensor:
        """Make the tensor whose `pairs()` are given.

        Parameters
        ----------
        words : array_like of integers
            Pair words.
        shape : tuple of int
            Shape of the values.
        scale : float32, optional
            As for `encode`.
        axis : int
            Axis of the pairs.

        Returns
        -------
        OvpTensor
            Codes and scales.

        Raises
        ------
        Refused
            A word is out of range, or a scale or axis bad.
        """
        shape = require_shape(shape, "Ovp.tensor")
        paired = self.paired(shape, axis)
        codes = from_pairs(self.split(words), padded(shape, paired), paired)
        scale = None if scale is None else require_scale(scale, shape, axis)
        return OvpTensor(self, codes, tuple(shape), axis % len(shape), scale)

    def unpack(self, data: bytes, shape: tuple[int, ...], scale: ArrayLike | None = None, axis: int = -1) -> OvpTensor:
        """Make the tensor whose `pack()` is given.

        Parameters
        ----------
        data : bytes
            Packed codes.
        shape : tuple of int
            Shape of the values.
        scale : float32, optional
            As for `encode`.
        axis : int
            Axis of the pairs.

        Returns
        -------
        OvpTensor
            Codes and scales.

        Raises
        ------
        Refused
            A wrong number of bytes.
        """
        shape = require_shape(shape, "Ovp.unpack")
        count = prod(padded(shape, self.paired(shape, axis)))
        codes = bits.unpack(data, self.width, count).reshape(count // 2, 2)
        return self.tensor(self.join(codes[:, self.low_first]), shape, scale, axis)

    def describe(self, pair: int) -> str:
        """Describe a pair word for people.

        Parameters
        ----------
        pair : int
            Below 2**(2 * width).

        Returns
        -------
        str
            Kind and both values.
        """
        codes = self.split(pair)
        text = f"0x{int(pair):0{self.digits}x}: "
        if self.illegal(codes):
            return text + "illegal: an identifier " + self._why(codes)
        names = ("left", "right")
        if self.normal.identifier not in codes:
            return (
                text
                + "N-N, "
                + ", ".join(f"{name} {self.normal.describe(int(c))}" for name, c in zip(names, codes, strict=True))
            )
        stored = int(codes[0] == self.normal.identifier)
        assert self.outlier is not None  # without outliers an identifier is illegal
        kind, victim = ("O-V", "V-O")[stored], names[1 - stored]
        return text + f"{kind}, {names[stored]} {self.outlier.describe(int(codes[stored]))}, {victim} victim"

    def paired(self, shape: tuple[int, ...], axis: int) -> int | None:
        """Resolve the axis of the pairs.

        Parameters
        ----------
        shape : tuple of int
            Shape of the values.
        axis : int
            Axis.

        Returns
        -------
        int or None
            The axis, None for flat pairs.

        Raises
        ------
        Refused
            `shape` has no such axis.
        RefusedType
            `axis` is not an int.
        """
        if not isinstance(axis, int | np.integer) or isinstance(axis, bool):
            raise RefusedType(f"Ovp: axis must be an int, got {axis!r}")
        if not -len(shape) <= axis < len(shape):
            if not shape:
                raise RefusedType("Ovp: an array with an axis of pairs is needed, got a scalar")
            raise Refused(f"Ovp: axis must be in [{-len(shape)}, {len(shape)}), got {axis}")
        return None if self.pairing == "flat" else int(axis)


def require_scale(scale: ArrayLike, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """`scale` rounded to float32, a scalar or of `shape` without `axis`; must be positive and normal."""
    array = np.array(scale)
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise RefusedType(f"Ovp.encode: scale must be float32, got dtype {array.dtype}")
    with np.errstate(over="ignore", under="ignore"):
        array = array.astype(np.float32)
    if array.shape not in ((), without(shape, axis)):
        raise Refused(f"Ovp.encode: scale must be a scalar or of shape {without(shape, axis)}, got {array.shape}")
    bad = ~(np.isfinite(array) & (array >= SMALLEST_NORMAL))
    if bad.any():
        index = first_index(bad)
        raise Refused(f"Ovp.encode: scale {array[index]}{at(index)} is not a positive normal float32")
    return array


def quotient(x: np.ndarray, scale: np.ndarray, axis: int) -> np.ndarray:
    """fl32(fl32(x) / scale), float32 (D-olive-25); beyond float32 it is infinite. Rejects an x that is not finite."""
    with np.errstate(over="ignore", under="ignore"):
        narrow = require_finite(require_real(x, "Ovp.encode").astype(np.float32), "Ovp.encode")
        return narrow / (scale if scale.ndim == 0 else np.expand_dims(scale, axis))


OVP_INT4 = Ovp(INT4, E2M1_BIAS2)  #: T = 9.5 [olive §3.1-§3.3]
OVP_FLINT4 = Ovp(FLINT4, E2M1_BIAS3)  #: T = 20 [olive §3.1-§3.3]
OVP_INT8 = Ovp(INT8, E4M3_BIAS4)  #: T = 135.5, outliers up to 2^15 [olive §3.2, §3.3, §4.5]
#: OVP_INT4 as in the published code (preset `repo`): closed threshold, the left outlier wins, ties up, flat pairs
OVP_INT4_REPO = Ovp(INT4, E2M1_BIAS2, closed=True, winner="left", rounding="half_up", pairing="flat", far=25_696)
#: OVP_FLINT4 as in the published code, like OVP_INT4_REPO
OVP_FLINT4_REPO = Ovp(FLINT4, E2M1_BIAS3, closed=True, winner="left", rounding="half_up", pairing="flat", far=51_392)
#: OVP_INT8 as in the published code, like OVP_INT4_REPO
OVP_INT8_REPO = Ovp(INT8, E2M5_BIAS2, closed=True, winner="left", rounding="half_up", pairing="flat", far=411_616)
