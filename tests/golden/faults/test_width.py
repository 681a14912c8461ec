"""Registers with fewer bits, compared with a multiply-accumulate unit in plain Python."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from refemu.golden.faults import width
from refemu.golden.grade import stepping
from refemu.golden.grade.answers import Answers
from refemu.units.ports import Port
from tests.golden.grade import plain


def signed(word: int, bits: int) -> int:
    return (word & ((1 << bits) - 1)) - ((word >> (bits - 1) & 1) << bits) if bits else 0


def first_wrong(answers: Answers, bits: int) -> int:
    """The first row in which an accumulator of `bits` bits differs from the set, -1 for none."""
    row = 0
    for block in answers.blocks:
        stimulus: dict[str, Any] = {
            name[3:]: array.tolist() for name, array in block.arrays.items() if name[:3] == "in."
        }
        for case, want in enumerate(block.arrays["out.acc"].tolist()):
            acc = 0
            for event, word in enumerate(want):
                load, start, shift, a, b = (
                    stimulus["load"][case][event],
                    stimulus["acc_in"][case][event],
                    stimulus["a_exp"][case][event] + stimulus["b_exp"][case][event],
                    signed(stimulus["a_int"][case][event], 4),
                    signed(stimulus["b_int"][case][event], 4),
                )
                exact = signed(start, 32) if load else acc + (a * b << shift)
                acc = signed(signed(exact, 32), bits)
                if acc != signed(word, 32):
                    return row
                row += 1
    return -1


def test_narrow_accumulator_agrees_with_plain_python() -> None:
    answers = plain.committed("olive_mac-wrap")
    faults = plain.by_id(width.faults, answers)

    assert list(faults) == [f"narrowed/acc/{bits}" for bits in range(32)]
    for bits in (0, 1, 8, 16, 31):
        wrong = faults[f"narrowed/acc/{bits}"].wrong(answers)
        assert np.flatnonzero(wrong)[0] == first_wrong(answers, bits) >= 0


def test_undetected_width_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = plain.committed("olive_mac-wrap")
    small = Answers(whole.unit, whole.config, [whole.blocks[0].pick(np.arange(1))])  # 48 * 5 = 240
    faults = list(width.faults(small))
    outcomes = [fault.wrong(small).any() for fault in faults[:10]]
    assert outcomes == [True] * 9 + [False]  # 240 needs nine bits with its sign

    monkeypatch.setattr(stepping, "wrong", lambda *args: pytest.fail("it runs"))
    assert not any(fault.wrong(small).any() for fault in faults[10:])


def test_narrowing_keeps_low_bits_and_their_sign() -> None:
    @dataclasses.dataclass(frozen=True)
    class Pair:
        x: Any

    same = Pair(5)
    assert width.held(Port("x", 8), 3, same) is same
    assert width.held(Port("x", 8, 2, signed=True), 3, Pair((4, -5))).x == (-4, 3)


@pytest.mark.parametrize(("value", "signed", "bits"), [(0, True, 0), (-1, True, 1), (5, False, 3), ((4, -9), True, 5)])
def test_bits_that_a_value_needs(value: Any, signed: bool, bits: int) -> None:
    port = Port("x", 8, 2, signed=signed)
    assert width._needed(port, value) == (1 if value == -1 else bits)
    held = [width._low(port, width._needed(port, value), each) for each in np.atleast_1d(value).tolist()]
    assert held == np.atleast_1d(value).tolist()
