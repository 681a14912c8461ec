"""Damaged and hostile inputs, made from valid ones by a seeded generator."""

import copy
import json
from random import Random
from typing import Any

DEEP = 100_000
TIMES = (1, 1, 1, 1, 1, 1, 2, 2, 3)  #: damages to one input: with one alone it gets furthest
_NESTED = "@nested@"  # what `dumped` replaces: no JSON library writes a list that deep
VALUES: tuple[Any, ...] = (
    0,
    -1,
    1,
    3,
    1 << 16,
    (1 << 31) - 1,
    1 << 32,
    1 << 63,
    (1 << 64) - 1,
    10**9,
    10**18,
    10**4000,
    0.5,
    -0.0,
    1e300,
    float("nan"),
    float("inf"),
    -float("inf"),
    True,
    False,
    None,
    "",
    "x",
    "\0",
    "\ud800",
    "\udcff",
    "é",
    "../x",
    "/",
    "9" * 5000,
    "a" * 200_000,
    [],
    {},
    [[]],
    [0],
    {"a": 0},
    [None] * 100,
    _NESTED,
)
WORDS = (
    "",
    "x",
    "0x",
    "-1",
    "+1",
    "1e9",
    "nan",
    "inf",
    "1_0",
    "0b2",
    "９",
    "9" * 5000,
    "0x" + "f" * 5000,
    "0" * 150_000,
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "\0",
    "\r",
    '"',
    "'",
    "{0}",
    "%s",
    "../..",
    "//",
    "\ufeff",
    "true",
    "none",
    "[",
    "{}",
    "1.5",
    "1e400",
    "-0",
    ",",
    ";",
    "=",
    ":",
)


def damaged(rng: Random, data: bytes, head: int | None = None) -> bytes:
    """Bytes with one to three damages. head: number of bytes at the beginning that may change."""
    for _ in range(rng.choice(TIMES)):
        data = rng.choice(_DAMAGES)(rng, data, min(head or len(data), len(data)))
    return data


def _flipped(rng: Random, data: bytes, end: int) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8) if end else 0):
        changed[rng.randrange(end)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(rng: Random, data: bytes, end: int) -> bytes:
    return data[: rng.randint(0, end)]


def _without(rng: Random, data: bytes, end: int) -> bytes:
    at = rng.randint(0, end)
    return data[:at] + data[at + rng.choice((1, 2, 4, 8, 64)) :]


def _twice(rng: Random, data: bytes, end: int) -> bytes:
    at = rng.randint(0, end)
    part = data[at : at + rng.choice((1, 8, 64, 1024))]
    return data[:at] + part * rng.choice((2, 3, 100)) + data[at + len(part) :]


def _number(rng: Random, data: bytes, end: int) -> bytes:
    """A wrong length or offset."""
    size = rng.choice((2, 4, 8))
    value = rng.choice((0, 1, 255, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1, len(data), rng.getrandbits(64)))
    at = rng.randint(0, end)
    return data[:at] + (value % (1 << 8 * size)).to_bytes(size, "little") + data[at + size :]


def _noise(rng: Random, data: bytes, end: int) -> bytes:
    at = rng.randint(0, end)
    return data[:at] + rng.randbytes(rng.choice((1, 4, 32))) + data[at:]


_DAMAGES = (_flipped, _cut, _without, _twice, _number, _noise)


def swapped(rng: Random, value: Any) -> Any:
    """A JSON value with one to three changes: another type, another number, a missing or a repeated item."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice(TIMES)):
        value = _swapped_once(rng, value)
    return value


def _swapped_once(rng: Random, value: Any) -> Any:
    if isinstance(value, dict | list) and value and rng.random() < 0.97:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key, how = rng.choice(keys), rng.random()
        if how < 0.1:
            del value[key]
        elif how < 0.15 and isinstance(value, list):
            value.append(value[key])
        elif how < 0.15:
            value[str(rng.choice(VALUES))[:100]] = value[key]
        else:
            value[key] = _swapped_once(rng, value[key])
        return value
    if type(value) is int and rng.random() < 0.7:
        return rng.choice(
            (
                value + 1,
                value - 1,
                2 * value,
                -value,
                value ^ 1,
                value + 64,
                value // 2,
                value << 40,
                0.5 * (value % 9),
                str(value % 9),
                [value],
            )
        )
    return copy.deepcopy(rng.choice(VALUES))


def dumped(value: Any) -> str:
    """JSON text, also of values that no library writes."""
    return json.dumps(value).replace(json.dumps(_NESTED), "[" * DEEP + "]" * DEEP)


def retold(rng: Random, text: str, marks: str = " ,\n") -> str:
    """A text with a word changed, repeated or removed, or with damaged bytes; sometimes all lines joined."""
    for _ in range(rng.choice(TIMES)):
        mark = rng.choice(marks)
        words, how = text.split(mark), rng.random()
        at = rng.randrange(len(words))
        if how < 0.6:
            words[at] = rng.choice((rng.choice(WORDS), words[at] + rng.choice(WORDS), words[rng.randrange(len(words))]))
        elif how < 0.75:
            del words[at]
        elif how < 0.85:
            words.insert(at, words[at])
        elif how < 0.9:
            mark = rng.choice(("\r", "\t", "\0", "", "\n\n", " "))
        text = mark.join(words)
    return text
