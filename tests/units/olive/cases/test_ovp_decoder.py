"""What the golden cases of the pair decoder must hold."""

import numpy as np
import pytest

from refemu.units.olive.ovp_decoder import UNIT


@pytest.mark.parametrize("name", ["int4", "flint4"])
def test_exhaustive_has_every_byte_at_every_bias(name: str) -> None:
    (block,) = UNIT.cases(UNIT.configs[name], "exhaustive", 0)
    words = block.inputs["pair"] << 4 | block.inputs["bias"]

    assert (words[0], sorted(words.tolist())) == (0x852, list(range(4096)))


@pytest.mark.parametrize(("name", "bias"), [("int8", 4), ("int8_repo", 2)])
def test_exhaustive_8_bit_has_every_word_at_bias(name: str, bias: int) -> None:
    (block,) = UNIT.cases(UNIT.configs[name], "exhaustive", 0)

    assert sorted(block.inputs["pair"].tolist()) == list(range(1 << 16))
    assert set(block.inputs["bias"].tolist()) == {bias}


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_have_illegal_pairs_at_every_bias(name: str) -> None:
    config = UNIT.configs[name]
    width = 4 if config["outlier"] == (2, 1) else 8
    edge = list(UNIT.cases(config, "edge", 0))
    words = {int(word) for block in edge for word in block.inputs["pair"] << 4 | block.inputs["bias"]}
    mark = 1 << (width - 1)

    assert {pair << 4 | bias for pair in (mark, mark << width, mark << width | mark) for bias in range(16)} <= words
    assert {code << 4 | 15 for code in (mark << width | 2 * mark - 2, (2 * mark - 2) << width | mark)} <= words


def test_flags_follow_the_pair() -> None:
    """D-olive-18, D-olive-19, D-olive-20 are filtered by flag."""
    config = UNIT.configs["int4"]
    inputs = {"pair": np.array([0xD5, 0x85, 0x08, 0x86, 0x68]), "bias": np.array([2, 2, 2, 13, 12])}
    result = UNIT.run(inputs["pair"], inputs["bias"])
    marks = UNIT.mark(config, inputs, result) if UNIT.mark else {}

    assert {flag: mark.tolist() for flag, mark in marks.items()} == {
        "ILLEGAL": [False, False, True, False, False],
        "VICTIM": [False, True, True, True, True],
        "WRAPPED": [False, False, False, True, False],
        "UNSPECIFIED": [False, True, True, True, True],
    }
