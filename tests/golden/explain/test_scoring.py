"""Scores by hand."""

import numpy as np

from refemu.golden.explain.guess import Prediction, Story
from refemu.golden.explain.scoring import cells, lanes_better, score
from tests.golden.explain import made


def test_wrong_word_costs_its_bits_and_place() -> None:
    rows = made.golden("ovp_decoder", "int4")
    arrays = made.outputs(rows)
    arrays["out.exponent"][5, 1] ^= 3
    table = made.table(rows, arrays)
    right = Prediction(Story(), dict(table.want), np.ones(rows.rows, np.bool_))
    place = (rows.rows * 5 - 1).bit_length()  # exponent and base_int of two lanes, illegal

    assert cells(table) == rows.rows * 5
    assert score(table, right).cost == place + table.ports["out.exponent"].bits
    assert np.flatnonzero(score(table, right).rows_wrong).tolist() == table.place(np.array([5])).tolist()


def test_changed_and_corrected_cells_are_counted() -> None:
    rows = made.golden("ovp_decoder", "int4")
    arrays = made.outputs(rows)
    arrays["out.exponent"][:8, 0] ^= 1
    table = made.table(rows, arrays)
    words = {name: array.copy() for name, array in table.want.items()}
    words["out.exponent"][table.place(np.arange(10)), 0] ^= 1
    known = np.ones(rows.rows, np.bool_)

    rated = score(table, Prediction(Story(), words, known))
    assert (rated.changed, rated.put_right, int(rated.rows_wrong.sum())) == (10, 8, 2)
    known[table.place(np.array([9]))] = False  # a row that is invalid for the device does not count
    assert score(table, Prediction(Story(), words, known)).changed == 9


def test_lanes_that_improve_are_found() -> None:
    rows = made.golden("ovp_decoder", "int4")
    arrays = made.outputs(rows)
    arrays["out.exponent"][:, 1] ^= 1
    table = made.table(rows, arrays)
    words = {**table.want, "out.exponent": table.want["out.exponent"] ^ 1}
    assert lanes_better(table, words, table.want)[2].tolist() == [rows.rows, -rows.rows]
