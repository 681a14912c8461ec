"""Changed roundings, compared with exact fractions, and primitives that are restored."""

from fractions import Fraction

import numpy as np
import pytest

from refemu.arith import dot, fp16, integers, rounding, sums, tables
from refemu.golden.explain.search import Search
from refemu.golden.faults import rounding as wrong_rounding
from tests.golden.explain import made
from tests.golden.grade import plain


def neighbours(x: Fraction) -> tuple[Fraction, Fraction]:
    """The fp16 values around x > 0; both are x if it is one."""
    quantum = Fraction(1, 1 << 24)
    while x >= 2048 * quantum:
        quantum *= 2
    low = x // quantum * quantum
    return low, low if low == x else low + quantum


def rounded(rule: str, value: float) -> float:
    """A finite float rounded to fp16, by fractions."""
    sign, x = (-1 if value < 0 else 1), abs(Fraction(value))
    low, high = neighbours(x)
    quantum = high - low
    if rule == "truncate" or not quantum:
        picked = low
    elif rule == "odd":
        picked = low if low / quantum % 2 == 1 else high
    elif x - low != high - x:
        picked = low if x - low < high - x else high
    elif rule in ("half_away", "half_up", "half_down"):
        picked = high if rule == "half_away" or (sign > 0) == (rule == "half_up") else low
    else:
        picked = low if low / quantum % 2 == 0 else high
    if rule == "flush" and picked < Fraction(1, 1 << 14):
        picked = Fraction(0)
    return float(sign * picked)


VALUES = np.concatenate(
    [
        np.array([sign * (base + part) * 2.0**power for part in (0, 0.25, 0.5, 0.75, 1)])
        for sign in (1, -1)
        for base in (0, 1, 2, 1024, 1025, 2046)
        for power in (-24, -15, -5, 0, 4)
    ]
)


@pytest.mark.parametrize("rule", ["truncate", "half_away", "half_up", "half_down", "odd", "flush", "saturate"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rules_agree_with_fractions(rule: str, dtype: type) -> None:
    got = wrong_rounding.rounded16(rule, VALUES.astype(dtype), fp16.IEEE)

    assert got.dtype == np.float32
    assert got.tolist() == [rounded(rule, value) for value in VALUES.tolist()]


def test_rules_differ_at_ties_and_limits() -> None:
    even = fp16.round16_of_f64(VALUES)
    differ = {
        rule: int(np.count_nonzero(wrong_rounding.rounded16(rule, VALUES, fp16.IEEE) != even))
        for rule in ("truncate", "half_away", "half_up", "half_down", "odd", "flush")
    }
    assert all(differ.values()), differ
    large = np.array([65519.0, 65520.0, -70000.0])
    assert wrong_rounding.rounded16("saturate", large, fp16.IEEE).tolist() == [65504.0, 65504.0, -65504.0]


def test_unit_has_faults_of_its_primitives() -> None:
    before = fp16._round, rounding.require_mode, sums.reduce, dot.reduce, dot._arithmetic, integers.wrap
    answers = plain.committed("fp2half-paper")
    faults = plain.by_id(wrong_rounding.faults, answers)

    rules = ("truncate", "half_away", "half_up", "half_down", "odd", "flush", "saturate")
    assert set(faults) == {*(f"fp16/{rule}" for rule in rules), "fp16/truncate/overflow", "fp16/saturate/finite"}
    assert all(fault.wrong(answers).any() for fault in faults.values())
    assert plain.by_id(wrong_rounding.faults, plain.committed("concat-a4")) == {}
    assert before == (fp16._round, rounding.require_mode, sums.reduce, dot.reduce, dot._arithmetic, integers.wrap)


def test_sum_orders_and_fusing_are_replaced() -> None:
    terms = [np.float32(each) for each in (1.0, 2.0**24, 1.0, -(2.0**24), 1.0)]
    start = np.float32(0)
    right = sums.reduce(sums.Sequential(), terms, start, np.add)
    other = {
        name: wrong_rounding._reordered(order, sums.Sequential(), terms, start, np.add)
        for name, order in wrong_rounding._ORDERS.items()
    }
    assert right == 1.0 and [float(total) for total in other.values()] == [3.0, 2.0, 3.0, 2.0]


@pytest.mark.parametrize(("rule", "id"), [("truncate", "rounding"), ("saturate", "saturate"), ("flush", "flush")])
def test_function_table_with_other_rounding_is_named(rule: str, id: str) -> None:
    rows = made.golden("functional", "exp")
    arrays = made.outputs(rows)
    with np.errstate(all="ignore"):
        exact = tables.exact16("exp")[rows.arrays["in.x"].astype(np.int64)]
        arrays["out.y"][...] = fp16.bits(fp16.canonical(fp16.narrow(wrong_rounding.rounded16(rule, exact, fp16.IEEE))))
    best = Search(made.table(rows, arrays)).run()[0]

    assert (arrays["out.y"] != rows.arrays["out.y"]).any()
    assert [fault.name for fault in best.story.guesses] == [id] and best.score.perfect


def test_overflow_to_the_largest_number_keeps_infinite_operands() -> None:
    x = np.array([7e4, -np.inf, 1.0], np.float32)
    assert wrong_rounding._finite(x, fp16.IEEE).tolist() == [fp16.MAX, -np.inf, 1.0]
    assert wrong_rounding._infinite("truncate", x, fp16.IEEE).tolist() == [np.inf, -np.inf, 1.0]
