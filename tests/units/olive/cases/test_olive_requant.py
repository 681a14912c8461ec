"""What the golden cases of the output stage must hold."""

from typing import Any

import numpy as np
import pytest

from refemu import formats
from refemu.units.olive.olive_requant import UNIT, cases

KINDS: tuple[Any, ...] = ("paper", "edge", "random")


def results(name: str) -> list[tuple[Any, Any]]:
    config = UNIT.configs[name]
    return [(case.inputs, UNIT.evaluate(config, case.inputs)) for kind in KINDS for case in UNIT.cases(config, kind, 0)]


@pytest.mark.parametrize("name", UNIT.configs)
def test_edges_reach_every_code_of_either_lane(name: str) -> None:
    """Every outlier next to an identifier at the left, and at the right if there are few; every normal code."""
    fmt: Any = formats.find(UNIT.configs[name]["fmt"])
    codes = fmt.split(np.concatenate([result.pair for _, result in results(name)]))
    legal = {int(code) for code in fmt.outlier.codes() if abs(int(fmt.outlier.decode(code))) <= fmt.outlier.largest}

    for lane in (0, 1):
        stored = {int(code) for code in codes[codes[:, 1 - lane] == fmt.normal.identifier, lane]}
        assert stored <= legal and (stored == legal or (lane and len(stored) > len(legal) // 4))
    assert {int(code) for code in codes[(codes != fmt.normal.identifier).all(axis=1), 0]} == {
        int(code) for code in fmt.normal.codes()
    }


@pytest.mark.parametrize("name", UNIT.configs)
def test_ends_of_every_port_and_register_are_reached(name: str) -> None:
    """2**24 + 1, both ends of int32, infinite outputs, subnormal words, zeros of both signs, scales at their ends."""
    acc, y, scaled, rescale, scales = set(), set(), set(), set(), set()
    for inputs, result in results(name):
        acc |= set(inputs["acc"].reshape(-1).tolist())
        y |= set(result.y.reshape(-1).tolist())
        scaled |= set(result.scaled.reshape(-1).tolist())
        rescale |= set(result.rescale.reshape(-1).tolist())
        scales |= {int(word) for port in ("scale_a", "scale_w", "scale_next") for word in inputs[port].reshape(-1)}

    assert {(1 << 24) + 1, (1 << 31) - 1, -(1 << 31), 0} <= acc
    assert {0x7C00, 0xFC00, 0x7BFF, 0, 0x8000, 1, 0x0400} <= y
    assert {0x7F800000, 0xFF800000, 0, 0x80000000} <= scaled
    assert 0 in rescale and any(0 < word < 0x00800000 for word in rescale)
    assert {0x00800000, 0x7F7FFFFF} <= scales


def test_targets_are_reached_as_quotients() -> None:
    targets = np.array([0, 9.5, -96, 411616, np.nextafter(np.float32(20), np.float32(0))], np.float32)
    words, scales = cases._reached(targets)

    assert (words.astype(np.float32) / scales).tolist() == targets.tolist()


@pytest.mark.parametrize("middle", [2049, 2051])
def test_products_next_to_middle_round_onto_it(middle: int) -> None:
    found = cases._beside(middle)

    assert len(found) == 4
    for acc, scale in found:
        assert acc * scale != middle and np.float32(acc * scale) == middle


def test_flags_follow_the_result() -> None:
    config = UNIT.configs["int4"]
    ones = np.full((4, 2), 0x3F800000)
    inputs = {
        "acc": np.array([(1, 2), ((1 << 24) + 1, 3), (65520, 0), (48, 0)]),
        "scale_a": np.array([0x33000000, 0x33800000, 0x3F800000, 0x3F800000]),  # 2**-25, 2**-24, 1, 1
        "scale_w": ones,
        "bias": np.full((4, 2), 0x8000),
        "scale_next": ones[:, 0],
    }
    marks = UNIT.mark(config, inputs, UNIT.evaluate(config, inputs)) if UNIT.mark else {}

    assert {flag: mark.tolist() for flag, mark in marks.items()} == {
        "OUTLIER": [False, False, True, True],
        "INEXACT": [False, True, False, False],
        "OVERFLOW": [False, False, True, False],
        "SUBNORMAL": [True, True, False, False],
    }
