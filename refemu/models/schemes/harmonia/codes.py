"""Packed codes of the KV cache, and the codes that attention reads [harmonia §III-B, Fig. 8].

A token is packed once, when it is converted: sign and `low` upper bits in one row of bytes, the rest of the `high` bits
in another, which is dropped when the token is demoted. If a conversion truncates, the rest is the lower bits. If it
rounds, demotion converts the FP16 words again (D-harmonia-2), so the rest is the whole code of `high` bits
(D-harmonia-53).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from refemu.formats.harmonia.bfp import Bfp, BfpTensor
from refemu.formats.harmonia.bfp_fields import fields_of, pack_rows, row_bytes, unpack_rows
from refemu.models.schemes.harmonia.config import HarmoniaConfig

SPARE = 32  #: a growing array has space for 1/32 more rows

Fewer = tuple[np.ndarray, np.ndarray]  #: signs and mantissas at `low` bits
Parts = tuple[np.ndarray, np.ndarray, np.ndarray]  #: sign, mantissa (tokens, KV heads, head_dim), exponent


class Layout:
    """Byte layout of the codes of a head."""

    def __init__(self, config: HarmoniaConfig, head_dim: int) -> None:
        self.format: Bfp = config.format(config.high)
        self.head_dim: int = head_dim
        self.low: int = config.low
        self.cuts: bool = config.rounding == "truncate"  #: `low` bits are the upper ones
        self.signs: int = -(-head_dim // 8)  #: bytes of the signs
        self.fallen: int = config.high - config.low  #: bits that a demoted token loses
        self.rest: int = self.fallen if self.cuts else (1 + config.high) * (self.fallen > 0)

    def __repr__(self) -> str:
        return f"Layout({self.format.name}, {self.low} bits, head_dim={self.head_dim})"

    def pack(self, high: BfpTensor, low: Fewer | None) -> tuple[np.ndarray, np.ndarray]:
        """Bytes (tokens, KV heads, ...) of signs and upper bits, and of the rest. low: not read if it `cuts`."""
        if self.cuts:
            sign, mantissa = high.sign, high.mantissa >> self.fallen  # a sign of a truncated zero is known at the read
            rest = high.mantissa
        else:
            assert low is not None
            sign, mantissa = low
            rest = high.sign.astype(np.uint16) << np.uint16(self.format.mantissa_bits) | high.mantissa
        upper = np.concatenate([pack_rows(sign, 1), pack_rows(mantissa, self.low)], axis=-1)
        return upper, pack_rows(rest, self.rest)

    def unpack(self, upper: np.ndarray, rest: np.ndarray, fallen: range) -> tuple[np.ndarray, np.ndarray]:
        """Signs and mantissas; `fallen` tokens, which have no rest, are `low` upper bits above zeros."""
        sign = unpack_rows(upper[..., : self.signs], 1, self.head_dim)
        mantissa = unpack_rows(upper[..., self.signs :], self.low, self.head_dim) << np.uint16(self.fallen)
        if self.rest:
            kept = np.ones(len(upper), np.bool_)
            kept[fallen.start : fallen.stop] = False
            codes, width = unpack_rows(rest, self.rest, self.head_dim), self.format.mantissa_bits
            mantissa[kept] = mantissa[kept] | codes if self.cuts else codes & np.uint16((1 << width) - 1)
            if not self.cuts:
                sign[kept] = codes >> np.uint16(width)
        return self.format.stored_sign(sign, mantissa).astype(np.uint8), mantissa

    @cached_property
    def fields(self) -> tuple[np.ndarray, np.ndarray]:
        """(width, first byte, bytes, weight) of the upper and of the lower bits, int64, for a kernel."""
        upper, lower = (
            np.array(fields_of(self.head_dim, bits), np.int64).reshape(-1, 4) for bits in (self.low, self.rest)
        )
        return upper + np.array([0, self.signs, 0, self.fallen]), lower


@dataclass(frozen=True, eq=False)
class Codes:
    """Keys or values for attention: packed tokens, then unpacked ones."""

    layout: Layout
    upper: np.ndarray  #: uint8 (packed tokens, KV heads, bytes)
    rest: np.ndarray  #: uint8 (packed tokens at `high` bits, KV heads, bytes)
    fallen: range  #: packed tokens at `low` bits
    sign: np.ndarray  #: uint8 (unpacked tokens, KV heads, head_dim)
    mantissa: np.ndarray  #: uint16 (unpacked tokens, KV heads, head_dim)
    exponent: np.ndarray  #: exponents of all groups

    @classmethod
    def plain(cls, layout: Layout, sign: np.ndarray, mantissa: np.ndarray, exponent: np.ndarray) -> "Codes":
        """Codes without packed tokens."""
        none = np.zeros((0, sign.shape[1], 0), np.uint8)
        return cls(layout, none, none, range(0), sign, mantissa, exponent)

    @property
    def tokens(self) -> int:
        """All tokens."""
        return len(self.upper) + len(self.sign)

    @property
    def heads(self) -> int:
        """KV heads."""
        heads: int = self.sign.shape[1]
        return heads

    def parts(self, heads: slice = np.s_[:]) -> Parts:
        """Codes of all tokens of some KV heads; packed ones are copied."""
        sign, mantissa, exponent = self.sign[:, heads], self.mantissa[:, heads], self.exponent[:, heads]
        if not len(self.upper):
            return sign, mantissa, exponent
        packed = self.layout.unpack(self.upper[:, heads], self.rest[:, heads], self.fallen)
        signs, mantissas = (np.concatenate(pair) for pair in zip(packed, (sign, mantissa), strict=True))
        return signs, mantissas, exponent


class Rows:
    """An array that grows by rows and allocates little ahead."""

    def __init__(self, *shape: int) -> None:
        """shape: of a row of uint8."""
        self._room = np.zeros((0, *shape), np.uint8)
        self._count = 0

    def __repr__(self) -> str:
        return f"Rows({self._count} of {self._room.shape})"

    def __len__(self) -> int:
        return self._count

    @property
    def array(self) -> np.ndarray:
        """The rows, a view."""
        return self._room[: self._count]

    def append(self, rows: np.ndarray) -> None:
        """Append rows."""
        end = self._count + len(rows)
        if end > len(self._room):
            room = np.zeros((end + end // SPARE, *self._room.shape[1:]), np.uint8)
            room[: self._count] = self.array
            self._room = room
        self._room[self._count : end] = rows
        self._count = end

    def cut(self, count: int) -> None:
        """Drop all but the first rows, and shrink the array."""
        if count < self._count:
            self._room, self._count = self._room[:count].copy(), count


class Past(NamedTuple):
    """State of a store for `rewind`: arrays that are replaced, never changed."""

    tokens: int
    groups: int
    rest: np.ndarray
    fallen: range


class Store:
    """Packed keys or values of one layer."""

    def __init__(self, layout: Layout, heads: int, exponents: int) -> None:
        """exponents: number of exponents per KV head in a row."""
        self.layout: Layout = layout
        self._upper = Rows(heads, layout.signs + row_bytes(layout.head_dim, layout.low))
        self._exponent = Rows(heads, exponents)
        self._rest = np.zeros((0, heads, row_bytes(layout.head_dim, layout.rest)), np.uint8)
        self._fallen = range(0)

    def __repr__(self) -> str:
        return f"Store({self.layout!r}, {len(self)} tokens)"

    def __len__(self) -> int:
        """Tokens."""
        return len(self._upper)

    def append(self, high: BfpTensor, low: Fewer | None) -> None:
        """Append tokens, as codes of `high` and of `low` bits under the same exponents: see `Layout.pack`."""
        upper, rest = self.layout.pack(high, low)
        self._upper.append(upper)
        self._exponent.append(high.exponent)
        self._rest = np.concatenate([self._rest, rest])

    def fall(self, tokens: range) -> None:
        """Demote these tokens, which follow those demoted before."""
        if len(tokens) <= len(self._fallen):
            return
        first = tokens.start
        self._rest = np.concatenate([self._rest[:first], self._rest[first + len(tokens) - len(self._fallen) :]])
        self._fallen = tokens

    def past(self) -> Past:
        """Current position, to pass to `rewind`."""
        return Past(len(self), len(self._exponent), self._rest, self._fallen)

    def rewind(self, past: Past) -> None:
        """Restore the state of a mark."""
        self._upper.cut(past.tokens)
        self._exponent.cut(past.groups)
        self._rest, self._fallen = past.rest, past.fallen

    def codes(self, tail: BfpTensor | None = None) -> Codes:
        """Codes for attention, with unpacked tokens after the packed ones; valid until the store changes."""
        exponent, shape = self._exponent.array, (0, self._rest.shape[1], self.layout.head_dim)
        sign, mantissa = np.zeros(shape, np.uint8), np.zeros(shape, np.uint16)
        if tail is not None:
            sign, mantissa, exponent = tail.sign, tail.mantissa, np.concatenate([exponent, tail.exponent])
        return Codes(self.layout, self._upper.array, self._rest, self._fallen, sign, mantissa, exponent)
