"""Golden cases of bit_allocator: tokens one by one from nothing, and behind prompts. [harmonia §III-B, Fig. 8]

This module describes stimuli only; the descriptor, and with it every answer, is in bit_allocator.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from refemu.units.stimuli import Seeds, words
from refemu.units.unit import Cases, Config, Kind


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind."""
    if kind == "paper":
        yield _cases(kind, "[harmonia §III-B] a prompt of 4096 tokens, then appended ones", [4096], 36)
        yield _cases(
            kind, "from nothing: token 32 falls at 97 tokens, the first group of V at 128", [0], 200, "D-harmonia-17"
        )
    if kind == "edge":
        why = "prompts that end beside a boundary of windows and groups, then appended tokens"
        yield _cases(kind, why, [1, 31, 32, 33, 63, 64, 95, 96, 97, 127, 128, 129, 159, 160], 36, "D-harmonia-18")
    if kind == "random":
        lengths = words("bit_allocator/random/prefill", seed, 12).reshape(-1) >> np.uint64(52)
        yield _cases(kind, "prompts of any length, then appended tokens", 1 + lengths.astype(np.int64), 40)


def _cases(kind: Kind, why: str, lengths: Sequence[int] | np.ndarray, events: int, decision: str = "") -> Cases:
    """A case for every length of a prompt."""
    prefill = np.zeros((len(lengths), events), np.int64)
    prefill[:, 0] = lengths
    return Cases(kind, why, {"prefill": prefill}, decision)


def legal(config: Config, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Drawn port values with no prompt after the first event."""
    prefill = inputs["prefill"].copy()
    prefill[1:] = 0
    return {"prefill": prefill}


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    return {"DEMOTES_K": result.demote_k, "DEMOTES_V": result.demote_v}
