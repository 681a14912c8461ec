"""States of many events in few bytes: each as its changes since the event before, all deflated.

The bits of each member start at a byte boundary, lane 0 lowest. An event is a sequence of varints: the numbers of its
name, of its operation and of its runs. Each run has the bytes it skips, its length and its bytes, XORed with the
earlier ones, so that a reader can step in both directions.
"""

import base64
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from refemu.golden.view.members import Member
from refemu.units.ports import Port
from refemu.units.value_text import values_of

BLOCK_BITS = 1 << 22  #: bits of states encoded at once
BLOCK_EVENTS = 64
GAP = 3  #: number of equal bytes that make a new run shorter
TEXT_BITS = 32  #: bits of the number of a text


class Layout(NamedTuple):
    """A member in the bits of a state."""

    group: str
    port: Port
    first: int  #: byte
    lanes: int
    text: bool  #: whether its value is the number of a text


class Encoded(NamedTuple):
    """The encoded events."""

    layout: list[Layout]
    texts: list[str]  #: values of members other than integers
    stream: bytes  #: deflated
    events: int  #: events in the stream
    size: int  #: bytes of a state


def encode(every: Sequence[Member], names: Sequence[int], operations: Sequence[int], limit: int) -> Encoded:
    """Encode events until the stream has `limit` bytes.

    every: members with their values. names, operations: name and operation of every event.
    """
    texts: dict[str, int] = {}
    layout, columns, first = [], [], 0
    for group, port, values in every:
        integers = _are_integers(values)
        lanes = [values_of(value) for value in values] if integers else [(_number(texts, value),) for value in values]
        unknown = group == "state" and port == Port(port.name, 64, signed=True)  # a register without a port
        width = _bits(lanes) if unknown else port.bits
        shown = Port(
            port.name, width if integers else TEXT_BITS, None, port.signed and integers, port.encoding, port.meaning
        )
        layout.append(Layout(group, shown, first, len(lanes[0]), not integers))
        columns.append(lanes)
        first += -(-shown.bits * len(lanes[0]) // 8)
    stream, events = _stream(layout, columns, list(zip(names, operations, strict=True)), first, limit)
    return Encoded(layout, list(texts), stream, events, first)


def text(data: bytes) -> str:
    """Bytes for a page."""
    return base64.b64encode(data).decode("ascii")


def deflate(data: bytes) -> bytes:
    """A raw deflate stream, for a browser's `DecompressionStream`."""
    compressor = zlib.compressobj(9, wbits=-15)
    return compressor.compress(data) + compressor.flush()


def _are_integers(values: Sequence[Any]) -> bool:
    """Whether every value has the same number of lanes, and all lanes are integers of 64 bits."""
    count = len(values_of(values[0]))
    return all(
        len(lanes := values_of(value)) == count
        and all(isinstance(lane, int) and -1 << 63 <= lane < 1 << 64 for lane in lanes)
        for value in values
    )


def _bits(lanes: Sequence[tuple[int, ...]]) -> int:
    """Bits of the widest of these numbers, as signed integers."""
    every = [lane for each in lanes for lane in each]
    return min(64, max((lane if lane >= 0 else ~lane).bit_length() for lane in [*every, 0]) + 1)


def _number(texts: dict[str, int], value: Any) -> int:
    """The number of the text of a value."""
    return texts.setdefault(" ".join(str(lane) for lane in values_of(value)) or "-", len(texts))


def _stream(
    layout: Sequence[Layout],
    columns: Sequence[Sequence[tuple[int, ...]]],
    heads: Sequence[tuple[int, int]],
    size: int,
    limit: int,
) -> tuple[bytes, int]:
    """The deflated stream, and the number of events in it."""
    compressor = zlib.compressobj(9, wbits=-15)
    step = max(1, min(BLOCK_EVENTS, BLOCK_BITS // max(8 * size, 1)))
    before, parts, length = np.zeros(size, np.uint8), list[bytes](), 0
    for first in range(0, len(heads), step):
        some = slice(first, min(first + step, len(heads)))
        states = _states(layout, [column[some] for column in columns], some.stop - first, size)
        kept = compressor.copy()
        block = b"".join(_event(head, state) for head, state in zip(heads[some], _changes(before, states), strict=True))
        part = compressor.compress(block) + compressor.flush(zlib.Z_SYNC_FLUSH)
        if length + len(part) > limit:
            return b"".join([*parts, kept.flush()]), first
        parts.append(part)
        length += len(part)
        before = states[-1]
    return b"".join([*parts, compressor.flush()]), len(heads)


def _states(
    layout: Sequence[Layout], columns: Sequence[Sequence[tuple[int, ...]]], events: int, size: int
) -> np.ndarray:
    """Bytes of the states of a block, (events, size)."""
    states = np.zeros((events, size), np.uint8)
    for each, column in zip(layout, columns, strict=True):
        if not each.lanes:
            continue
        mask = (1 << each.port.bits) - 1
        words = np.array([[lane & mask for lane in lanes] for lanes in column], np.uint64)
        bits = words[..., None] >> np.arange(each.port.bits, dtype=np.uint64) & np.uint64(1)
        packed = np.packbits(bits.astype(np.uint8).reshape(events, -1), axis=1, bitorder="little")
        states[:, each.first : each.first + packed.shape[1]] = packed
    return states


def _changes(before: np.ndarray, states: np.ndarray) -> Iterator[np.ndarray]:
    for state in states:
        yield before ^ state
        before = state


def _event(head: tuple[int, int], changed: np.ndarray) -> bytes:
    """The bytes of an event."""
    places = np.flatnonzero(changed)
    cuts = np.flatnonzero(np.diff(places) > GAP) + 1
    runs = [(int(part[0]), int(part[-1]) + 1) for part in np.split(places, cuts) if part.size]
    parts, at = [_varint(head[0]), _varint(head[1]), _varint(len(runs))], 0
    for first, end in runs:
        parts += [_varint(first - at), _varint(end - first), changed[first:end].tobytes()]
        at = end
    return b"".join(parts)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the top bit says that more follow."""
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)
