"""Golden cases of k_offset: a window with wide channels, ties, peaks that halve inexactly. [harmonia §III-C, Fig. 10]

This module describes stimuli only; the descriptor, and with it every answer, is in k_offset.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.units.stimuli import Seeds, words
from refemu.units.unit import Cases, Config, Kind


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    channels, window = config["channels"], config["window"]
    if kind == "paper":
        wide = _words((window + 2, channels), seed)
        wide[..., channels // 2] = wide[..., channels // 2] & 0x03FF | 0xD000  # of one sign
        yield _case(kind, "a full window, its choices, its tokens, and two tokens after them", config, wide)
    if kind == "edge":
        yield from _edge(config)
    if kind == "random":
        yield _case(
            kind, "words of any kind, a full window", config, _words((window + 1, channels), seed, 0xFFFF, after=1)
        )


def _edge(config: Config) -> Iterator[Cases]:
    channels = config["channels"]
    tie = np.full((2, channels), 0x4500)
    tie[1] = 0xC500
    negative = np.full((2, channels), 0x3C00)
    negative[0] = 0xC800
    why = "peaks tie between channels, and between tokens: the lower channel, the first token"
    yield _case("edge", why, config, np.stack([tie, tie[::-1], negative]), "D-harmonia-23")
    zero = np.zeros((2, channels), np.int64)
    zero[1] = 0x8000
    odd = np.zeros((2, channels), np.int64)
    odd[0, -1], odd[0, 0], odd[1, 1] = 0x0401, 0x8001, 0x83FF
    single = np.zeros((2, channels), np.int64)
    single[0, 0] = 0x8001
    why = "peaks of 0; odd significands of field 0 and 1; an offset that becomes -0"
    yield _case("edge", why, config, np.stack([zero, odd, single]), "D-harmonia-24")
    large = np.full((2, channels), 0x7BFF)
    large[1] = 0xFBFF
    yield _case("edge", "the largest values: the difference leaves fp16", config, large[None], "D-harmonia-13")


def _words(shape: tuple[int, int], seed: Seeds, mask: int = 0x9FFF, after: int = 0) -> np.ndarray:
    """Finite words, (seeds, tokens, channels)."""
    drawn = (words("k_offset/k", seed, shape[0] * shape[1], after) >> np.uint64(48)).astype(np.int64)
    kept = drawn.reshape(-1, *shape) & mask | (0x2000 if mask != 0xFFFF else 0)
    return np.where(kept & 0x7C00 == 0x7C00, kept ^ 0x4000, kept)


def _case(kind: Kind, why: str, config: Config, tokens: np.ndarray, decision: str = "") -> Cases:
    """A case of each matrix of tokens: the window (ended early by `last` if short), events without a token until all
    are out, then the rest and the first token again."""
    count, length, channels = tokens.shape
    inside = min(config["window"], length)
    chosen = config["offset_k"] or max(channels // 32, 1)
    idle = inside + chosen * (config["heads"] if config["offset_scope"] == "head" else 1)
    nothing = np.zeros((count, idle, channels), np.int64)
    k = np.concatenate([tokens[:, :inside], nothing, tokens[:, inside:], tokens[:, :1]], axis=1)
    valid = [1] * inside + [0] * idle + [1] * (length - inside + 1)
    last = [0] * (inside - 1) + [int(inside < config["window"])] + [0] * (idle + length - inside + 1)
    return Cases(kind, why, {"k": k, "valid": np.tile(valid, (count, 1)), "last": np.tile(last, (count, 1))}, decision)


def legal(config: Config, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Drawn port values with tokens up to the end of the window, then none."""
    ended = np.cumsum(inputs["last"] != 0) - (inputs["last"] != 0)
    inside = (ended == 0) & (np.arange(inputs["last"].shape[0]) < config["window"])
    return {**inputs, "valid": inside.astype(inputs["valid"].dtype)}


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    shifted = result.out_valid & (result.offset & 0x7FFF != 0).any(axis=-1)
    return {"TRACKS": (np.asarray(inputs["valid"]) == 1) & ~result.out_valid, "SHIFTS": shifted}
