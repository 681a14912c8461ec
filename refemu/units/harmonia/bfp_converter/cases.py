"""Golden cases of bfp_converter: streams of blocks as [harmonia §IV-C, Fig. 14] has them."""

from math import prod
from typing import Any

import numpy as np

from refemu.units.stimuli import Blocks, Inputs, Seeds, finite, words
from refemu.units.unit import Config

LANES, GROUP, COLUMNS = 8, 32, 16
TOKEN, V = range(2)
NAMES = ("x", "valid", "kind", "m", "last", "column_valid")


def paper(config: Config, seed: Seeds) -> Blocks:
    figure = np.hstack(
        [np.tile(np.array([0x4648, 0xBE48, 0x3268], np.uint16), (8, 1)), _words("figure", (8, 29), seed)]
    )
    why = "a block of 8 tokens, every row beginning with the group of [harmonia Fig. 3]"
    yield why, _inputs((_matrix().clocks(figure, TOKEN), 33))
    why = "[harmonia §IV-C, Fig. 14] a V block: 8 rows in each of 4 loops, 16 columns"
    yield why, _inputs((_drawn("v", (32, 16), seed, V), 65))


def edge(config: Config, seed: Seeds) -> Blocks:
    clocks, idle = _matrix().clocks, _matrix().IDLE
    special = np.array([0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0x3C00, 0xBC04], np.uint16)
    rolled = np.stack([np.roll(special, shift) for shift in range(5)], axis=1)
    why = "zeros, subnormals, field 1 and the largest value; short groups of 1, 2 and 5 columns"
    groups = [(clocks(rolled[:, :columns], TOKEN, m), 14) for columns, m in ((1, 8), (2, 4), (5, 11))]
    yield why, _inputs(*groups), "D-harmonia-3"
    why = "one token in lane 0, then three of eight: masked lanes neither compare nor come out"
    yield why, _inputs((_drawn("lane0", (1, 8), seed, TOKEN, 4) + _drawn("lanes", (3, 8), seed, TOKEN), 9))
    why = "a V block of 13 tokens and 5 channels: two loops, the second partial, columns without lanes"
    yield why, _inputs((_drawn("v short", (13, 5), seed, V), 33))
    gaps = [clock for column in _drawn("v gaps", (9, 16), seed, V) for clock in (column, (*column[:-1], 0))]
    why = "a V block of two loops, each followed by a clock without a column, other inputs unchanged"
    yield why, _inputs((gaps, 33))
    stream = _drawn("v first", (8, 16), seed, V, 4) + _drawn("wait", (8, 3), seed, TOKEN) + [idle] * 14
    why = "token blocks after a V block: the first waits for the aligner, the third for a bank"
    yield why, _inputs((stream + _drawn("third", (2, 4), seed, TOKEN, 4), 12))
    yield from _cut(seed, idle)
    row, column = np.arange(32)[:, None], np.arange(16)
    codes = np.where(column % 2 == 0, 0x3D55, 0xBEAA)
    odd = np.where((row + column) % 3 == 0, codes ^ 0x83FF, codes).astype(np.uint16)
    why = "every element under one exponent at 11 bits, magnitudes whose bits alternate: V, then tokens"
    yield why, _inputs((clocks(odd, V, 11), 66), (clocks(odd[:8].repeat(2, axis=1), TOKEN, 11), 66))
    least = np.array([0x0000, 0x8000, 0x0001, 0x83FF, 0x0200, 0x8007, 0x0400, 0x0800], np.uint16)
    block = np.stack([least, np.roll(least, 1), least, np.tile(least[:2], 4)], axis=1)
    why = "groups of zeros and subnormals alone, in lanes next to others; V, then tokens"
    yield why, _inputs((clocks(block, V), 17), (clocks(block[:, [0, 2, 3]], TOKEN), 17)), "D-harmonia-3"
    why = "two columns of four, six and seven tokens, of 1 to 3 bits"
    yield why, _inputs(*((_drawn("few", (n, 2), seed, TOKEN, m), 4) for n, m in ((4, 1), (6, 2), (7, 3))))


def random(config: Config, seed: Seeds) -> Blocks:
    """A block of each kind: V of 1 to 4 loops, then tokens, of drawn widths, masks and lengths, with drawn gaps."""
    clocks, cases = _matrix().clocks, []
    for row in words("bfp_converter/mixed", seed, 8 + 32 * 16 + 8 * 32 + 104):
        draws, gaps = (row[:8] >> np.uint64(32)).astype(np.int64), (row[776:] >> np.uint64(61)) == 0
        any_words = finite((row >> np.uint64(48)).astype(np.uint16))
        v, tokens = any_words[8:520].reshape(32, 16), any_words[520:776].reshape(8, 32)
        blocks = [
            clocks(v[: 1 + draws[0] % 32, : 1 + draws[1] % 16], V, int(1 + draws[2] % 11)),
            clocks(tokens[: 1 + draws[3] % 8, : 1 + draws[4] % 32], TOKEN, int(1 + draws[5] % 11)),
        ]
        first, second = blocks if draws[6] % 2 == 0 else blocks[::-1]
        columns = zip(first + second, gaps, strict=False)
        cases.append([clock for column, gap in columns for clock in ((*column[:-1], 0), column)[1 - int(gap) :]])
    why = "blocks of V and of tokens, widths, masks, lengths and gaps drawn, words of any exponent below 31"
    yield why, _inputs(*((case, 136 - len(case)) for case in cases))


def _matrix() -> Any:
    """Streams of blocks; imported late, since the unit imports this module."""
    from refemu.units.harmonia.bfp_converter import matrix

    return matrix


def _cut(seed: Seeds, idle: Any) -> Blocks:
    """Cases that end in the middle of a block, each followed by one that starts afresh."""
    token = _drawn("cut", (8, 32), seed, TOKEN)
    short = [(*column[:4], int(place == 11), 1) for place, column in enumerate(_drawn("short", (8, 12), seed, TOKEN))]
    why = "20 columns of a token block, cut off; then a block of 12"
    yield why, _inputs((token[:20], 0), (short[:12] + [idle] * 8, 0))
    yield "then clocks without a column", _inputs(([], 40))
    loop = _drawn("loop", (8, 16), seed, V)
    open_loop = [(*column[:4], 0, 1) for column in loop]
    yield "one loop of a V block, cut off; then a block of one loop", _inputs((open_loop, 0), (loop, 0))
    yield "the first clocks after it", _inputs(([], 40))
    ended = [(*column[:4], int(place == 5), 1) for place, column in enumerate(_drawn("ended", (8, 6), seed, TOKEN))]
    why = "a block of which two columns are aligned, cut off; then clocks without a column"
    yield why, _inputs((ended, 2), ([], 8))


def _drawn(name: str, shape: tuple[int, int], seed: Seeds, kind: int, m: int = 8) -> list[Any]:
    """The stream of a block of drawn words."""
    clocks: list[Any] = _matrix().clocks(_words(name, shape, seed), kind, m)
    return clocks


def _words(name: str, shape: tuple[int, int], seed: Seeds) -> np.ndarray:
    """Finite words, exponents within 8 of each other."""
    drawn = words(f"bfp_converter/{name}", seed, prod(shape))[0].reshape(shape)
    return (drawn >> np.uint64(48)).astype(np.uint16) & 0x9FFF | 0x2000


def _inputs(*sequences: tuple[list[Any], int]) -> Inputs:
    """Cases of clocks, then so many without a column, all filled up to one length."""
    idle, length = _matrix().IDLE, max(len(clocks) + more for clocks, more in sequences)
    inputs: Inputs = _matrix().port_values([clocks + [idle] * (length - len(clocks)) for clocks, _ in sequences])
    return inputs


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """Drawn port values as one block: kind, width and mask of the first clock, no early end."""
    fixed = {name: np.broadcast_to(inputs[name][:1], inputs[name].shape) for name in ("valid", "kind", "m")}
    lanes = (fixed["kind"] == V) | (fixed["valid"] != 0)
    return {**inputs, **fixed, "last": np.zeros_like(inputs["last"]), "column_valid": inputs["column_valid"] * lanes}


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    arrives = np.asarray(inputs["column_valid"]) != 0
    return {"OVERLAP": arrives & (result.out_valid != 0), "STALL": ~result.ready}
