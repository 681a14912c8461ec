"""Rows measured in children: what they answer, what they leave in the cache, how they fail."""

import os
import sys

import pytest

from benchmarks import processes
from benchmarks.pairs import Absent
from tests.benchmarks.factory import row

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are forked on Linux")


def test_a_child_answers_and_leaves_no_trace_here():
    def change() -> str:
        os.environ["REFEMU_BENCH_TEST"] = "set"
        return os.environ["REFEMU_BENCH_TEST"]

    assert processes.child(change) == "set"
    assert "REFEMU_BENCH_TEST" not in os.environ


def test_error_of_child_is_raised_with_its_traceback():
    with pytest.raises(processes.Failed, match="ZeroDivisionError"):
        processes.child(lambda: 1 // 0)


def test_a_child_that_dies_is_said():
    with pytest.raises(processes.Failed, match="without an answer"):
        processes.child(lambda: os._exit(3))


def test_cold_first_calls_join_their_rows():
    absent = Absent("B", "", "")
    rows = processes.joined([row(first_s=0.1), absent], [row(first_s=9.0, compile_s=8.0), absent])

    assert (rows[0].first_s, rows[0].cold_s, rows[0].compile_s) == (0.1, 9.0, 8.0)
    assert rows[1] is absent
    assert processes.joined([row()], []) == [row()]


def test_cold_call_cache_is_added_to_the_run(tmp_path):
    def benchmark() -> list:
        folder = os.environ["REFEMU_CACHE"]
        before = sorted(os.listdir(folder))
        open(os.path.join(folder, "kernel"), "w").close()
        return [row(what=" ".join(before))]

    (cold,) = processes.measure(benchmark, str(tmp_path), cold=True)

    assert "kernel" in cold.what
