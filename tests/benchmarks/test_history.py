"""Records of runs: their form, the table, the drawing."""

import importlib.util

import fastjsonschema
import pytest

from benchmarks import history
from benchmarks.__main__ import main
from tests.benchmarks.factory import CONTEXT, row


@pytest.fixture
def file(tmp_path):
    """Three runs of two rows with a goal and one without."""
    path = tmp_path / "deep" / "history.jsonl"
    for ratio in (0.5, 1.0, 2.0):
        rows = [row(ratio=ratio), row("PERF-2", ratio), row("PERF-3", ratio, 0.0)]
        history.append(path, CONTEXT, [one.record() for one in rows])
    return path


def test_rows_come_back_as_they_were(file):
    records = history.read(file)

    assert len(records) == 9
    assert history.row_of(records[0]["row"]) == row(ratio=0.5)
    assert [record["row"]["outcome"] for record in records[:3]] == ["missed", "missed", "no goal"]
    assert records[0]["context"] == CONTEXT


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["row"].pop("ratio"),
        lambda r: r["row"].update(ratio="fast"),
        lambda r: r["row"].update(outcome="good"),
        lambda r: r.pop("context"),
        lambda r: r["context"].pop("commit"),
    ],
)
def test_schema_rejects_other_records(change):
    record = {"context": dict(CONTEXT), "row": row().record()}
    fastjsonschema.validate(history.SCHEMA, record)
    change(record)

    with pytest.raises(fastjsonschema.JsonSchemaException):
        fastjsonschema.validate(history.SCHEMA, record)


def test_a_damaged_line_is_named(file):
    file.write_text(file.read_text() + "{half")

    with pytest.raises(history.Unusable, match="line 10 is not a record"):
        history.read(file)


def test_rows_with_goal_or_ids_asked_for():
    records = [{"context": CONTEXT, "row": one.record()} for one in (row(), row("PERF-3", 2.0, 0.0))]

    assert [key.split()[0] for key in history.by_row(records)] == ["PERF-1"]
    assert [key.split()[0] for key in history.by_row(records, ["PERF-3"])] == ["PERF-3"]


def test_rate_in_text_does_not_make_another_row():
    assert row(what="write: 3 M/s").key == row(what="write: 4 M/s").key != row(what="read: 4 M/s").key


def test_bars_are_shares_of_the_largest():
    assert history.bars([0.0, 4.0, 8.0]) == "▁▅█"
    assert history.bars([0.0]) == "▁"


def test_the_command_prints_a_line_per_row(file, capsys):
    assert main(["history", "--file", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert [line.split()[0] for line in lines] == ["row", "PERF-1", "PERF-2"]
    assert lines[1].endswith("▃▅█") and "2.00" in lines[1]


@pytest.mark.parametrize("words", [["--file", "absent.jsonl"], ["PERF-77"]], ids=["no file", "no such row"])
def test_what_cannot_be_shown_is_said(file, words, capsys):
    assert main(["history", "--file", str(file), *words]) == 2
    assert "benchmarks: " in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="the extra bench has it")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_drawing_is_made(file, tmp_path, capsys):
    assert main(["history", "--file", str(file), "--plot", str(tmp_path / "runs.svg")]) == 0
    assert "PERF-2" in (tmp_path / "runs.svg").read_text() or "<svg" in (tmp_path / "runs.svg").read_text()
    assert main(["history", "--file", str(file), "--plot", str(tmp_path / "runs.what")]) == 2


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is not None, reason="matplotlib is here")
def test_a_drawing_without_its_library_is_rejected(file, tmp_path, capsys):
    assert main(["history", "--file", str(file), "--plot", str(tmp_path / "runs.svg")]) == 2
    assert ".[bench]" in capsys.readouterr().err
