"""Loops: what a break or a continue leaves out stays as it was."""

import pytest

from tests.prove.text_runs import Text, require_equal, require_unsupported


def change_after_a_break(x: int) -> int:
    values = [0, 0]
    for at in range(2):
        if x > at:
            break
        values[0] = values[0] + 5
    return values[0]


def change_after_a_continue(x: int) -> int:
    values = [0, 0]
    for at in range(2):
        if x > at:
            continue
        values[at] = 1
    return values[0] * 2 + values[1]


def return_inside_a_loop(x: int) -> int:
    values = [0]
    for at in range(4):
        if at == x:
            return values[0] * 10 + at
        values[0] += 3
    return values[0]


def while_with_a_break(x: int) -> int:
    values, n = [0], 0
    while n < x:
        n += 1
        if n == 2:
            break
        values[0] = values[0] + 1
    return values[0] * 10 + n


def range_that_depends_on_inputs(x: int) -> int:
    total = 0
    for at in range(x):
        total += at
    return total


@pytest.mark.parametrize(
    "text",
    [
        change_after_a_break,
        change_after_a_continue,
        return_inside_a_loop,
        while_with_a_break,
        range_that_depends_on_inputs,
    ],
)
def test_loop_has_the_result_of_python(text: Text) -> None:
    require_equal(text)


def list_that_grows_after_a_break(x: int) -> int:
    values = [0]
    for at in range(2):
        if x > 3:
            break
        values.append(at)
    return len(values)


def test_list_that_grows_after_a_break_is_rejected() -> None:
    require_unsupported(list_that_grows_after_a_break)
