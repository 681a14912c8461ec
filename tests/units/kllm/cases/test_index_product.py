"""What the golden cases of index_product must hold."""

from refemu.units.kllm.index_product import UNIT


def test_paper_case_has_every_pair_once() -> None:
    """The products' indices are all 2^(nA + nB), each once."""
    for config in UNIT.configs.values():
        (block,) = UNIT.cases(config, "paper", 0)
        q = UNIT.evaluate(config, block.inputs).q.tolist()
        assert sorted(q) == list(range(1 << config["a_bits"] + config["b_bits"])) and q[0] == 1


def test_edges_have_outliers_of_either_side_and_overflow() -> None:
    """D-kllm-16."""
    results = [
        UNIT.evaluate(UNIT.configs["w4a4"], block.inputs) for block in UNIT.cases(UNIT.configs["w4a4"], "edge", 0)
    ]

    assert results[0].mask.tolist() == [True] * 3 and results[1].overflows == 1
