"""What the golden cases of the prompt compressor must hold."""

import numpy as np
import pytest

from refemu.units.leankv.prompt_compressor import HIGH, LOW, PRUNED, UNIT, WINDOW


@pytest.mark.parametrize("name", UNIT.configs)
def test_every_class_is_met(name: str) -> None:
    config, seen = UNIT.configs[name], set()
    for kind in ("paper", "edge", "random"):
        for block in UNIT.cases(config, kind, 0):
            seen |= set(np.unique(UNIT.evaluate(config, block.inputs).cls).tolist())

    assert seen == {PRUNED, HIGH, WINDOW} | ({LOW} if config["rule"] != "static" else set())


def test_prompt_that_keeps_its_window_only_is_met() -> None:
    config = UNIT.configs["paper"]
    results = [UNIT.evaluate(config, block.inputs) for block in UNIT.cases(config, "edge", 0)]

    assert any(((r.n_pruned > 0) & (r.n_low == 0) & (r.n_high == 0)).any() for r in results)


def test_equal_shares_make_the_network_unstable() -> None:
    """D-leankv-23: some order differs from that by (share, position)."""
    config = UNIT.configs["diffkv"]
    moved = [
        np.any(
            UNIT.evaluate(config, block.inputs).order
            != UNIT.evaluate({**config, "order": "stable"}, block.inputs).order
        )
        for block in UNIT.cases(config, "edge", 0)
        if block.decision == "D-leankv-23"
    ]

    assert any(moved)
