"""Golden cases of v_grouper: more tokens than a group, rising exponents, zeros. [harmonia §III-A, Fig. 6b]"""

from typing import Any

import numpy as np

from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, tokens
from refemu.units.unit import Config

GROUP = 32


def paper(config: Config, seed: Seeds) -> Blocks:
    channels = config["channels"]
    yield _case(
        "35 tokens: the 32nd commits its group, the 33rd begins another", tokens("v_grouper/v", seed, (35, channels))
    )


def edge(config: Config) -> Blocks:
    channels = config["channels"]
    rising = np.array([0x8001, 0x03FF, 0x0400, 0x87FF, *range(0x0C00, 0x7BFF, 0x0C01)])
    v = np.stack([np.roll(rising, channel) for channel in range(channels)], axis=1)[None]
    yield _case("every token raises the exponent, from subnormals to the largest value", v, "D-harmonia-20")
    falling = np.array([0x7BFF, 0xBC00, 0x3C00, 0x8000, 0x0000, 0x8001, 0x0400, 0x83FF, 0x3555])
    why = "the first token is the largest; zeros of either sign, magnitudes that vanish"
    yield _case(why, np.stack([falling] * channels, axis=1)[None], "D-harmonia-20")
    yield _case("each token in turn is the largest; codes whose bits alternate", _codes(channels))
    least = np.array([0x8000, 0x0001, 0x0000, 0x83FF, 0x0200, 0x8007, 0x03FE, 0x0400])
    why = "zeros and subnormals alone, then a word of field 1"
    yield _case(why, np.stack([np.roll(least, c // 2) for c in range(channels)], axis=1)[None], "D-harmonia-3")
    why = "words of all bits but one: each row of the residual holds them until the commit"
    yield _case(why, np.full((1, 32, channels), 0xFBFF), "D-harmonia-33")
    why = "a group that is cut off, then one from reset"
    yield _case(why, np.stack([_near(channels, 0x6C00), _near(channels, 0x3C00)]))


def random(config: Config, seed: Seeds) -> Blocks:
    channels = config["channels"]
    if config["growth"] != "realign":
        yield _case(
            "three groups: words of any kind", tokens("v_grouper/v", seed, (3 * GROUP + 1, channels), 0xFFFF, after=1)
        )
    why = "three groups: exponents within 8 of each other, as in real tensors"
    yield _case(why, tokens("v_grouper/v", seed, (3 * GROUP + 2, channels), after=2))


def _codes(channels: int) -> np.ndarray:
    """Four groups: in each, other tokens reach the exponent, with mantissas 0xAA of 8 bits; the others have 0x55.

    The exponent is 15 and 16 in turn.
    """
    token, channel = np.arange(4 * GROUP)[:, None], np.arange(channels)
    group = token // GROUP
    largest = (token + channel) % 3 == group % 3
    sign = ((group + channel + token // 2) % 2) << 15
    return (np.where(largest, 0x3D50, 0x3954) + 0x0400 * (group % 2) | sign)[None]


def _near(channels: int, word: int) -> np.ndarray:
    """Five tokens of one exponent."""
    return np.asarray(word + 0x0111 * np.arange(5)[:, None] + 0x0025 * np.arange(channels) & 0x7FFF)


def _case(why: str, v: np.ndarray, decision: str = "") -> Block:
    return why, {"v": v}, decision


def closes(config: Config, inputs: Inputs, result: Any) -> np.ndarray:
    """Events in which a group is committed."""
    return np.asarray(result.commit != 0)


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    rose = np.zeros(result.commit.shape, np.bool_)
    inside = result.count[..., 1:] > 1
    rose[..., 1:] = (result.exponent[..., 1:, :] > result.exponent[..., :-1, :]).any(axis=-1) & inside
    return {"COMMIT": result.commit, "RAISED": rose}
