"""Tables and summaries of made-up rows."""

import pytest

from benchmarks import report
from benchmarks.pairs import Absent, Broken
from tests.benchmarks.factory import CONTEXT, row

ROWS = [row(), row("PERF-2", 0.5), row("PERF-3", 2.0, 0.0), Absent("PERF-16", "beside torch", "not installed: pip x")]


def test_summary_counts_and_names_missed_goals():
    lines = report.outcome(ROWS)

    assert lines[0] == "1 goals met, 1 missed, 0 wrong; 1 rows without a goal, 1 not measured, 0 broken"
    assert lines[1].split()[:2] == ["missed", "PERF-2"] and lines[1].endswith("0.50 of 0.90")
    assert lines[2].endswith("beside torch: not installed: pip x")
    assert len(lines) == 3


BROKEN = Broken("PERF-4", "K = 4", "ImportError: no such module")


@pytest.mark.parametrize(("rows", "code"), [(ROWS, 0), ([*ROWS, row(checked=False)], 1), ([*ROWS, BROKEN], 1), ([], 0)])
def test_the_exit_code_is_about_results_not_goals(rows, code):
    assert report.code(rows) == code


def test_wrong_and_broken_rows_are_reported():
    text = report.text([row(checked=False), BROKEN], CONTEXT)

    assert "WRONG    PERF-1" in text and "1 wrong" in text and "1 broken" in text
    assert text.count("PERF-4           K = 4: ERROR ImportError: no such module") == 2


def test_growth_is_the_exponent_of_a_power():
    points = [row("GROW-X", series="over n", size=size, ratio=1 / size) for size in (10.0, 100.0, 1000.0)]

    assert report.exponent([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2)
    assert report.grown(points) == [
        "how cost grows",
        f"{'GROW-X':16} over n: exponent 1.00 from 10 to 1000; another: 0.00",
    ]


def test_first_call_columns_separate_compiling_from_loading():
    measured = report.cells(row(first_s=0.1, cold_s=3.0, compile_s=2.0))
    compiled = report.cells(row(first_s=3.0, compile_s=2.0))
    plain = report.cells(row(first_s=0.1))

    assert [measured[name] for name in ("first", "cold", "compile")] == ["100.00 ms", "3.00 s", "2.00 s"]
    assert [compiled[name] for name in ("first", "cold", "compile")] == ["", "3.00 s", "2.00 s"]
    assert [plain[name] for name in ("first", "cold", "compile")] == ["100.00 ms", "", ""]


def test_markdown_is_between_its_markers(tmp_path):
    file = tmp_path / "page.md"
    file.write_text(f"before\n{report.BEGIN}\nan older table\n{report.END}\nafter\n")
    for _ in range(2):
        report.write_markdown(file, ROWS, CONTEXT)
    text = file.read_text()

    assert text.startswith(f"before\n{report.BEGIN}\n") and text.endswith(f"{report.END}\nafter\n")
    assert (
        "older" not in text
        and text.count("| PERF-2 |") == 1
        and "PERF-3" not in text
        and "1 goals met, 1 missed" in text
    )


def test_markdown_without_markers_is_the_whole_file(tmp_path):
    report.write_markdown(tmp_path / "new.md", ROWS, CONTEXT)

    assert (tmp_path / "new.md").read_text() == report.markdown(ROWS, CONTEXT)
