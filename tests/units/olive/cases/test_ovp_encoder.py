"""What the golden cases of the pair encoder must hold."""

from typing import Any

import numpy as np
import pytest

from refemu import formats
from refemu.units.olive.ovp_encoder import UNIT
from refemu.units.olive.ovp_encoder.cases import boundaries


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_reach_every_code(name: str) -> None:
    """Every pair of a legal outlier code and an identifier, and every normal code."""
    config = UNIT.configs[name]
    fmt: Any = formats.find(config["fmt"])
    words = np.concatenate([UNIT.evaluate(config, block.inputs).pair for block in UNIT.cases(config, "edge", 0)])
    codes = fmt.split(words)
    outliers = fmt.outlier.codes()
    legal = {int(code) for code in outliers if abs(int(fmt.outlier.decode(code))) <= fmt.outlier.largest}

    for lane in (0, 1):
        stored = codes[codes[:, 1 - lane] == fmt.normal.identifier, lane]
        assert {int(code) for code in stored} == legal
        assert {int(code) for code in codes[(codes != fmt.normal.identifier).all(axis=1), lane]} == {
            int(code) for code in fmt.normal.codes()
        }


def test_boundaries_hold_each_midpoint_with_both_neighbours() -> None:
    """D-olive-3 and both ends: T = 9.5, N = 7, M1 = 12, Mx = 96, a midpoint 14, for int4."""
    found = {float(value) for value in boundaries(formats.OVP_INT4)}

    for point in (0.5, 7, 9.5, 12, 14, 96):
        for end in (-np.inf, np.inf):
            near = float(np.nextafter(np.float32(point), np.float32(end)))
            assert {point, -point, near, -near} <= found


@pytest.mark.parametrize("name", ["int4", "flint4", "int4_repo", "flint4_repo"])
def test_sweep_reaches_every_pair_that_an_encoder_makes(name: str) -> None:
    """D-olive-5: two outliers in all orders; 225 pairs of normal values and 14 outliers on either side."""
    config = UNIT.configs[name]
    (block,) = UNIT.cases(config, "exhaustive", 0)
    values = block.inputs["value"].view(np.float32)
    found = np.unique(UNIT.evaluate(config, block.inputs).pair)

    assert len(np.unique(block.inputs["value"], axis=0)) == len(values) == len(np.unique(values[:, 0])) ** 2
    assert np.array_equal(found, formats.find(config["fmt"]).legal_pairs())  # type: ignore[union-attr]


def test_flags_follow_the_result() -> None:
    config = UNIT.configs["int4"]
    inputs = {"value": np.array([(1, 2), (48, 1), (200, 1), (10, 1)], np.float32).view(np.uint32)}
    marks = UNIT.mark(config, inputs, UNIT.evaluate(config, inputs)) if UNIT.mark else {}

    assert {flag: mark.tolist() for flag, mark in marks.items()} == {
        "OUTLIER": [False, True, True, True],
        "SATURATES": [False, False, True, False],
        "RAISED": [False, False, False, True],
    }
