"""Functions of containers have Python's results, or are not run."""

import pytest

from tests.prove.text_runs import Text, require_equal, require_unsupported


def extremes_with_equal_keys(x: int) -> int:
    pairs = [(x, 1), (3, 2)]
    return max(pairs, key=lambda pair: pair[0])[1] + 10 * min(pairs, key=lambda pair: pair[0])[1]


def extremes_of_a_selection(x: int) -> int:
    return max([each for each in range(8) if each != x]) * 10 + min((at for at in range(4) if at > x), default=7)


def stable_sort(x: int) -> int:
    pairs = sorted([(x, 1), (3, 2), (3, 3)], key=lambda pair: pair[0], reverse=True)
    return pairs[0][1] * 100 + pairs[1][1] * 10 + pairs[2][1]


def count_and_index(x: int) -> int:
    return [1, 3, 3, x].count(3) + 10 * [7, x, 5, 5].index(5)


def index_that_may_be_missing(x: int) -> int:
    return [1, x].index(2)


def get_with_a_default(x: int) -> int:
    return {0: 5, 1: 6, 2: 7}.get(x, 9)


def next_of_a_selection(x: int) -> int:
    return next((each for each in range(6) if each * each >= x), 9)


def any_all_and_sum(x: int) -> int:
    return int(any(x == each for each in (1, 3))) + 2 * all(x > each for each in (1, 2)) + 4 * sum([x, x > 1, 3])


def entries_that_may_be_missing(x: int) -> int:
    now = {"a": 1, "b": 2}
    now |= {"c": x, "b": 7} if x > 2 else {"d": 5}
    if x > 5:
        now["e"] = 9
    return now["b"] + 10 * now.get("c", 8) + 100 * ("d" in now) + 1000 * now.get("e", x)


def entry_that_is_missing(x: int) -> int:
    now = {"a": x}
    now |= {"b": 3} if x > 4 else {}
    return now["b"] + now["a"]


def union_of_dicts_that_lack_keys(x: int) -> int:
    found = {"a": 5} | ({"a": x} if x > 3 else {"b": x}) | ({"c": 1} if x == 2 else {})
    return found["a"] + 10 * found.get("b", 9) + 100 * found.get("c", 4)


def size_of_a_dict_that_may_lack_keys(x: int) -> int:
    now = {"a": 1}
    if x > 2:
        now["b"] = 2
    return len(now)


def keys_of_a_dict_that_may_lack_one(x: int) -> int:
    now = {"a": 1} | ({"b": x} if x > 2 else {})
    return sum(now.values())


def part_of_fixed_length(x: int) -> int:
    values = [0, 3, 1, 4, 1, 5, 9, 2, 6]
    place = (x + 1) & 3
    values[place * 2 : (place + 1) * 2] = [x, 7]
    return sum([at * each for at, each in enumerate(values[place : place + 3])])


def lists_that_zip_rejects(x: int) -> int:
    values = [1, 2, 3] if x > 5 else [1, 2]
    return sum([a * b for a, b in zip(values, (x, 2), strict=True)])


def kinds(x: int) -> int:
    return int(isinstance(x > 3, bool)) + 2 * int(isinstance(x, bool)) + 4 * int(isinstance(x, int))


def member_and_extreme_of_a_set(x: int) -> int:
    return int(2 in {x, 3}) + max({x, 3})


def extremes_that_bound_a_loop(x: int) -> int:
    return sum([each * each for each in range(min(x * x, 5))]) + 100 * len(range(max(x, 6)))


def numbers_from_a_start(x: int) -> int:
    return sum([at * each for at, each in enumerate([3, x, 5], x)])


def selection_with_more(x: int) -> int:
    kept = [at for at in range(6) if at > x]
    return len([*kept, 9]) + 10 * max([*kept, x]) + 100 * len([each for each in kept if each > 4])


def first_of_a_selection(x: int) -> int:
    kept = [at for at in range(8) if at * at >= x]
    return kept[0] * 10 + (kept[0] if kept else 5)


@pytest.mark.parametrize(
    "text",
    [
        extremes_that_bound_a_loop,
        numbers_from_a_start,
        selection_with_more,
        first_of_a_selection,
        extremes_with_equal_keys,
        extremes_of_a_selection,
        stable_sort,
        count_and_index,
        index_that_may_be_missing,
        get_with_a_default,
        next_of_a_selection,
        any_all_and_sum,
        entries_that_may_be_missing,
        entry_that_is_missing,
        union_of_dicts_that_lack_keys,
        part_of_fixed_length,
        lists_that_zip_rejects,
        kinds,
        member_and_extreme_of_a_set,
    ],
)
def test_function_has_the_result_of_python(text: Text) -> None:
    require_equal(text)


def next_under_a_condition(x: int) -> int:
    values = iter([1, 2, x])
    if x > 3:
        next(values)
    return next(values)


def second_element_of_a_generator(x: int) -> int:
    values = (each + x for each in range(3))
    return next(values) + 10 * next(values)


def size_of_a_set(x: int) -> int:
    return len({x, 3})


def sum_of_a_set(x: int) -> int:
    return sum({x, 3})


def comparison_of_sets(x: int) -> int:
    return int({x, 3} == {3, 5})


def sum_of_floats(x: int) -> int:
    return int(sum([x * 0.1, 0.2, 0.3]) > 1)


@pytest.mark.parametrize(
    "text",
    [
        size_of_a_dict_that_may_lack_keys,
        keys_of_a_dict_that_may_lack_one,
        next_under_a_condition,
        second_element_of_a_generator,
        size_of_a_set,
        sum_of_a_set,
        comparison_of_sets,
        sum_of_floats,
    ],
)
def test_function_without_terms_is_rejected(text: Text) -> None:
    require_unsupported(text)
