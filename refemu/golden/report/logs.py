"""Logs of the testbenches of `refemu export rtl`: lines with PASS or FAIL, and the answers in them."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from refemu.arith.checks import Refused
from refemu.golden.compare.answer_files import Answer
from refemu.golden.compare.diff import Difference, compare
from refemu.golden.files import hexfile
from refemu.golden.files.sets import Golden

KEPT = 20  #: lines of a log in a report
ROWS = 1 << 16  #: most failing rows that are read
LINE = 1 << 16  #: most characters of a line that are read
_PASS = re.compile(r"PASS (\d{1,18}) rows of ([a-z0-9_-]+), sha256 ([0-9a-f]{64})")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FAIL = re.compile(r"\bFAIL\b")
#: text that only refemu's testbenches print
_OURS = re.compile(r"\bFAIL (row \d+:|\d+ of \d+ rows |stopped;|the simulation ended|no sentinel|this bench is of)")
_ROW = re.compile(r"\bFAIL row (\d{1,18}): (?:in [0-9a-fxz]+ got ([0-9a-fxz]+) want ([0-9a-fxz]+))?", re.IGNORECASE)
_COUNT = re.compile(r"\bFAIL (\d{1,18}) of (\d{1,18}) rows differ")


@dataclass(frozen=True)
class Log:
    """A log of a testbench."""

    path: Path
    bench: bool  #: whether a testbench's Makefile writes a file of this name
    code: str  #: exit code of the simulation, "" if unknown
    passed: tuple[int, str, str] | None  #: rows, name and digest of the set in the last line PASS
    failed: tuple[str, ...]  #: the first FAIL lines, and the outputs that they list
    words: dict[int, tuple[str, str]]  #: failing row -> answer and expected answer in hex, "" if missing
    counted: tuple[int, int] | None  #: differing rows and rows, if the testbench ran all

    @property
    def is_of_bench(self) -> bool:
        """Whether a testbench wrote it, judging by lines and place."""
        return self.bench or self.passed is not None or any(map(_OURS.search, self.failed))

    @property
    def reason(self) -> str:
        """Why it is not a pass; "" for a pass."""
        if self.failed:
            return self.failed[0].strip()
        if self.code not in ("", "0"):
            return f"exit code {self.code}"
        return "" if self.passed else "the simulation ended before the testbench printed PASS"


def read(path: Path) -> Log:
    """Read a log line by line; a very long line is cut."""
    passed, counted, inside = None, None, False
    failed: list[str] = []
    words: dict[int, tuple[str, str]] = {}
    with path.open(encoding="utf-8", errors="backslashreplace") as stream:
        while raw := stream.readline(LINE):
            line = _COLOUR.sub("", raw)
            if said := _PASS.match(line):
                passed = int(said[1]), said[2], said[3]
            if failing := bool(_FAIL.search(line)):
                if (row := _ROW.search(line)) and len(words) < ROWS:
                    words.setdefault(int(row[1]), (row[2] or "", row[3] or ""))
                if count := _COUNT.search(line):
                    counted = int(count[1]), int(count[2])
            inside = failing or (inside and line.startswith("  "))
            if inside and len(failed) < KEPT:
                failed.append(line.rstrip("\n"))
    code = path.with_suffix(".code")
    bench = path.parent.name == "build" and any(path.parent.parent.glob("tb_*.v"))
    return Log(path, bench, code.read_text("utf-8", "replace").strip() if bench and code.is_file() else "",
               passed, tuple(failed), words, counted)  # fmt: skip


def difference(log: Log, golden: Golden) -> Difference | None:
    """The failing rows of a log as an answer; None if it has none, or lacks their words.

    Refused: words of another set.
    """
    rows = sorted(row for row, (got, _) in log.words.items() if got)
    if not rows:
        return None
    layout = hexfile.layout([entry for entry in golden.manifest["arrays"] if entry["role"] == "expected"])
    other = Refused(f"{log.path}: its failing rows differ from those of {golden.name}; rerun the testbench")
    if rows[-1] >= golden.rows:
        raise other
    got, unknown = _words([log.words[row][0] for row in rows], layout, log.path)
    want, _ = _words([log.words[row][1] for row in rows], layout, log.path)
    if any((want[name] != golden.arrays[name][rows]).any() for name in want):
        raise other
    arrays = {name: golden.arrays[name].copy() for name in got}
    marks = {name: np.zeros_like(golden.arrays[name]) for name in unknown}
    for name, codes in got.items():
        arrays[name][rows] = codes
    for name, bits in unknown.items():
        marks[name][rows] = bits
    compared = compare(golden, Answer(arrays, marks))
    differ, total = log.counted or (compared.rows_differ, rows[-1] + 1)
    return replace(compared, rows=total, rows_differ=differ)


def _words(
    words: list[str], layout: list[dict[str, object]], path: Path
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    return hexfile.read("".join(f"{word}\n" for word in words).encode(), layout, len(words), str(path))
