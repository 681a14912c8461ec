"""The rows for explanations."""

import numpy as np
import pytest

from refemu.golden.compare import answer_files
from refemu.golden.explain import table as tables
from tests.golden.explain import made


def test_every_row_occurs_once() -> None:
    rows = made.golden("olive_mac", "wrap")
    table = made.table(rows, made.outputs(rows))

    assert np.sort(table.rows, kind="stable").tolist() == list(range(rows.rows))
    assert (table.place(table.rows) == np.arange(rows.rows)).all()
    assert {group.rows.shape[1] for group in table.groups} == {entry["rows"] for entry in rows.manifest["cases"]}
    assert (table.want["out.acc"][:, 0] == rows.arrays["out.acc"][table.rows]).all()


def test_cases_begin_as_in_the_set() -> None:
    rows = made.golden("olive_mac", "wrap")
    table = made.table(rows, made.outputs(rows))
    every = np.arange(rows.rows)
    assert table.first(every).tolist() == [rows.case(row) for row in every.tolist()]


def test_sample_has_wrong_cases_and_neighbours_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS", 60)
    rows = made.golden("fp16_mac", "paper", ("paper", "random"))
    wrong = np.zeros(rows.rows, np.bool_)
    wrong[[101, 500, 900]] = True
    sample = tables.sample(rows, answer_files.Answer(made.outputs(rows), {}), wrong)

    assert {99, 100, 101, 498, 499, 500, 900} <= set(sample.rows.tolist())
    assert len(sample.rows) <= 60 + tables.NEIGHBOURS


def test_a_screen_has_wrong_rows() -> None:
    rows = made.golden("fp16_mac", "paper", ("paper", "random"))
    table = made.table(rows, made.outputs(rows))
    wrong = np.zeros(rows.rows, np.bool_)
    wrong[table.place(np.array([700]))] = True
    few = tables.screen(table, wrong)
    assert 700 in few.rows.tolist() and len(few.rows) <= rows.rows // tables.PART


def test_pieces_have_every_case_once() -> None:
    rows = made.golden("olive_mac", "wrap")
    table = made.table(rows, made.outputs(rows))
    cases = np.concatenate([piece.cases for piece in tables.pieces(rows, table.answer, 300, table.cases[:0])])
    assert cases.tolist() == table.cases.tolist()


def test_masked_bits_do_not_differ() -> None:
    rows = made.golden("bfp_aligner", "paper")
    arrays = made.outputs(rows)
    name = "out.mantissa"
    arrays[name][rows.arrays[f"{name}.care"] == 0] ^= 1
    table = made.table(rows, arrays)
    assert (rows.arrays[f"{name}.care"] == 0).any() and not table.unlike(name, table.want[name]).any()
