"""Golden cases of v_grouper: more tokens than a group, rising exponents, zeros. [harmonia §III-A, Fig. 6b]"""

from typing import Any

import numpy as np

from refemu.units.stimuli import Blocks, Inputs, Seeds, tokens
from refemu.units.unit import Config

GROUP = 32


def paper(config: Config, seed: Seeds) -> Blocks:
    why = "35 tokens: the 32nd commits its group, the 33rd begins another"
    yield why, {"v": tokens("v_grouper/v", seed, (35, config["channels"]))}


def edge(config: Config) -> Blocks:
    channels = config["channels"]
    rising = np.array([0x8001, 0x03FF, 0x0400, 0x87FF, *range(0x0C00, 0x7BFF, 0x0C01)])
    v = np.stack([np.roll(rising, channel) for channel in range(channels)], axis=1)[None]
    yield "every token raises the exponent, from subnormals to the largest value", {"v": v}, "D-harmonia-20"
    falling = np.array([0x7BFF, 0xBC00, 0x3C00, 0x8000, 0x0000, 0x8001, 0x0400, 0x83FF, 0x3555])
    why = "the first token is the largest; zeros of either sign, magnitudes that vanish"
    yield why, {"v": np.tile(falling[:, None], (1, 1, channels))}, "D-harmonia-20"
    yield "each token in turn is the largest; codes whose bits alternate", {"v": _codes(channels)}
    least = np.array([0x8000, 0x0001, 0x0000, 0x83FF, 0x0200, 0x8007, 0x03FE, 0x0400])
    v = np.stack([np.roll(least, channel // 2) for channel in range(channels)], axis=1)[None]
    yield "zeros and subnormals alone, then a word of field 1", {"v": v}, "D-harmonia-3"
    why = "words of all bits but one: each row of the residual holds them until the commit"
    yield why, {"v": np.full((1, 32, channels), 0xFBFF)}, "D-harmonia-33"
    near = 0x0111 * np.arange(5)[:, None] + 0x0025 * np.arange(channels)  # five tokens of one exponent
    cut_off = np.stack([word + near & 0x7FFF for word in (0x6C00, 0x3C00)])
    yield "a group that is cut off, then one from reset", {"v": cut_off}


def random(config: Config, seed: Seeds) -> Blocks:
    channels = config["channels"]
    if config["growth"] != "realign":
        any_words = tokens("v_grouper/v", seed, (3 * GROUP + 1, channels), 0xFFFF, after=1)
        yield "three groups: words of any kind", {"v": any_words}
    near = tokens("v_grouper/v", seed, (3 * GROUP + 2, channels), after=2)
    yield "three groups: exponents within 8 of each other, as in real tensors", {"v": near}


def _codes(channels: int) -> np.ndarray:
    """Four groups: in each, other tokens reach the exponent, with mantissas 0xAA of 8 bits; the others have 0x55.

    The exponent is 15 and 16 in turn.
    """
    token, channel = np.arange(4 * GROUP)[:, None], np.arange(channels)
    group = token // GROUP
    largest = (token + channel) % 3 == group % 3
    sign = ((group + channel + token // 2) % 2) << 15
    return (np.where(largest, 0x3D50, 0x3954) + 0x0400 * (group % 2) | sign)[None]


def closes(config: Config, inputs: Inputs, result: Any) -> np.ndarray:
    """Events in which a group is committed."""
    return np.asarray(result.commit != 0)


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    rose = np.zeros(result.commit.shape, np.bool_)
    inside = result.count[..., 1:] > 1
    rose[..., 1:] = (result.exponent[..., 1:, :] > result.exponent[..., :-1, :]).any(axis=-1) & inside
    return {"COMMIT": result.commit, "RAISED": rose}
