"""Golden cases of k_offset: a window with wide channels, ties, peaks that halve inexactly. [harmonia §III-C, Fig. 10]

This module describes stimuli only; the descriptor, and with it every answer, is in k_offset.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.arith import prng
from refemu.units.unit import Cases, Config


def cases(config: Config, kind: str, seed: int) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    channels, window = config["channels"], config["window"]
    if kind == "paper":
        words = _words((window + 2, channels), seed)
        words[:, channels // 2] = words[:, channels // 2] & 0x03FF | 0xD000  # a wide channel of one sign
        yield _case(kind, "a full window, its choices, its tokens, and two tokens after them", config, [words])
    if kind == "edge":
        yield from _edge(config)
    if kind == "random":
        yield _case(kind, "words of any kind, a full window", config,
                    [_words((window + 1, channels), seed + 1, 0xFFFF)])


def _edge(config: Config) -> Iterator[Cases]:
    channels = config["channels"]
    tie = np.full((2, channels), 0x4500)
    tie[1] = 0xC500
    negative = np.full((2, channels), 0x3C00)
    negative[0] = 0xC800
    yield _case("edge", "peaks tie between channels, and between tokens: the lower channel, the first token", config,
                [tie, tie[::-1], negative], "D-harmonia-23")
    zero = np.zeros((2, channels), np.int64)
    zero[1] = 0x8000
    odd = np.zeros((2, channels), np.int64)
    odd[0, -1], odd[0, 0], odd[1, 1] = 0x0401, 0x8001, 0x83FF
    one = np.zeros((2, channels), np.int64)
    one[0, 0] = 0x8001
    yield _case("edge", "peaks of 0; odd significands of field 0 and 1; an offset that becomes -0", config,
                [zero, odd, one], "D-harmonia-24")
    large = np.full((2, channels), 0x7BFF)
    large[1] = 0xFBFF
    yield _case("edge", "the largest values: the difference leaves fp16", config, [large], "D-harmonia-13")


def _words(shape: tuple[int, int], seed: int, mask: int = 0x9FFF) -> np.ndarray:
    drawn = prng.words(prng.stream("k_offset/k", seed), 0, shape[0] * shape[1]) >> np.uint64(48)
    words = drawn.astype(np.int64).reshape(shape) & mask | (0x2000 if mask != 0xFFFF else 0)
    return np.where(words & 0x7C00 == 0x7C00, words ^ 0x4000, words)


def _case(kind: str, why: str, config: Config, sequences: list[np.ndarray], decision: str = "") -> Cases:
    """Cases: the window (ended early by `last` if short), events without a token until all are out, then the rest."""
    channels, window = config["channels"], config["window"]
    chosen = config["offset_k"] or max(channels // 32, 1)
    if config["offset_scope"] == "head":
        chosen *= config["heads"]
    k, valid, last = [], [], []
    for words in sequences:
        inside = min(window, len(words))
        idle = chosen + inside
        k.append(np.concatenate([words[:inside], np.zeros((idle, channels), np.int64), words[inside:],
                                 words[:1]]))
        valid.append([1] * inside + [0] * idle + [1] * (len(words) - inside + 1))
        last.append([0] * (inside - 1) + [int(inside < window)] + [0] * (idle + len(words) - inside + 1))
    return Cases(kind, why, {"k": np.stack(k), "valid": np.array(valid), "last": np.array(last)}, decision)


def legal(config: Config, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Drawn port values with tokens up to the end of the window, then none."""
    ended = np.cumsum(given["last"] != 0) - (given["last"] != 0)
    inside = (ended == 0) & (np.arange(given["last"].shape[0]) < config["window"])
    return {**given, "valid": inside.astype(given["valid"].dtype)}


def mark(config: Mapping[str, Any], given: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Which rows carry which flag."""
    shifted = result.out_valid & (result.offset & 0x7FFF != 0).any(axis=-1)
    return {"TRACKS": (np.asarray(given["valid"]) == 1) & ~result.out_valid, "SHIFTS": shifted}
