"""Which rows there are, and a run of them: measured, printed, written."""

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import history, processes, report
from benchmarks.context import context
from benchmarks.pairs import Absent, AnyRow, Broken, Row, guarded, smallest
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
    kllm_chip,
    kmeans,
    leankv_formats,
    leankv_memory,
    leankv_steps,
    machines,
    model,
    olive_array,
    orizuru,
    peers,
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
    olive_array,
    harmonia_array,
    kllm,
    kllm_chip,
    kmeans,
    orizuru,
    leankv_formats,
    leankv_memory,
    leankv_steps,
    machines,
    model,
    sizes,
    prefill,
    peers,
    vectors,
    tools,
    growth,
    budgets,
    grades,
    explain,
)
THREADED = (threads, campaign, serve)  #: modules whose rows take several threads
#: ids of commands, or of kernels that other rows compile
WARM = (kllm, model, sizes, prefill, peers, vectors, tools, growth, budgets, grades, explain, *THREADED)

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
Rows = Callable[[], Sequence[AnyRow]]


@dataclass(frozen=True)
class Entry:
    """A function of a module that makes rows."""

    ids: tuple[str, ...]  #: ids of its rows
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
    """The part of the table for the ids `wanted`, or all; an unknown id is an error that names the nearest."""
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
        rows = measured(here, cache, cold=arguments.cold and not smallest(), pinned=arguments.threads == 1)
        if several:
            rows += _elsewhere([id for entry in several for id in entry.ids], cache)
    if arguments.pickle:
        Path(arguments.pickle).write_bytes(pickle.dumps(rows))
    _write(arguments, about, rows)
    print("\n".join(report.faults(rows)) if smallest() else report.text(rows, about))
    return report.code(rows)


def measured(chosen: Sequence[Entry], cache: str, cold: bool, pinned: bool) -> list[AnyRow]:
    """The rows of `chosen`."""
    rows: list[AnyRow] = []
    for entry in chosen:
        print(f"{' '.join(entry.ids)} ...", end="", file=sys.stderr, flush=True)
        begin = time.perf_counter()
        rows += _apart(entry, cache, cold and entry.module not in WARM, pinned)
        print(f" {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)
    return rows


def _apart(entry: Entry, cache: str, cold: bool, pinned: bool) -> list[AnyRow]:
    """The rows of an entry from a separate process, which may die."""
    id = " ".join(entry.ids)
    try:
        return processes.measure(lambda: guarded(id, "", entry.rows), cache, cold, pinned)
    except processes.Failed as error:
        return [Broken(id, "", str(error).strip().splitlines()[-1])]


def _require_writable(files: Sequence[Path]) -> None:
    """Refuse before minutes of measuring what could not be written after them."""
    for file in files:
        try:
            history.append(file, {}, [])
        except OSError as error:
            raise Refused(f"{file} cannot be written: {error.strerror}") from error


def _write(arguments: argparse.Namespace, about: dict[str, Any], rows: Sequence[AnyRow]) -> None:
    measured = [row for row in rows if isinstance(row, Row)]
    for file in filter(None, (arguments.json, arguments.history)):
        history.append(Path(file), about, [row.record() for row in measured])
    if arguments.markdown:
        report.write_markdown(Path(arguments.markdown), rows, about)


def _elsewhere(ids: Sequence[str], cache: str) -> Sequence[AnyRow]:
    """Rows of several threads, from a process whose BLAS has as many."""
    if CPUS == 1:
        return [Absent(id, "rows of several threads", "there is one CPU") for id in ids]
    print(f"{' '.join(ids)} by {CPUS} threads ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows"
        words = ["-m", "benchmarks", *ids, "--threads", "all", "--pickle", str(file), "--cache", cache]
        done = subprocess.run([sys.executable, *words], check=False, stdout=subprocess.DEVNULL)
        if not file.exists():
            return [Broken(" ".join(ids), "", f"the process of several threads ended with code {done.returncode}")]
        rows: list[AnyRow] = pickle.loads(file.read_bytes())
        return rows
