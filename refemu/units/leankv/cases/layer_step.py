"""Golden cases of layer_step: the histories of head_step for all KV heads of a layer. [leankv Algorithm 1, §5.3]

This module describes stimuli only; the descriptor, and with it every answer, is in layer_step.py.
"""

from collections.abc import Iterator

import numpy as np

from refemu.units.leankv.cases.head_step import NOTHING, SEED, History, Prompt, _most, of_heads
from refemu.units.leankv.cases.head_step import closes as closes
from refemu.units.leankv.cases.head_step import legal as legal
from refemu.units.stimuli import Seeds
from refemu.units.unit import Cases, Config, Kind

FULL = 6  #: requests of as many tokens as there is room for
MOVE = (0.5, 1.0)  #: thresholds of the last: a head moves its oldest token of the window, or drops it


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    yield from of_heads("layer_step", config, kind, seed)
    if kind == "edge":
        why = "requests of as many tokens as there is room for, whose last is low; heads move tokens to other low slots"
        yield Cases(kind, why, _full(config), "D-leankv-34")


def _full(config: Config) -> dict[str, np.ndarray]:
    """Prompts of one length, each with vectors and scores of its own, and a step after each."""
    tokens, parts = _most(config) - 1, []
    for number in range(FULL):
        history = History(config, SEED + 40 + number, 2, rough=(1, 1))
        history.prompt(Prompt(tokens, tuple(range(1, tokens)), (0,)))
        history.step(MOVE if number == FULL - 1 else NOTHING)
        parts.append(history.inputs())
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
