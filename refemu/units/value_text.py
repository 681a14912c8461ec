"""Values of ports as text: codes with their meaning, lanes folded to a width."""

import functools
import re
import struct
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from refemu.units.ports import Port

RUN = 4  #: least number of equal lanes that are shown as a count
WORD_BITS = 16  #: one-bit lanes that are joined in a word
NUMBERS = ("uint", "int")  #: encodings of ports with numbers, shown in decimal
_ITEM = re.compile(r"(\d+) ([^,;]+)")


@functools.cache
def names(meaning: str) -> tuple[str, ...]:
    """Names of the codes 0, 1, ... if a port's meaning is a list of them, "0 allocate, 1 recycle"; else ()."""
    items = [_ITEM.fullmatch(part) for part in re.split(r"[,;] ", meaning)]
    listed = [item for item in items if item]
    ordered = [int(item[1]) for item in listed] == list(range(len(items)))
    return tuple(item[2] for item in listed) if ordered and len(listed) > 1 else ()


def values_of(value: Any) -> tuple[Any, ...]:
    """The values of a field of a State: the lanes of a vector, or a single value."""
    return value if isinstance(value, tuple) else (value,)


def token(port: Port, lane: Any) -> str:
    """One lane: `48`, `0x4200=3` for a float pattern, `1=recycle` for a code with a name, `0x85` for another code."""
    if not isinstance(lane, int):
        return str(lane).replace(" ", "")
    if port.kind in NUMBERS:
        known = names(port.meaning)
        return f"{int(lane)}={known[lane]}" if 0 <= lane < len(known) else str(int(lane))
    code = hexadecimal(port, lane)
    return f"{code}={number(port, lane)}" if port.kind in ("f16", "f32") else code


def hexadecimal(port: Port, lane: int) -> str:
    """The code of a lane with its prefix, in as many digits as its bits need."""
    return f"0x{lane & (1 << port.bits) - 1:0{-(-port.bits // 4)}x}"


def number(port: Port, lane: int) -> str:
    """The value of a float pattern, with enough digits to distinguish float16 values."""
    form, digits, size = ("e", 5, 2) if port.kind == "f16" else ("f", 7, 4)
    (value,) = struct.unpack(f"<{form}", (lane & (1 << 8 * size) - 1).to_bytes(size, "little"))
    return f"{value:.{digits}g}"


def whole(port: Port, lanes: Sequence[Any]) -> str:
    """All lanes, lane 0 first, "-" for none; `4*0` means four lanes of 0, and one-bit lanes are joined."""
    if not lanes:
        return "-"
    if port.bits == 1 and len(lanes) > 1:
        return _bits(lanes)
    return " ".join(_counted(port, lanes))


def folded(port: Port, value: Any, width: int, before: Any = None) -> str:
    """A value in at most about `width` characters.

    If its lanes do not fit: those that differ from the value `before`, as `[lane] value`; the first ones if most differ
    or there is no such value.
    """
    lanes = values_of(value)
    text = whole(port, lanes)
    if len(text) <= width or len(lanes) == 1:
        return text
    if before is not None and len(values_of(before)) == len(lanes):
        changed = [at for at, (old, new) in enumerate(zip(values_of(before), lanes, strict=True)) if old != new]
        if 2 * len(changed) <= len(lanes):
            items = [f"[{at}] {token(port, lanes[at])}" for at in changed]
            return _first(items, width, f"... {len(items)} changed")
    if port.bits == 1:
        return _first(text.split(" "), width, f"... {len(lanes)} bits")
    return _first(_counted(port, lanes), width, f"... {len(lanes)} lanes")


def _counted(port: Port, lanes: Sequence[Any]) -> list[str]:
    """One text per lane, long runs of one text as their length and the text."""
    runs = [(text, len(list(run))) for text, run in groupby(token(port, lane) for lane in lanes)]
    texts: list[str] = []
    for text, count in runs:
        texts += [f"{count}*{text}"] if count >= RUN else [text] * count
    return texts


def _bits(lanes: Sequence[int]) -> str:
    if len(lanes) > WORD_BITS and len(set(lanes)) == 1:
        return f"{len(lanes)}*{lanes[0]}"
    text = "".join(str(int(lane)) for lane in lanes)
    return " ".join(text[at : at + WORD_BITS] for at in range(0, len(text), WORD_BITS))


def _first(items: Sequence[str], width: int, end: str) -> str:
    """Text of as many items as fit before `end`, at least one; without `end` if all fit."""
    if len(" ".join(items)) <= width:
        return " ".join(items)
    room, shown = width - len(end), 0
    for item in items:
        room -= len(item) + 1
        if room < 0:
            break
        shown += 1
    return " ".join([*items[: max(shown, 1)], end])
