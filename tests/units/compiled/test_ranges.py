"""Ranges hold every result of an operation on their values, and no more where both ends say it."""

import ast
import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refemu.units.compiled.ranges import OPERATIONS, Range, Real, Vector, join, of_constant

FEW = [Range(low, high) for low, high in itertools.combinations_with_replacement(range(-5, 6), 2)]


@pytest.mark.parametrize(
    ("kind", "operation"), [(ast.BitAnd, operator.and_), (ast.BitOr, operator.or_), (ast.BitXor, operator.xor)]
)
def test_bits_of_every_small_pair_are_within_bounds(
    kind: type[ast.operator], operation: Callable[[int, int], int]
) -> None:
    for a, b in itertools.product(FEW, FEW):
        values = [operation(x, y) for x in range(a.low, a.high + 1) for y in range(b.low, b.high + 1)]
        low, high = OPERATIONS[kind](a, b)
        assert low <= min(values) and max(values) <= high


@pytest.mark.parametrize(
    ("kind", "a", "b", "result"),
    [
        (ast.BitAnd, (1, 1), (1, 1), (1, 1)),
        (ast.BitAnd, (0, 1), (0, 0), (0, 0)),
        (ast.BitOr, (0, 1), (1, 1), (1, 1)),
        (ast.BitOr, (0, 0), (0, 0), (0, 0)),
    ],
)
def test_tests_that_a_constant_decides(kind: type[ast.operator], a: Any, b: Any, result: tuple[int, int]) -> None:
    assert OPERATIONS[kind](Range(*a), Range(*b)) == result


def test_an_integer_does_not_join_a_real_number() -> None:
    with pytest.raises(OverflowError, match="an integer or a real number"):
        join(Range(0, 1), Real(0.0, 1.0))


def test_constants_are_themselves() -> None:
    assert of_constant(np.array([[1, -2], [3, 4]])) == Vector(Vector(Range(-2, 4), 2), 2)
    assert of_constant((1, 5)) == (Range(1, 1), Range(5, 5))
