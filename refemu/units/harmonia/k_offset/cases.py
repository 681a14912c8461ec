"""Cases of k_offset: a window with wide channels, ties, peaks that halve inexactly. [harmonia §III-C, Fig. 10]"""

from typing import Any

import numpy as np

from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, tokens, words
from refemu.units.unit import Config

SLACK = 4  #: events more than a window needs, for units that choose more channels


def paper(config: Config, seed: Seeds) -> Blocks:
    channels, window = config["channels"], config["window"]
    wide = tokens("k_offset/k", seed, (window + 2, channels))
    wide[..., channels // 2] = wide[..., channels // 2] & 0x03FF | 0xD000  # of one sign
    yield _case("a full window, its choices, its tokens, and two tokens after them", config, wide)


def edge(config: Config) -> Blocks:
    channels = config["channels"]
    tie, negative, large = (
        np.repeat(np.array(words)[:, None], channels, axis=1)
        for words in ((0x4500, 0xC500), (0xC800, 0x3C00), (0x7BFF, 0xFBFF, 0xFBFF, 0xF9FF))
    )
    why = "peaks tie between channels, and between tokens: the lower channel, the first token"
    yield _case(why, config, np.stack([tie, tie[::-1], negative]), "D-harmonia-23")
    zero, odd, single = small = np.zeros((3, 2, channels), np.int64)
    zero[1], single[0, 0] = 0x8000, 0x8001
    odd[0, -1], odd[0, 0], odd[1, min(1, channels - 1)] = 0x0401, 0x8001, 0x83FF
    why = "peaks of 0; odd significands of field 0 and 1; an offset that becomes -0"
    yield _case(why, config, small, "D-harmonia-24")
    why = "the largest values: differences exceed fp16"
    yield _case(why, config, np.stack([large, large ^ 0x8000]), "D-harmonia-13")
    why = "each channel in turn is the widest, with peaks whose bits alternate"
    yield _case(why, config, _each(channels), "D-harmonia-24", slack=1)
    why = "differences halfway between two fp16 values, next to halfway, and subnormal"
    yield _case(why, config, _ties(channels), "D-arith-2")
    why = "peaks that fall from channel to channel, and rise: the first are chosen, later ones are not"
    falling = 0x6000 - 0x0123 * np.arange(channels)
    yield _case(why, config, np.stack([[falling, falling - 1], [falling[::-1], falling[::-1] - 1]]))
    yield from _cut(config)


def random(config: Config, seed: Seeds) -> Blocks:
    channels, window = config["channels"], config["window"]
    yield _case(
        "words of any kind, a full window", config, tokens("k_offset/k", seed, (window + 1, channels), 0xFFFF, after=1)
    )
    yield _streams(config, seed)


def _each(channels: int) -> np.ndarray:
    """Two matrices per channel, of one token: a wide word among small ones."""
    matrix, channel = np.arange(2 * channels)[:, None], np.arange(channels)
    small = 0x1234 + 0x0035 * channel | np.where(channel % 2, 0, 0x8000)
    return np.where(channel == matrix // 2, np.where(matrix % 2, 0x2EAA, 0xD955), small)[:, None]


def _ties(channels: int) -> np.ndarray:
    """An odd word of exponent 2^10 in every second channel, then tokens of halves, both signs; subnormal tokens."""
    peak = np.where(np.arange(channels) % 2 == 0, 0x6401, 0xE403)
    halves = np.array([0x3800, 0x3801, 0x37FF, 0xB800, 0x3E00, 0xBE00])
    later = (halves[:, None] + 0 * peak) ^ (np.arange(channels) & 1) << 15
    small = np.where(np.arange(channels) % 2 == 0, 0x0403, 0x8401)
    near = np.stack(
        [small, small - 1, small - 3, 0 * small + 0x0201, 0 * small + 0x8203, 0 * small + 1, small ^ 0x8000]
    )
    return np.stack([[peak, *later], near])


def _cut(config: Config) -> Blocks:
    """A window that is cut off, then a case that starts with a window of its own."""
    channels = config["channels"]
    rows = 0x3C00 + 0x0101 * np.arange(4 * channels).reshape(4, channels) % 0x0800
    table = {"k": np.stack([rows[::-1] + 0x0800, rows]), "valid": np.ones((2, 4)), "last": np.zeros((2, 4))}
    table["last"][1, 1], table["valid"][1, 2:] = 1, 0
    why = "a window that is cut off, then a window of two tokens without a trace of it"
    yield why, {name: array.astype(np.int64) for name, array in table.items()}, "D-harmonia-26"


def _streams(config: Config, seed: Seeds) -> Block:
    """Windows of a drawn length with gaps, then idle events until all are out, then tokens with gaps."""
    channels, window = config["channels"], config["window"]
    idle = window + _chosen(config) + SLACK
    length = 2 * window + idle + 8
    k = tokens("k_offset/k", seed, (length, channels), 0xBFFF, after=2) & 0xBFFF
    drawn = words("k_offset/gaps", seed, length, after=2)
    valid, last = np.zeros((2, len(k), length), np.int64)
    for case, row in enumerate(drawn):
        gaps = (row & np.uint64(3)) == 0
        count = 1 + int(row[0] >> np.uint64(32)) % window
        ends = int(
            np.flatnonzero(np.cumsum(~gaps[: 2 * window]) >= min(count, np.count_nonzero(~gaps[: 2 * window])))[0]
        )
        valid[case, : ends + 1] = ~gaps[: ends + 1]
        last[case, ends] = valid[case, ends] = 1
        valid[case, ends + 1 + idle :] = ~gaps[ends + 1 + idle :]
    return "windows of any length with gaps, then later tokens", {"k": k, "valid": valid, "last": last}


def _chosen(config: Config) -> int:
    """Channels that get an offset."""
    each = max(config["channels"] // 32, 1) if config["offset_k"] is None else config["offset_k"]
    return int(each * (config["heads"] if config["offset_scope"] == "head" else 1))


def _case(why: str, config: Config, tokens: np.ndarray, decision: str = "", slack: int = SLACK) -> Block:
    """A case of each matrix of tokens: the window (ended early by `last` if short), events without a token until all
    are out, then the rest and the first token again."""
    count, length, channels = tokens.shape
    inside = min(config["window"], length)
    idle = inside + _chosen(config) + slack
    nothing = np.zeros((count, idle, channels), np.int64)
    k = np.concatenate([tokens[:, :inside], nothing, tokens[:, inside:], tokens[:, :1]], axis=1)
    valid = [1] * inside + [0] * idle + [1] * (length - inside + 1)
    last = [0] * (inside - 1) + [int(inside < config["window"])] + [0] * (idle + length - inside + 1)
    return why, {"k": k, "valid": np.tile(valid, (count, 1)), "last": np.tile(last, (count, 1))}, decision


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """Drawn port values with tokens up to the end of the window, then none."""
    ended = np.cumsum(inputs["last"] != 0, axis=-1) - (inputs["last"] != 0)
    inside = (ended == 0) & (np.arange(inputs["last"].shape[-1]) < config["window"])
    return {**inputs, "valid": inside.astype(inputs["valid"].dtype)}


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    offsets = np.asarray(result.offset).reshape(*np.shape(result.out_valid), -1)  # one channel has no axis
    shifted = result.out_valid & (offsets & 0x7FFF != 0).any(axis=-1)
    return {"TRACKS": (np.asarray(inputs["valid"]) == 1) & ~result.out_valid, "SHIFTS": shifted}
