"""Rows, lanes and ports in another order."""

from collections.abc import Callable

import numpy as np
import pytest

from refemu.golden.explain import wiring
from refemu.golden.explain.guess import Guess
from refemu.golden.files.sets import Golden
from tests.golden.explain import made


def repeating(rows: Golden, arrays: made.Arrays) -> list[Guess]:
    """Guesses that give the device's answers in all rows except the first ones."""
    table = made.table(rows, arrays)
    kept = []
    for guess in wiring.guesses(table, dict(table.want)):
        assert guess.change is not None
        words = guess.change(table, dict(table.want))
        unlike = [(table.unlike(name, words[name]) != 0).any(axis=1) for name in table.ports]
        if np.count_nonzero(np.any(unlike, axis=0)) <= 2:
            kept.append(guess)
    return kept


def permuted(order: list[int]) -> Callable[[made.Arrays], made.Arrays]:
    return lambda arrays: {name: array[:, order] if array.ndim > 1 else array for name, array in arrays.items()}


def test_late_and_early_rows_are_guessed() -> None:
    rows = made.golden("ovp_decoder", "int4")
    for late in (2, -1):
        shifted = {name: np.roll(array, late, axis=0) for name, array in made.outputs(rows).items()}
        (guess,) = (each for each in repeating(rows, shifted) if each.id == "row_shift")
        assert guess.parameters == {"rows": late}


def test_late_rows_within_cases_are_guessed() -> None:
    rows = made.golden("olive_mac", "wrap")
    arrays = made.outputs(rows)
    for name, array in made.outputs(rows).items():
        for row in range(1, rows.rows):
            if rows.case(row) == rows.case(row - 1):
                arrays[name][row] = array[row - 1]
    assert {"rows": 1} in [guess.parameters for guess in repeating(rows, arrays) if guess.id == "row_shift"]


@pytest.mark.parametrize("order", [[7, 6, 5, 4, 3, 2, 1, 0], [1, 0, 3, 2, 5, 4, 7, 6], [0, 1, 2, 4, 3, 5, 6, 7]])
def test_reordered_lanes_are_guessed(order: list[int]) -> None:
    rows = made.golden("bfp_aligner", "paper")
    named = repeating(rows, permuted(order)(made.outputs(rows)))
    assert order in [guess.parameters["permutation"] for guess in named if guess.id == "lane_permutation"]


def test_dead_and_copied_lanes_are_guessed() -> None:
    rows = made.golden("bfp_aligner", "paper")
    arrays = {name: array for name, array in made.outputs(rows).items() if name == "out.mantissa"}
    dead = {"out.mantissa": arrays["out.mantissa"].copy()}
    dead["out.mantissa"][:, 3] = 0
    assert [guess.lanes for guess in repeating(rows, dead) if guess.id == "lane"] == [(3,)]
    copied = {"out.mantissa": arrays["out.mantissa"].copy()}
    copied["out.mantissa"][:, 3] = copied["out.mantissa"][:, 5]
    assert (3,) in [guess.lanes for guess in repeating(rows, copied) if guess.id == "lane"]


def test_exchanged_ports_are_guessed() -> None:
    rows = made.golden("orizuru", "n8")
    arrays = made.outputs(rows)
    arrays["out.root_max"], arrays["out.root_min"] = arrays["out.root_min"], arrays["out.root_max"]
    named = [guess.parameters for guess in repeating(rows, arrays) if guess.id == "port_swap"]
    assert named == [{"ports": ["root_max", "root_min"]}]


def test_changed_inputs_are_guessed() -> None:
    rows = made.golden("ovp_decoder", "int4")
    table = made.table(rows, made.outputs(rows))
    inputs = table.groups[0].inputs
    seen = {(guess.id, guess.parameters.get("port")): guess for guess in wiring.stimuli(table)}
    swapped = seen["nibble_swap", "pair"].stimulus
    late = seen["row_shift", "pair"].stimulus
    assert swapped and late
    pair = np.asarray(inputs["pair"])
    assert (swapped(table, 0, inputs)["pair"] == (pair >> 4 | (pair & 15) << 4)).all()
    assert (late(table, 0, inputs)["pair"][1:] == pair[:-1]).all()
