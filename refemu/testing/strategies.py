"""Strategies for ports: arrays of codes that reach every boundary, shrink to few bits and are fast to draw.

An array is drawn as one string of bytes, well below a millisecond for 1,024 codes. The first bytes say which few
positions get special codes, and which become equal to others, for ties. All shrink to zeros without either, so of a
wrong lane that lane alone is left. A row of thousands of lanes takes those of its wide ports from a seed, in a number
of lanes that shrinks, and a few words that are drawn.

Importing this module turns off hypothesis's deadline, if it is the default of 200 ms: a golden model may take longer.
"""

import struct
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from math import prod
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from refemu import units
from refemu.arith import prng
from refemu.arith.checks import require_int
from refemu.formats import Element
from refemu.units.ports import Port
from refemu.units.stimuli import validated
from refemu.units.unit import AnyUnit, Config

F16 = (0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x0401, 0x3BFF, 0x3C00, 0xBC00, 0x3C01, 0x4000, 0x7BFF, 0xFBFF)
SMALL32 = (0x00000000, 0x80000000, 0x00000001, 0x007FFFFF, 0x00800000)  #: zeros, subnormal, the smallest normal
MIDDLE32 = (0x3F000000, 0x3F800000, 0xBF800000, 0x3FC00000, 0x40000000, 0x40600000)
LARGE32 = (0x47000000, 0x477FE000, 0x477FF000, 0x7F7FFFFF, 0xFF7FFFFF)  #: around the largest of fp16, and of fp32
F32 = SMALL32 + MIDDLE32 + LARGE32
NAN = {16: 0x7E00, 32: 0x7FC00000}
INFINITY = {16: 0x7C00, 32: 0x7F800000}
PATCHES = 4  #: special codes, and copies, in one array
LARGEST = 4200  #: bytes drawn for a row, since hypothesis has 8,192 for an example; wider rows repeat theirs
PATCH = struct.Struct(f"<B{4 * PATCHES}H")  #: counts of both; a position and a code, or two positions, for each


WIDE, FEW = 1 << 10, 1 << 8  #: bytes of rows, and of ports in them, beyond which lanes come from a seed
EXTRA = 8  #: words of such a row that are drawn
#: number of random lanes, seed, number of words that are drawn; place and word of each. Big-endian, as bytes shrink
SEEDED = struct.Struct(f">HIB{'HI' * EXTRA}")
ALL = 1 << 15  #: number of lanes from which on all are random
DEADLINE = timedelta(milliseconds=200)  #: default of hypothesis


def without_deadline() -> None:
    """Set the deadline of tests to None, unless the user set one that is not hypothesis's default."""
    if settings.default is not None and settings.default.deadline == DEADLINE:
        settings.register_profile("refemu-without-deadline", parent=settings.default, deadline=None)
        settings.load_profile("refemu-without-deadline")


without_deadline()


def _patches(raw: bytes) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The patches in the first bytes: positions and numbers of special codes; positions and those they equal."""
    counts, *numbers = PATCH.unpack_from(raw)
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    return pairs[: counts % 16 % (PATCHES + 1)], pairs[PATCHES:][: counts // 16 % (PATCHES + 1)]


def _words(count: int, bits: int, special: Sequence[int]) -> st.SearchStrategy[np.ndarray]:
    """uint64 (count,) below 2**bits."""
    size = 1 if bits <= 8 else 2 if bits <= 16 else 4 if bits <= 32 else 8
    length = PATCH.size + count * size

    def made(raw: bytes) -> np.ndarray:
        codes, copies = _patches(raw)
        values = np.frombuffer(raw, f"<u{size}", count, PATCH.size).astype(np.uint64) & np.uint64((1 << bits) - 1)
        for at, code in codes if count else ():
            values[at % count] = special[code % len(special)] & ((1 << bits) - 1)
        for at, other in copies if count else ():
            values[at % count] = values[other % count]
        return values

    return st.binary(min_size=length, max_size=length).map(made)


def _signed(values: np.ndarray, bits: int) -> np.ndarray:
    sign = np.uint64(1 << (bits - 1))
    return ((values ^ sign) - sign).view(np.int64)


def _floats(shape: int | tuple[int, ...], bits: int, special: Sequence[int], nan: bool, infinity: bool) -> Any:
    size = (shape,) if isinstance(shape, int) else tuple(shape)
    top, dtype = INFINITY[bits], np.dtype(f"f{bits // 8}")
    wanted = [*special, *([NAN[bits]] if nan else []), *([top, top | 1 << (bits - 1)] if infinity else [])]

    def made(words: np.ndarray) -> np.ndarray:
        exponent = words & np.uint64(top)
        largest = exponent == np.uint64(top)
        mantissa = (words & np.uint64(top ^ ((1 << (bits - 1)) - 1))) != 0
        unwanted = largest & np.where(mantissa, not nan, not infinity)
        lowest = np.uint64(top & -top)  # of the exponent: cleared, it makes a number finite
        clean = np.where(unwanted, words ^ lowest, words)
        clean = np.where(largest & mantissa & ~unwanted, np.uint64(NAN[bits]), clean)  # one NaN (D-arith-1)
        return clean.astype(f"<u{bits // 8}").view(dtype).reshape(size)

    return _words(prod(size), bits, wanted).map(made)


def float16s(
    shape: int | tuple[int, ...], *, allow_nan: bool = False, allow_infinity: bool = False
) -> st.SearchStrategy[np.ndarray]:
    """Strategy for float16 arrays of any words, with subnormals, both zeros, and ties by equal elements.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of the arrays.
    allow_nan, allow_infinity : bool
        Draw NaN and infinities too.

    Returns
    -------
    SearchStrategy of ndarray of float16
        Arrays.
    """
    strategy: st.SearchStrategy[np.ndarray] = _floats(shape, 16, F16, allow_nan, allow_infinity)
    return strategy


def float32s(
    shape: int | tuple[int, ...], *, allow_nan: bool = False, allow_infinity: bool = False
) -> st.SearchStrategy[np.ndarray]:
    """Strategy for float32 arrays, as `float16s`.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of the arrays.
    allow_nan, allow_infinity : bool
        Draw NaN and infinities too.

    Returns
    -------
    SearchStrategy of ndarray of float32
        Arrays.
    """
    strategy: st.SearchStrategy[np.ndarray] = _floats(shape, 32, F32, allow_nan, allow_infinity)
    return strategy


def codes(fmt: Element, shape: int | tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    """Strategy for valid codes of an element format.

    Parameters
    ----------
    fmt : IntFormat, Flint or AbFloat
        Format.
    shape : int or tuple of int
        Shape of the arrays.

    Returns
    -------
    SearchStrategy of ndarray of unsigned int
        Arrays.
    """
    known = np.asarray(fmt.codes())
    size = (shape,) if isinstance(shape, int) else tuple(shape)
    ends = (0, len(known) - 1, len(known) // 2)
    drawn = _words(prod(size), max(1, (len(known) - 1).bit_length()), ends)
    return drawn.map(lambda words: known[(words % np.uint64(len(known))).astype(np.int64)].reshape(size))


def port_values(port: Port, rows: int) -> st.SearchStrategy[np.ndarray]:
    """Strategy for the values of a port, within its limits.

    Parameters
    ----------
    port : Port
        Port.
    rows : int
        Rows of an array.

    Returns
    -------
    SearchStrategy of ndarray
        Arrays of the port's dtype, (rows,) or (rows, lanes).
    """
    return _rows([port], rows, rows).map(lambda drawn: drawn[port.name])


def inputs(
    unit: str | AnyUnit, config: str | None = None, *, min_rows: int = 1, max_rows: int = 8
) -> st.SearchStrategy[dict[str, np.ndarray]]:
    """Strategy for the stimulus of a unit, as `Unit.evaluate` takes it.

    Rows of a unit with registers are consecutive events from reset. Invalid values are replaced. hypothesis's default
    deadline of 200 ms is off, since a golden model may take longer; one that you choose stays. Failing inputs shrink to
    one row, and to zeros in all lanes but those that the failure needs; of ports with more than 256 bytes in rows of
    more than 1,024, to few lanes.

    Parameters
    ----------
    unit : str or Unit
        Unit.
    config : str, optional
        One of the unit's ready configurations; by default its first.
    min_rows, max_rows : int
        Number of rows.

    Returns
    -------
    SearchStrategy of dict of ndarray
        One array per input port, of the same number of rows.

    Raises
    ------
    Refused
        A name is unknown, or a number of rows out of range.
    """
    target, name = units.choose(unit, config) if isinstance(unit, str) else (unit, config or next(iter(unit.configs)))
    chosen = target.config(name)
    require_int(min_rows, 1, 1 << 20, "inputs", "min_rows")
    require_int(max_rows, min_rows, 1 << 20, "inputs", "max_rows")
    drawn = _rows(target.ports(chosen).inputs, min_rows, max_rows)
    return drawn.map(partial(_legal, target, chosen))


def _legal(unit: AnyUnit, config: Config, drawn: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return dict(unit.legal(config, drawn)) if unit.legal else drawn


def _rows(ports: Sequence[Port], low: int, high: int) -> st.SearchStrategy[dict[str, np.ndarray]]:
    """Rows drawn one by one, so that shrinking drops all but the failing one."""
    columns = [_Column(port) for port in ports]
    size = PATCH.size + sum(int(column.bytes) for column in columns)
    wide = [column for column in columns if column.bytes > FEW] if size > WIDE else []
    length = min(size - sum(int(column.bytes) for column in wide), LARGEST)
    if wide:
        row = st.binary(min_size=length + SEEDED.size, max_size=length + SEEDED.size).map(partial(_seeded, columns))
    else:
        row = st.binary(min_size=length, max_size=length).map(partial(_repeated, size))
    return st.lists(row, min_size=low, max_size=high).map(partial(_arrays, columns))


def _repeated(size: int, raw: bytes) -> bytes:
    """Bytes of a row: those drawn, with the ones after the patches repeated as often as needed."""
    values = raw[PATCH.size :]
    return raw[: PATCH.size] + (values * (1 + size // max(1, len(values))))[: size - PATCH.size]


def _seeded(columns: Sequence["_Column"], raw: bytes) -> bytes:
    """Bytes of a row whose wide ports are random in some lanes, 0 in others, with a few words that were drawn."""
    count, seed, few, *numbers = SEEDED.unpack_from(raw, PATCH.size)
    at = PATCH.size + SEEDED.size
    parts: list[np.ndarray] = []
    wide: list[np.ndarray] = []
    for column in columns:
        if column.bytes <= FEW:
            parts.append(np.frombuffer(raw, np.uint8, column.bytes, at))
            at += column.bytes
            continue
        words = prng.words_of([prng.stream("inputs", seed)], len(wide) << 20, column.port.count).reshape(-1)
        if count < ALL:
            order = np.argsort(prng.words_of([prng.stream("lanes", seed)], 0, len(words))[0], kind="stable")
            words[order[count % len(words) :]] = 0
        wide.append(words.astype(f"<u{column.size}"))
        parts.append(wide[-1].view(np.uint8))
    for place, word in list(zip(numbers[::2], numbers[1::2], strict=True))[: few % (EXTRA + 1)]:
        chosen = wide[place % len(wide)]
        chosen[place // len(wide) % len(chosen)] = word & ((1 << 8 * chosen.itemsize) - 1)
    return raw[: PATCH.size] + b"".join(part.tobytes() for part in parts)


class _Column:
    """A port's lanes in the bytes of a row."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.size = port.dtype.itemsize
        self.bytes = int(self.size * port.count)
        low, high = port.limits
        self.special = [
            *dict.fromkeys((low, high, 0, 1, high // 2, high // 2 + 1)),
            *(F16 if port.kind == "f16" else ()),
            *(F32 if port.kind == "f32" else ()),
        ]

    def values(self, raw: np.ndarray) -> np.ndarray:
        """int64 (rows, lanes) within the port's limits, from its bytes (rows, lanes * size)."""
        port = self.port
        words = np.ascontiguousarray(raw).view(f"<u{self.size}").astype(np.uint64)
        if port.bits == 64:
            return words.view(np.int64)
        words &= np.uint64((1 << port.bits) - 1)
        return self.validated(_signed(words, port.bits) if port.signed else words.view(np.int64))

    def validated(self, values: np.ndarray) -> np.ndarray:
        """The values made finite and brought within the port's limits."""
        if self.port.kind == "f32":
            values = np.where(values & INFINITY[32] == INFINITY[32], values ^ (1 << 23), values)
        return validated(self.port, values) if self.port.bits < 64 else values


def _arrays(columns: Sequence[_Column], rows: Sequence[bytes]) -> dict[str, np.ndarray]:
    raw = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
    total_lanes = sum(int(column.port.count) for column in columns)
    patches = [_patches(row) for row in rows]
    drawn, byte, first = {}, PATCH.size, 0
    for column in columns:
        lanes = column.port.count
        values = column.values(raw[:, byte : byte + column.size * lanes]).copy()
        for row, (codes, copies) in zip(values, patches, strict=True):
            _patch(column, row, first, total_lanes, codes, copies)
        byte, first = byte + column.size * lanes, first + lanes
        coded = column.validated(values).astype(column.port.dtype)
        drawn[column.port.name] = coded.reshape(-1, *column.port.shape)
    return drawn


def _patch(column: _Column, lanes: np.ndarray, first: int, all_lanes: int, codes: Any, copies: Any) -> None:
    """Patch one row of a port: first special codes, then equal ones."""
    for at, which in codes:
        if 0 <= at % all_lanes - first < len(lanes):
            code = column.special[which % len(column.special)]
            lanes[at % all_lanes - first] = code if code < 1 << 63 else code - (1 << 64)
    for at, other in copies:
        here, there = at % all_lanes - first, other % all_lanes - first
        if 0 <= here < len(lanes) and 0 <= there < len(lanes):
            lanes[here] = lanes[there]
