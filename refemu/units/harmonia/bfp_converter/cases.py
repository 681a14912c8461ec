"""Golden cases of bfp_converter: streams of blocks as [harmonia §IV-C, Fig. 14] has them."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from refemu.units.stimuli import Seeds, words
from refemu.units.unit import Cases, Config, Kind

LANES, GROUP, COLUMNS = 8, 32, 16
TOKEN, V = range(2)
NAMES = ("x", "valid", "kind", "m", "last", "column_valid")


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind."""
    from refemu.units.harmonia.bfp_converter.matrix import clocks

    if kind == "paper":
        figure = np.zeros((8, 32), np.uint16)
        figure[:, :3] = 0x4648, 0xBE48, 0x3268
        figure[:, 3:] = _words("figure", (8, 29), seed)
        why = "a block of 8 tokens, every row beginning with the group of [harmonia Fig. 3]"
        yield _case(kind, why, [clocks(figure, TOKEN), 33])
        why = "[harmonia §IV-C, Fig. 14] a V block: 8 rows in each of 4 loops, 16 columns"
        yield _case(kind, why, [clocks(_words("v", (32, 16), seed), V), 65])
    if kind == "edge":
        yield from _edge(seed)
    if kind == "random":
        yield _mixed(seed)


def _mixed(seed: Seeds) -> Cases:
    """A block of each kind: V of 1 to 4 loops, then tokens, of drawn widths, masks and lengths, with drawn gaps."""
    from refemu.units.harmonia.bfp_converter.matrix import IDLE, clocks, port_values

    drawn, cases = words("bfp_converter/mixed", seed, 8 + 32 * 16 + 8 * 32 + 104), []
    for row in drawn:
        draws = (row[:8] >> np.uint64(32)).astype(np.int64)
        v, tokens, gaps = row[8:520].reshape(32, 16), row[520:776].reshape(8, 32), (row[776:] >> np.uint64(61)) == 0
        blocks = [
            clocks(_any(v[: 1 + draws[0] % 32, : 1 + draws[1] % 16]), V, int(1 + draws[2] % 11)),
            clocks(_any(tokens[: 1 + draws[3] % 8, : 1 + draws[4] % 32]), TOKEN, int(1 + draws[5] % 11)),
        ]
        order = blocks if draws[6] % 2 == 0 else blocks[::-1]
        case = [
            clock
            for column, gap in zip(order[0] + order[1], gaps, strict=False)
            for clock in ([(*column[:-1], 0)] * int(gap) + [column])
        ]
        cases.append(case + [IDLE] * (136 - len(case)))
    why = "blocks of V and of tokens, widths, masks, lengths and gaps drawn, words of any exponent below 31"
    return Cases("random", why, port_values(cases))


def _any(drawn: np.ndarray) -> np.ndarray:
    """Finite words."""
    kept = (drawn >> np.uint64(48)).astype(np.uint16)
    return np.where(kept & 0x7C00 == 0x7C00, kept ^ 0x4000, kept)


def _edge(seed: Seeds) -> Iterator[Cases]:
    from refemu.units.harmonia.bfp_converter.matrix import IDLE, clocks

    special = np.array([0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0x3C00, 0xBC04], np.uint16)
    yield _case(
        "edge",
        "zeros, subnormals, field 1 and the largest value; short groups of 1, 2 and 5 columns",
        *[
            [clocks(np.stack([np.roll(special, shift) for shift in range(columns)], axis=1), TOKEN, m), 14]
            for columns, m in ((1, 8), (2, 4), (5, 11))
        ],
        decision="D-harmonia-3",
    )
    yield _case(
        "edge",
        "one token in lane 0, then three of eight: masked lanes neither compare nor come out",
        [clocks(_words("lane0", (1, 8), seed), TOKEN, 4) + clocks(_words("lanes", (3, 8), seed), TOKEN, 8), 9],
    )
    short = clocks(_words("v short", (13, 5), seed), V)
    why = "a V block of 13 tokens and 5 channels: two loops, the second partial, columns without lanes"
    yield _case("edge", why, [short, 33])
    gaps = [clock for column in clocks(_words("v gaps", (9, 16), seed), V) for clock in (column, (*column[:-1], 0))]
    why = "a V block of two loops, each followed by a clock without a column, other inputs unchanged"
    yield _case("edge", why, [gaps, 33])
    first = clocks(_words("v first", (8, 16), seed), V, 4)
    yield _case(
        "edge",
        "token blocks after a V block: the first waits for the aligner, the third for a bank",
        [
            first
            + clocks(_words("wait", (8, 3), seed), TOKEN)
            + [IDLE] * 14
            + clocks(_words("third", (2, 4), seed), TOKEN, 4),
            12,
        ],
    )
    yield from _cut(seed)
    codes = np.where(np.arange(16) % 2 == 0, 0x3D55, 0xBEAA) + 0 * np.arange(32)[:, None]
    odd = np.where((np.arange(32)[:, None] + np.arange(16)) % 3 == 0, codes ^ 0x83FF, codes)
    why = "every element under one exponent at 11 bits, magnitudes whose bits alternate: V, then tokens"
    stream = clocks(odd.astype(np.uint16), V, 11)
    yield _case("edge", why, [stream, 66], [clocks(odd[:8].astype(np.uint16).repeat(2, axis=1), TOKEN, 11), 66])
    why = "groups of zeros and subnormals alone, in lanes next to others; V, then tokens"
    least = np.array([0x0000, 0x8000, 0x0001, 0x83FF, 0x0200, 0x8007, 0x0400, 0x0800], np.uint16)
    block = np.stack([np.roll(least, c) * np.uint16(c % 2) + least * np.uint16(1 - c % 2) for c in range(4)], axis=1)
    block[:, 3] = [0x0000, 0x8000] * 4
    yield _case("edge", why, [clocks(block, V), 17], [clocks(block[:, [0, 2, 3]], TOKEN), 17], decision="D-harmonia-3")
    why = "two columns of four, six and seven tokens, of 1 to 3 bits"
    yield _case("edge", why, *([clocks(_words("few", (n, 2), seed), TOKEN, m), 4] for n, m in ((4, 1), (6, 2), (7, 3))))


def _cut(seed: Seeds) -> Iterator[Cases]:
    """Cases that end in the middle of a block, each followed by one that starts afresh."""
    from refemu.units.harmonia.bfp_converter.matrix import IDLE, clocks

    token = clocks(_words("cut", (8, 32), seed), TOKEN)
    short = [
        (*column[:4], int(place == 11), 1) for place, column in enumerate(clocks(_words("short", (8, 12), seed), TOKEN))
    ]
    why = "20 columns of a token block, cut off; then a block of 12"
    yield _case("edge", why, [token[:20], 0], [short[:12] + [IDLE] * 8, 0])
    yield _case("edge", "then clocks without a column", [[IDLE] * 40, 0])
    loop = clocks(_words("loop", (8, 16), seed), V)
    open_loop = [(*column[:4], 0, 1) for column in loop]
    yield _case("edge", "one loop of a V block, cut off; then a block of one loop", [open_loop, 0], [loop, 0])
    yield _case("edge", "the first clocks after it", [[IDLE] * 40, 0])
    ended = [
        (*column[:4], int(place == 5), 1) for place, column in enumerate(clocks(_words("ended", (8, 6), seed), TOKEN))
    ]
    why = "a block of which two columns are aligned, cut off; then clocks without a column"
    yield _case("edge", why, [ended + [IDLE] * 2, 0], [[IDLE] * 8, 0])


def _words(name: str, shape: tuple[int, ...], seed: Seeds) -> np.ndarray:
    return _near(words(f"bfp_converter/{name}", seed, prod(shape))[0].reshape(shape))


def _near(drawn: np.ndarray) -> np.ndarray:
    """Finite words, exponents within 8 of each other."""
    return (drawn >> np.uint64(48)).astype(np.uint16) & 0x9FFF | 0x2000


def _case(kind: Kind, why: str, *sequences: list[Any], decision: str = "") -> Cases:
    """A block of cases: clocks, then so many without a column, all filled up to one length."""
    from refemu.units.harmonia.bfp_converter.matrix import IDLE, port_values

    full = [clocks + [IDLE] * idle for clocks, idle in sequences]
    length = max(map(len, full))
    return Cases(kind, why, port_values([case + [IDLE] * (length - len(case)) for case in full]), decision)


def legal(config: Config, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Drawn port values as one block: kind, width and mask of the first clock, no early end."""
    fixed = {name: np.broadcast_to(inputs[name][:1], inputs[name].shape) for name in ("valid", "kind", "m")}
    lanes = (fixed["kind"] == V) | (fixed["valid"] != 0)
    return {**inputs, **fixed, "last": np.zeros_like(inputs["last"]), "column_valid": inputs["column_valid"] * lanes}


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    arrives = np.asarray(inputs["column_valid"]) != 0
    return {"OVERLAP": arrives & (result.out_valid != 0), "STALL": ~result.ready}
