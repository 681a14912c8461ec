"""Speed compared with the alternatives of a user, as ratios.

    python -m benchmarks [ID ...] [--json FILE] [--history FILE] [--markdown FILE] [--cold] [--cache DIR] [--list]
    python -m benchmarks [ID ...] --smallest
    python -m benchmarks history [ID ...] [--file FILE] [--plot FILE]

One pinned thread; rows of several threads run in a process of their own (`--threads all`). Exit code 1 where a result
was wrong or a row failed; a missed goal is not an error.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

HISTORY = Path("out/bench/history.jsonl")
VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def main(words: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    if words[:1] == ["history"]:
        return _history(words[1:])
    options = argparse.ArgumentParser(prog="python -m benchmarks")
    options.add_argument("ids", nargs="*", metavar="ID", help="rows such as PERF-1; default all")
    options.add_argument("--json", metavar="FILE", help="append one JSON line per row")
    options.add_argument("--history", metavar="FILE", help="the same, and create the folder of FILE")
    options.add_argument("--markdown", metavar="FILE", help="write the tables into FILE, between its markers if any")
    options.add_argument("--cold", action="store_true", help="add the column of first calls without a cache")
    options.add_argument("--cache", metavar="DIR", help="compiled code of warm calls; default a folder of this run")
    options.add_argument("--threads", default="1", metavar="N", help="rows of N threads instead; `all`: of every CPU")
    options.add_argument("--list", action="store_true", help="only name the rows")
    options.add_argument("--smallest", action="store_true", help="every row once with little work: does it still run?")
    options.add_argument("--pickle", help=argparse.SUPPRESS)
    arguments = options.parse_args(words)
    arguments.threads = _threads(arguments.threads)
    if arguments.smallest:
        if arguments.json or arguments.history or arguments.markdown:
            options.error("--smallest: its times mean nothing, so they are not written; leave out the files")
        os.environ["REFEMU_BENCH_SMALLEST"] = "1"
    for variable in VARIABLES:
        os.environ[variable] = str(arguments.threads)
    from benchmarks import suite  # after the environment is set, for it imports NumPy
    from refemu.arith.checks import Refused

    try:
        return suite.main(arguments)
    except Refused as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2


def _threads(text: str) -> int:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if text != "all" and not (text.isdecimal() and int(text)):
        sys.exit(f"benchmarks: --threads: a number from 1 on or `all` is needed, got {text!r}")
    return available if text == "all" else int(text)


def _history(words: Sequence[str]) -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks history")
    options.add_argument("ids", nargs="*", metavar="ID", help="rows such as PERF-1; default all that have a goal")
    options.add_argument("--file", default=HISTORY, metavar="FILE", help=f"default {HISTORY}")
    options.add_argument("--plot", metavar="FILE", help="draw ratios over runs: .svg, .png or .pdf")
    from benchmarks import history

    try:
        return history.main(options.parse_args(words))
    except history.Unusable as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
