"""Guesses of changed arithmetic."""

import numpy as np
import pytest

from refemu.arith import fp16, tables
from refemu.golden.explain import arithmetic
from refemu.golden.explain.search import Search
from refemu.golden.grade import rounding
from tests.golden.explain import made


def ids(unit: str, config: str) -> set[str]:
    rows = made.golden(unit, config)
    return {guess.id for guess in arithmetic.guesses(made.table(rows, made.outputs(rows)))}


def test_guesses_use_the_units_arithmetic() -> None:
    assert ids("fp16_mac", "paper") >= {"rounding", "flush", "saturate"}
    assert ids("ovp_decoder", "int4") == set()


@pytest.mark.parametrize(("rule", "id"), [("truncate", "rounding"), ("saturate", "saturate"), ("flush", "flush")])
def test_differently_rounded_function_table_is_named(rule: str, id: str) -> None:
    rows = made.golden("functional", "exp")
    arrays = made.outputs(rows)
    with np.errstate(all="ignore"):
        exact = tables.exact16("exp")[rows.arrays["in.x"].astype(np.int64)]
        arrays["out.y"][...] = fp16.bits(fp16.canonical(fp16.narrow(rounding.rounded16(rule, exact, fp16.IEEE))))
    best = Search(made.table(rows, arrays)).run()[0]

    assert (arrays["out.y"] != rows.arrays["out.y"]).any()
    assert [guess.id for guess in best.story.guesses] == [id] and best.score.perfect


def test_overflow_to_the_largest_number_keeps_infinite_operands() -> None:
    x = np.array([7e4, -np.inf, 1.0], np.float32)
    assert arithmetic._finite(x, fp16.IEEE).tolist() == [fp16.MAX, -np.inf, 1.0]
    assert arithmetic._infinite("truncate", x, fp16.IEEE).tolist() == [np.inf, -np.inf, 1.0]
