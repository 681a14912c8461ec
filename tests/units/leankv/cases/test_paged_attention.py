"""What the golden cases of paged attention must hold."""

import numpy as np
import pytest

from refemu.units.leankv.paged_attention import UNIT

FEW = ("long", "narrow", "f128", "f64")  #: rows of some kinds only


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_reach_one_token_and_full_tables(name: str) -> None:
    config = UNIT.configs[name]
    blocks = list(UNIT.cases(config, "edge", 0))
    pages = UNIT.unit_class(**config).layouts
    used = [
        -(-block.inputs["n_high"] // pages.high.tokens) - -block.inputs["n_low"] // pages.sections[1].tokens
        for block in blocks
    ]

    assert min(int((block.inputs["n_high"] + block.inputs["n_low"]).min()) for block in blocks) == 1
    assert max(int(cells.max()) for cells in used) == config["cells"]
    assert name in FEW or any(not (block.inputs["q"] & 0x7FFF).any() for block in blocks)


@pytest.mark.parametrize("name", UNIT.configs)
def test_outputs_are_finite_and_probabilities_sum_to_one(name: str) -> None:
    """Except in rows with values at the ends of fp16, whose outputs may be infinite."""
    config = UNIT.configs[name]
    for kind in ("paper", "edge"):
        for block in UNIT.cases(config, kind, 0):
            result = UNIT.evaluate(config, block.inputs)
            p = result.p.view(np.float32).reshape(len(result.p), config["heads"], -1)
            out = result.out.view(np.float16)
            assert not np.isnan(out).any() and (np.isfinite(out).all() or block.decision == "D-arith-2")
            assert np.abs(p.sum(axis=-1) - 1).max() < 2e-3


def test_partitions_are_among_them() -> None:
    config = UNIT.configs["diffkv"]
    device = UNIT.unit_class(**config)
    totals = [block.inputs["n_high"] + block.inputs["n_low"] for block in UNIT.cases(config, "edge", 0)]

    assert max(int(total.max()) for total in totals) > device.layouts.chunk(device.arithmetic)


@pytest.mark.parametrize(("name", "tokens", "held"), [("f128", 300, (32, 60)), ("f64", 484, (54, 96))])
def test_rows_of_whole_pages_hold_hundreds_of_tokens(name: str, tokens: int, held: tuple[int, int]) -> None:
    """One row for each seed; pages of 32 and 60, or 54 and 96 tokens, the last ones not full."""
    config = UNIT.configs[name]
    kinds = {kind: list(UNIT.cases(config, kind, 0)) for kind in ("paper", "edge", "random")}
    (row,), (three,) = kinds["random"], UNIT.cases(config, "random", range(3))
    counts = int(row.inputs["n_high"][0]), int(row.inputs["n_low"][0])

    assert not kinds["paper"]
    assert tuple(page.tokens for page in UNIT.unit_class(**config).layouts.sections) == held
    assert sum(counts) == tokens and counts[0] % held[0] and counts[1] % held[1]
    assert len(three.inputs["n_high"]) == 3 and np.array_equal(three.inputs["q"][0], row.inputs["q"][0])
    assert len(np.unique(three.inputs["q"], axis=0)) == 3


@pytest.mark.parametrize("end", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize("name", ["f128", "f64"])
def test_crowds_of_pages_share_probabilities_of_ones(name: str, end: int) -> None:
    """All tokens but one have the same p, whose bits over the rows are all ones; p of that one is another."""
    config = UNIT.configs[name]
    where = {0: "the first", -1: "the last"}[end]
    blocks = [block for block in UNIT.cases(config, "edge", 0) if f"all keys except {where}" in block.why]
    words = []
    for block in blocks:
        count = int(block.inputs["n_high"][0] + block.inputs["n_low"][0])
        p = UNIT.evaluate(config, block.inputs).p.reshape(config["heads"], -1)[:, :count]
        others = np.delete(p, end % count, axis=1)
        assert (others == others[:, :1]).all() and (p[:, end] != others[:, 0]).all()
        words.append(others[:, 0])

    assert (np.bitwise_or.reduce(words) == 0x3FFF_FFFF).all()


@pytest.mark.parametrize("name", ["f128", "f64"])
def test_scores_below_two_stay_if_nothing_added(name: str) -> None:
    config = UNIT.configs[name]
    blocks = [block for block in UNIT.cases(config, "edge", 0) if "just below 2" in block.why]
    assert len(blocks) == 2
    for block, end in zip(blocks, (0, -1), strict=True):
        count = int(block.inputs["n_high"][0] + block.inputs["n_low"][0])
        score = UNIT.evaluate(config, block.inputs).score[0, :count]
        assert (np.delete(score, end % count) == 0x3FFF_FFFF).all() and score[end] == 0x4040_0000
