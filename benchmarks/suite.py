"""Which rows there are, and a run of them: measured, printed, written."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import apart, history, report
from benchmarks.context import context
from benchmarks.pairs import Absent, Row
from benchmarks.rows import (
    arith,
    bfp,
    bfp_pe,
    budgets,
    campaign,
    elementwise,
    exactness,
    explain,
    fdgf,
    formats,
    grades,
    growth,
    harmonia_array,
    kllm,
    kllm_machine,
    kmeans,
    leankv_formats,
    leankv_memory,
    leankv_steps,
    machines,
    model,
    olive_machine,
    orizuru,
    prefill,
    rivals,
    serve,
    sizes,
    threads,
    tools,
    units,
    vectors,
)
from refemu.arith.checks import Refused, lookup

#: A module has ROWS: the ids of the rows that a function makes, with spaces between them, and the function.
MODULES = (
    arith,
    exactness,
    elementwise,
    bfp,
    bfp_pe,
    fdgf,
    rivals,
    formats,
    units,
    olive_machine,
    harmonia_array,
    kllm,
    kllm_machine,
    kmeans,
    orizuru,
    leankv_formats,
    leankv_memory,
    leankv_steps,
    machines,
    model,
    sizes,
    prefill,
    vectors,
    tools,
    growth,
    budgets,
    grades,
    explain,
)
THREADED = (threads, campaign, serve)  #: modules whose rows take several threads
#: of commands, or of kernels that other rows compile
WARM = (kllm, model, sizes, prefill, vectors, tools, growth, budgets, grades, explain, *THREADED)

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
Rows = Callable[[], Sequence[Row | Absent]]


@dataclass(frozen=True)
class Entry:
    """A function of a module that makes rows."""

    ids: tuple[str, ...]  #: of its rows
    module: ModuleType
    rows: Rows


def table(several: bool = False) -> list[Entry]:
    """Every function that makes rows of one thread, or of several."""
    return [
        Entry(tuple(ids.split()), module, rows)
        for module in (THREADED if several else MODULES)
        for ids, rows in module.ROWS.items()
    ]


def names(several: bool = False) -> list[str]:
    """Every id, in the order of the table."""
    return list(dict.fromkeys(id for entry in table(several) for id in entry.ids))


def select(wanted: Sequence[str], several: bool = False) -> list[Entry]:
    """The part of the table that makes the ids `wanted`, all of it for none; refuses an unknown id with the nearest."""
    known = dict.fromkeys([*names(), *names(True)])
    for id in wanted:
        lookup("row", id, known)
    return [entry for entry in table(several) if not wanted or set(wanted) & set(entry.ids)]


def main(arguments: argparse.Namespace) -> int:
    """A run as the command line asks for it; returns the exit code."""
    here, several = (select(arguments.ids, kind) for kind in (False, True))
    if arguments.threads > 1:
        here, several = several, []
    if arguments.list:
        print("\n".join(" ".join(entry.ids) for entry in [*here, *several]))
        return 0
    _require_writable([Path(file) for file in (arguments.json, arguments.history, arguments.markdown) if file])
    about = context()
    with tempfile.TemporaryDirectory() as folder:
        cache = arguments.cache or folder
        rows, broken = measured(here, cache, cold=not arguments.warm, pinned=arguments.threads == 1)
        if several:
            rows += _elsewhere([id for entry in several for id in entry.ids], cache)
    _write(arguments, about, rows)
    print(report.text(rows, about, broken))
    return report.code(rows, broken)


def measured(chosen: Sequence[Entry], cache: str, cold: bool, pinned: bool) -> tuple[list[Row | Absent], list[str]]:
    """The rows of `chosen`, and why some of its functions gave none."""
    rows: list[Row | Absent] = []
    broken = []
    for entry in chosen:
        print(f"{' '.join(entry.ids)} ...", end="", file=sys.stderr, flush=True)
        begin = time.perf_counter()
        try:
            rows += apart.measure(entry.rows, cache, cold and entry.module not in WARM, pinned)
        except apart.Failed as error:
            broken.append(f"{' '.join(entry.ids)}: {error}")
        print(f" {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)
    return rows, broken


def _require_writable(files: Sequence[Path]) -> None:
    """Refuse before minutes of measuring what could not be written after them."""
    for file in files:
        try:
            history.append(file, {}, [])
        except OSError as error:
            raise Refused(f"{file} cannot be written: {error.strerror}") from error


def _write(arguments: argparse.Namespace, about: dict[str, Any], rows: Sequence[Row | Absent]) -> None:
    measured = [row for row in rows if isinstance(row, Row)]
    for file in filter(None, (arguments.json, arguments.history)):
        history.append(Path(file), about, [row.record() for row in measured])
    if arguments.markdown:
        report.write_markdown(Path(arguments.markdown), rows, about)


def _elsewhere(ids: Sequence[str], cache: str) -> Iterator[Row | Absent]:
    """Rows of several threads, from a process whose BLAS has as many."""
    if CPUS == 1:
        yield from (Absent(id, "rows of several threads", "there is one CPU") for id in ids)
        return
    print(f"{' '.join(ids)} by {CPUS} threads ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        command = [sys.executable, "-m", "benchmarks", *ids, "--threads", "all", "--json", str(file), "--cache", cache]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if not file.exists():
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        yield from (history.row_of(record["row"]) for record in history.read(file))
