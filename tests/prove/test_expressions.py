"""Expressions: selections, identity and names that expressions assign have Python's results, or are not run."""

import functools

import pytest

from tests.prove.text_runs import Text, require_equal, require_unsupported


def selection_as_a_test(x: int) -> int:
    return 1 if [each for each in range(4) if x > each] else 0


def identity_of_a_truth_value(x: int) -> int:
    above = x > 2
    return (above is True) + 2 * (True is above) + 4 * (above is None)


def name_assigned_behind_and(x: int) -> int:
    y = 1
    return int(x > 2 and (y := 5) > 3) + 10 * y


def name_assigned_in_a_choice(x: int) -> int:
    y = 1
    z = (y := 5) if x > 2 else 3
    return y * 10 + z


def chained_comparison(x: int) -> int:
    return int(1 < x <= 4)


def order_of_tuples(x: int) -> int:
    return int((x, 2) < (3, 1)) + 2 * int([x] < [x, 0]) + 4 * int((3, x) >= (3, 3)) + 8 * int((x,) <= (4,))


def operands_of_or(x: int) -> int:
    return (x or 7) * 100 + (x and 3)


def negative_index(x: int) -> int:
    return [1, 2, 3][-x] if x and x < 4 else 0


@functools.cache
def table(length: int, way: int) -> tuple[int, ...]:
    return tuple(10 * each + way for each in range(length))


def entry_of_a_cached_table(x: int) -> int:
    return table(x // 2, x & 1)[x // 2 - 1]


def key_that_may_be_missing(x: int) -> int:
    return {1: 3, 2: 5}[x]


@pytest.mark.parametrize(
    "text",
    [
        selection_as_a_test,
        identity_of_a_truth_value,
        name_assigned_behind_and,
        name_assigned_in_a_choice,
        chained_comparison,
        order_of_tuples,
        operands_of_or,
        negative_index,
        entry_of_a_cached_table,
        key_that_may_be_missing,
    ],
)
def test_expression_has_the_result_of_python(text: Text) -> None:
    require_equal(text)


def member_of_a_selection(x: int) -> int:
    return int(2 in [each for each in range(4) if x > each])


def sum_of_a_selection_and_a_list(x: int) -> int:
    return len([each for each in range(4) if x > each] + [1])


def comparison_of_a_selection(x: int) -> int:
    return int([each for each in range(4) if x > each] == [0, 1])


def set_of_a_selection(x: int) -> int:
    return len({each // 2 for each in range(4) if x > each})


def identity_of_numbers(x: int) -> int:
    y = 2
    return int(x is y)


def name_assigned_in_a_comprehension(x: int) -> int:
    y = 1
    return sum([(y := each) for each in range(3)]) + x + y


def argument_by_keyword_only(x: int) -> int:
    k = 7
    return (lambda a, *, k=3: a + k)(x) + k


@pytest.mark.parametrize(
    "text",
    [
        member_of_a_selection,
        sum_of_a_selection_and_a_list,
        comparison_of_a_selection,
        set_of_a_selection,
        identity_of_numbers,
        name_assigned_in_a_comprehension,
        argument_by_keyword_only,
    ],
)
def test_expression_without_terms_is_rejected(text: Text) -> None:
    require_unsupported(text)
