"""What the golden cases of the generation compressor must hold."""

import numpy as np
import pytest

from refemu.units.leankv.generation_compressor import (
    A1,
    A2,
    A3,
    APPEND,
    B1,
    B2,
    DOWNGRADE,
    PRUNE,
    STATIC_APPEND,
    STATIC_DROP,
    SWAP,
    UNIT,
    C,
    W,
)

CHOICES = {
    "algorithm1": set(range(W, C + 1)),
    "diffkv": {APPEND, PRUNE, SWAP, DOWNGRADE},
    "static": {STATIC_APPEND, STATIC_DROP},
}


@pytest.mark.parametrize("name", UNIT.configs)
def test_every_choice_is_met(name: str) -> None:
    config, seen = UNIT.configs[name], set()
    for kind in ("paper", "edge", "random"):
        for block in UNIT.cases(config, kind, 0):
            seen |= set(UNIT.evaluate(config, block.inputs).choice.tolist())

    assert seen == CHOICES[config["policy"]]


@pytest.mark.parametrize("name", ["paper", "wide"])
def test_heads_of_paper_make_every_choice_in_turn(name: str) -> None:
    """As the case says."""
    (block,) = UNIT.cases(UNIT.configs[name], "paper", 0)

    assert block.why.endswith("one head for each of A1 A2 A3 B1 B2 C W")
    assert UNIT.evaluate(UNIT.configs[name], block.inputs).choice.tolist() == [A1, A2, A3, B1, B2, C, W]


def test_a_victim_in_the_last_lane_is_met() -> None:
    """D-leankv-28."""
    config = UNIT.configs["diffkv"]
    victims = {int(v) for block in UNIT.cases(config, "edge", 0) for v in UNIT.evaluate(config, block.inputs).victim}

    assert {127, 64} <= victims


def test_sections_are_empty_and_full() -> None:
    blocks = list(UNIT.cases(UNIT.configs["paper"], "edge", 0))
    stored = np.concatenate([np.asarray(block.inputs["n_high"]) + block.inputs["n_low"] for block in blocks])

    assert {0, 16} <= set(stored.tolist())
