"""Runs of the readable unit over a stimulus: the lines that it reaches, and the time of each part.

No row detects a change on a line that no row reaches. A mutant that takes many times as long as the unit counts as
endless. Only the unit's own sources are traced.
"""

import ast
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from refemu.golden.grade import slices
from refemu.golden.grade.answers import Answers
from refemu.golden.make.rows import Block

LEAST, TIMES = 1.0, 5.0  #: limit of a mutant's time for a part: LEAST seconds, or TIMES that of the traced unit
UNTRACED = 50.0  #: the same, of a unit that is not traced
SPARE = 1 << 12  #: values of a pool for every mutant, about: most mutants that reach it are equivalent
Lines = frozenset[tuple[str, int]]  #: file and line


@dataclass(frozen=True)
class Executed:
    """A run of the right unit over the parts of a stimulus."""

    lines: Lines
    seconds: tuple[float, ...]  #: time limit of a mutant, by part


def most(answers: Answers) -> int:
    """Number of values for a mutant."""
    return SPARE if answers.spare else slices.MOST


def executed(answers: Answers, files: tuple[Path, ...], answer: Callable[[Answers, Block], Any]) -> Executed:
    """Trace the right unit on the parts of a stimulus."""
    lines: set[tuple[str, int]] = set()
    seconds, times = [], TIMES if files else UNTRACED
    for _, block in slices.parts(answers, most(answers)):
        start = time.perf_counter()
        with _traced({str(file) for file in files}, lines):
            answer(answers, block)
        seconds.append(max(LEAST, times * (time.perf_counter() - start)))
    return Executed(frozenset(lines), tuple(seconds))


@contextmanager
def _traced(files: set[str], lines: set[tuple[str, int]]) -> Iterator[None]:
    def line(frame: FrameType, event: str, _: Any) -> Any:
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def call(frame: FrameType, event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(before)


@cache
def statements(path: Path) -> dict[int, range]:
    """By line of a function's body: the lines of its statement; for a compound one, those before its blocks.

    Lines that an import runs (modules, classes, defaults) are omitted.
    """
    ranges: dict[int, range] = {}
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            for statement in _inside(function.body):
                header = range(statement.lineno, _end(statement) + 1)
                ranges.update(dict.fromkeys(header, header))
    return ranges


def _inside(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for block in ("body", "orelse", "finalbody"):
            yield from _inside(getattr(statement, block, ()))
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _inside(part.body)


def _end(statement: ast.stmt) -> int:
    inner: list[Any] = getattr(statement, "body", []) or getattr(statement, "cases", [])
    if not inner:
        return statement.end_lineno or statement.lineno
    first = getattr(inner[0], "lineno", None) or inner[0].pattern.lineno
    return max(statement.lineno, int(first) - 1)
