"""Integers with bounds: every operation against Python's, and demands where Python raises."""

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refemu.prove import terms
from refemu.prove.values import Int, Unsupported, integer, word

A, B = range(-5, 12), range(1, 7)
OPERATIONS: tuple[Callable[[Any, Any], Any], ...] = (
    *(operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor),
    *(operator.lshift, operator.rshift, operator.floordiv, operator.mod),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
    *(lambda a, b: abs(a) + b, lambda a, b: a.bit_length() + b, lambda a, b: -a * ~b, lambda a, b: 2**b + a),
)


def _variable(name: str, values: range) -> Int:
    return Int(terms.variable(name, 6), values[0], values[-1])


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
def test_operation_equals_python(number: int) -> None:
    operation = OPERATIONS[number]
    pairs = list(itertools.product(A, B))
    rows = {
        "a": np.array([a & 63 for a, _ in pairs], np.uint64),
        "b": np.array([b & 63 for _, b in pairs], np.uint64),
    }
    result = integer(operation(_variable("a", A), _variable("b", B)))
    (got,) = terms.evaluate([word(result, 24)], rows, len(pairs))
    assert [int(value) for value in got] == [int(operation(a, b)) & 0xFFFFFF for a, b in pairs]
    want = [int(operation(a, b)) for a, b in pairs]
    assert result.low <= min(want) and max(want) <= result.high


@pytest.mark.parametrize("operation", [operator.floordiv, operator.lshift])
def test_operation_that_may_raise_is_rejected(operation: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(Unsupported):
        operation(_variable("a", A), _variable("b", range(-3, 4)))


def test_symbolic_value_has_no_truth() -> None:
    with pytest.raises(Unsupported, match="depends on inputs"):
        bool(_variable("a", A))
