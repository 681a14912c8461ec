"""Statements: assignments, branches and exceptions have Python's results, or are not run at all."""

import ast

import pytest

from refemu.prove.sources import tree_of
from refemu.prove.values import Unsupported
from tests.prove.text_runs import Text, require_equal, require_unsupported


def element_under_a_condition(x: int) -> int:
    values = {"a": 1}
    if x > 3:
        values["a"] += x
    return values["a"]


def list_of_two_names(x: int) -> int:
    a = [1, 2]
    b = a
    if x > 3:
        b[0] = 9
    return a[0]


def list_that_another_path_has_returned(x: int) -> int:
    def pair() -> tuple[list[int], int]:
        values = [0]
        if x > 2:
            return values, 1
        values[0] = 4
        return values, 2

    return pair()[0][0]


def raise_under_a_condition(x: int) -> int:
    if x > 5:
        raise ValueError
    return x + 1


def exchange_of_two_names(x: int) -> int:
    a, b = x, 3
    if a > b:
        a, b = b, a
    return a * 10 + b


def except_without_else(x: int) -> int:
    values: dict[str, int] = {}
    try:
        a = values["q"]
    except KeyError:
        a = x
    else:
        a = 9
    return a


def starred_target(x: int) -> int:
    a, *b = [x, 1, 2]
    return a + b[1]


def sum_at_an_index(x: int) -> int:
    values = [3, 1, 4, 1, 5, 9, 2, 6]
    if x > 2:
        values[x] *= x
    values[7 - x] += values[3]
    return sum(each << 8 * place for place, each in enumerate(values[:3]))


@pytest.mark.parametrize(
    "text",
    [
        element_under_a_condition,
        sum_at_an_index,
        list_of_two_names,
        list_that_another_path_has_returned,
        raise_under_a_condition,
        exchange_of_two_names,
        except_without_else,
        starred_target,
    ],
)
def test_statement_has_the_result_of_python(text: Text) -> None:
    require_equal(text)


def raise_inside_a_try(x: int) -> int:
    try:
        if x > 2:
            raise ValueError
    except ValueError:
        return 2
    return 1


def change_of_one_of_two_lists(x: int) -> int:
    a, b = [1, 2], [3, 4]
    c = a if x > 3 else b
    c[0] = 7
    return a[0] * 10 + b[0]


def change_of_an_element_that_is_a_list(x: int) -> int:
    rows = [[each] for each in range(8)]
    rows[x][0] = 9
    return rows[3][0]


def set_that_changes(x: int) -> int:
    values = {1, 2}
    other = values
    if x > 2:
        values |= {3}
    return len(other)


def set_that_grows_under_a_condition(x: int) -> int:
    values = {1, 2}
    if x > 2:
        values.add(3)
    return len(values)


@pytest.mark.parametrize(
    "text",
    [
        raise_inside_a_try,
        change_of_one_of_two_lists,
        change_of_an_element_that_is_a_list,
        set_that_changes,
        set_that_grows_under_a_condition,
    ],
)
def test_statement_without_terms_is_rejected(text: Text) -> None:
    require_unsupported(text)


def test_two_like_lambdas_of_one_line_have_no_known_source() -> None:
    both = lambda x: x + 1, lambda x: x + 2
    alone = lambda x: x + 3  # noqa: E731

    assert ast.unparse(tree_of(alone)) == "lambda x: x + 3"
    with pytest.raises(Unsupported, match="source is not known"):
        tree_of(both[1])
