"""Campaigns by one worker and by several: rates, bytes, and whether the bytes are equal.

    python -m benchmarks.rows.campaign [--cases N] [--seconds S] [--workers 1 2] [--unit U]...
        [--markdown docs/measurements.md]

A table of every unit: each campaign is made by `refemu generate` in a separate folder, which is removed afterwards;
10^6 rows of the widest unit are 4 GB for each of its configurations. With --seconds a unit whose campaign would take
one worker longer gets fewer rows.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.commands import REFEMU, timed
from benchmarks.pairs import First, Row, row, size, smallest
from refemu import units
from refemu.golden.campaign import plan, shards

BEGIN, END = "<!-- table: python -m benchmarks.rows.campaign -->", "<!-- end of table -->"
PROBE = 0.2  #: seconds of a probe that finds the rate of a unit
COUNT = 1  #: campaigns of each kind in a row of the suite
UNIT, CASES = "orizuru", 1_000_000


@dataclass(frozen=True)
class Made:
    """A campaign that was made."""

    seconds: float
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Line:
    """One unit, by each number of workers."""

    unit: str
    made: Sequence[Made]

    @property
    def equal(self) -> bool:
        """Whether the bytes do not depend on the number of workers."""
        return len({one.sha256 for one in self.made}) == 1


def generate(unit: str, cases: int, workers: int) -> Made:
    """One campaign by the command line, and its own report."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            "generate",
            "-o",
            f"{folder}/campaign",
            "--unit",
            unit,
            "--cases",
            str(cases),
            "--workers",
            str(workers),
        ]
        seconds, text = timed([*REFEMU, *words, "--json"])
    found = json.loads(text)["campaign"]
    return Made(seconds, found["rows"], found["bytes"], found["sha256"])


def affordable(unit: str, cases: int, seconds: float) -> int:
    """Rows of each configuration that take one worker about `seconds`: at most `cases`, at least those of a seed."""
    needed, least = 0.0, 1
    for config in units.find(unit).configs:
        each = plan.rows_per_seed(unit, config)
        if each:
            needed += 1 / _rate(unit, config)
            least = max(least, each)
    return max(least, min(cases, int(seconds / needed)))


def _rate(unit: str, config: str) -> float:
    """Rows a second of one configuration, when its compiled form is compiled."""
    seeds, rows, taken = 1, 0, 0.0
    list(shards.RandomShard(unit, config, 0, 1).render())
    while taken < PROBE:
        begin = time.thread_time()
        ((_, files),) = shards.RandomShard(unit, config, 0, seeds).render()
        taken, rows = time.thread_time() - begin, json.loads(files["manifest.json"])["rows"]
        seeds *= 2
    return rows / taken


def table(lines: Sequence[Line], workers: Sequence[int]) -> list[str]:
    """For people, in Markdown; ratios are to the first number of workers."""
    head = ["unit", "bytes per row"]
    head += [f"rows/s, {count} worker{'s' if count > 1 else ''}" for count in workers]
    head += [f"ratio {count} : {workers[0]}" for count in workers[1:]] + ["10^9 rows"]
    text = [f"| {' | '.join(head)} | digests |", "|---" * (len(head) + 1) + "|"]
    for line in lines:
        first = line.made[0]
        cells = [line.unit, f"{first.bytes / first.rows:,.0f}"]
        cells += [f"{one.rows / one.seconds:,.0f}" for one in line.made]
        cells += [f"{first.seconds / one.seconds:.2f}" for one in line.made[1:]]
        cells.append(f"{_time(first.seconds / first.rows * 1e9)}, {_size(first.bytes / first.rows * 1e9)}")
        text.append(f"| {' | '.join(cells)} | {'equal' if line.equal else 'DIFFERENT'} |")
    return text


def _time(seconds: float) -> str:
    """Share of one core, in two digits."""
    for unit, length in (("days", 86400), ("hours", 3600), ("min", 60)):
        if seconds >= 2 * length or unit == "min":
            return f"{_digits(seconds / length)} {unit}"
    raise AssertionError


def _size(count: float) -> str:
    for unit, length in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9)):
        if count >= length or unit == "GB":
            return f"{_digits(count / length)} {unit}"
    raise AssertionError


def _digits(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{float(f'{value:.2g}'):,.0f}"


def within(page: str, text: Sequence[str]) -> str:
    """`page` with `text` between its markers; without them `index` raises ValueError."""
    before, after = page[: page.index(BEGIN) + len(BEGIN)], page[page.index(END) :]
    return "\n".join([before, *text, after])


def rows() -> list[Row]:
    """One worker as the rival of two, which start up first: equal bytes, close to twice as fast in long campaigns."""
    cases = size(CASES, 1000)
    if not smallest():
        generate(UNIT, 1000, 2)  # compiles
    found = [(generate(UNIT, cases, 1), generate(UNIT, cases, 2)) for _ in range(size(COUNT, 1))]
    checked = len({made.sha256 for pair in found for made in pair}) == 1
    seconds = [(one.seconds, two.seconds) for one, two in found]
    what = f"campaign of {UNIT}, {found[0][0].rows / 1e6:.1f} M rows, whole command"
    first = First(found[0][1].seconds, 0.0, None)
    return [row("CAMPAIGN", what, "one worker", seconds, first, 0.0, checked, threads=2)]


def main(words: Sequence[str]) -> int:
    """Print the table as its lines come; exit code 1 if some bytes depend on the number of workers."""
    arguments = _options().parse_args(words)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread per worker
    lines: list[Line] = []
    for unit in arguments.unit or units.names():
        cases = arguments.cases if arguments.seconds is None else affordable(unit, arguments.cases, arguments.seconds)
        generate(unit, 1, 1)  # compiles
        lines.append(Line(unit, [generate(unit, cases, w) for w in arguments.workers]))
        print("\n".join(table(lines, arguments.workers)[0 if len(lines) == 1 else -1 :]), flush=True)
    if arguments.markdown:
        page = Path(arguments.markdown)
        page.write_text(within(page.read_text("utf-8"), table(lines, arguments.workers)), "utf-8")
    return int(not all(line.equal for line in lines))


def _options() -> Any:
    options = argparse.ArgumentParser(prog="python -m benchmarks.rows.campaign")
    options.add_argument("--cases", type=int, default=1_000_000, metavar="N", help="rows of each configuration; 10^6")
    options.add_argument("--seconds", type=float, metavar="S", help="fewer rows where one worker would take longer")
    options.add_argument("--workers", type=int, nargs="+", default=[1, 2], metavar="N", help="default 1 2")
    options.add_argument("--unit", action="append", metavar="U", help="default all")
    options.add_argument("--markdown", metavar="FILE", help="write the table between the markers of FILE")
    return options


ROWS = {"CAMPAIGN": rows}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
