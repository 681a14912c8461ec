"""Golden cases of bit_allocator: tokens one by one from an empty cache, and after prompts. [harmonia §III-B, Fig. 8]"""

from collections.abc import Sequence

import numpy as np

from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, words
from refemu.units.unit import Config


def paper(config: Config) -> Blocks:
    yield _cases("[harmonia §III-B] a prompt of 4096 tokens, then appended ones", [4096], 36)
    yield _cases("an empty cache: token 32 falls at 97 tokens, the first group of V at 128", [0], 200, "D-harmonia-17")


def edge(config: Config) -> Blocks:
    why = "prompts that end next to a boundary of windows and groups, then appended tokens"
    yield _cases(why, [1, 31, 32, 33, 63, 64, 95, 96, 97, 127, 128, 129, 159, 160], 36, "D-harmonia-18")
    why = "prompts at and around powers of two, up to the largest one, then appended tokens"
    yield _cases(why, [255, 256, 2047, 2048, 2049, 4095, 4097, 65_535, 65_536, 524_288, (1 << 20) - 1], 36)
    why = "numbers of tokens and groups whose bits alternate"
    bits = [ones + config["n_local"] - 1 for ones in (0x55555, 0xAAAAA, 0x33333, 0xCCCCC)]
    groups = [32 * (ones + 1) + config["n_local"] - 2 for ones in (0x2AAA, 0x5555)]
    yield _cases(why, [*bits, *groups], 40)
    last = 32 * -(-config["n_initial"] // 32) + config["n_local"] + 32
    why = "a case that ends as the first group of V falls, then a prompt, which starts from reset"
    yield _cases(why, [last - 8, 78, last - 8, 0], 9, "D-harmonia-17")


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = words("bit_allocator/random/prefill", seed, 12).reshape(-1)
    lengths = drawn >> np.uint64(52)
    yield _cases("prompts of up to 4096 tokens, then appended tokens", 1 + lengths.astype(np.int64), 40)
    lengths = (drawn & np.uint64(0xFFFFF)) >> (drawn >> np.uint64(24) & np.uint64(7))
    why = "prompts of any length, half of them up to 65,536 tokens, then appended tokens"
    yield _cases(why, np.maximum(lengths.astype(np.int64), 1), 40)


def _cases(why: str, lengths: Sequence[int] | np.ndarray, events: int, decision: str = "") -> Block:
    """A case for every length of a prompt."""
    prefill = np.zeros((len(lengths), events), np.int64)
    prefill[:, 0] = lengths
    return why, {"prefill": prefill}, decision


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """Drawn port values with a prefill in the first event only."""
    prefill = inputs["prefill"].copy()
    prefill[1:] = 0
    return {"prefill": prefill}
