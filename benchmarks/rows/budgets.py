"""A user's waiting time before any computation: imports, command line, first calls, compiling (budgets)."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.commands import REFEMU, inside_row, output, process_row
from benchmarks.pairs import AnyRow, First, Row, absolute, guarded, row, size
from refemu.arith import tables

NO_HEAVY = "print(sorted({'numba', 'scipy', 'hypothesis', 'rich'} & set(sys.modules)))"
TIMED = "import sys, time, numpy\nbegin = time.perf_counter()\n{}\nprint(time.perf_counter() - begin)\n"

#: operation -> seconds allowed of its first call without a cache, and Python that makes it
FIRST = {
    "ordered matmul": (
        4.0,
        """from refemu.arith import dot_compiled
from refemu.arith.orders import Sequential
x = numpy.ones((64, 64), numpy.float32)
dot_compiled.matmul(x, dot_compiled.panels(x), order=Sequential(), acc="fp32")""",
    ),
    "Orizuru": (
        2.0,
        """from refemu.units.kllm.orizuru import compiled as orizuru_jit
orizuru_jit.pops(numpy.arange(64, dtype=numpy.float16), 4)""",
    ),
    "OVP encode": (
        2.0,
        """from refemu.formats import OVP_INT4
from refemu.formats.olive.compiled import ovp
ovp.encode_pairs(OVP_INT4, numpy.ones((8, 64), numpy.float32))""",
    ),
    "BFP encode": (
        2.0,
        """from refemu.formats import BFP8
from refemu.formats.harmonia.compiled import bfp
bfp.encode(BFP8, numpy.ones((8, 64), numpy.float16))""",
    ),
    "index MatMul": (
        4.0,
        """from refemu.formats import Codebook, KMeans
from refemu.units.kllm.index_matmul import compiled as index_matmul_jit
book = Codebook(4, numpy.linspace(-1, 1, 16).astype(numpy.float16))
x = numpy.ones((2, 64), numpy.float16)
index_matmul_jit.matmul(KMeans(book).encode(x), index_matmul_jit.prepare(KMeans(book).encode(x.T.copy(), axis=0)))""",
    ),
    "attention": (
        4.0,
        """from refemu.arith import dot_compiled
q = numpy.ones((4, 2, 64), numpy.float32)
dot_compiled.attention(q, q, q, scale=numpy.float32(0.125), start=0)""",
    ),
}


ALL = {"call of each": (20.0, "\n".join(code for _, code in FIRST.values()))}  #: by one process


def imports() -> list[Row]:
    """After NumPy, which any user of refemu has imported anyway."""
    return [
        inside_row(
            "BUDGET-IMPORT",
            what,
            allowed,
            TIMED.format(f"import {modules}") + NO_HEAVY,
            lambda text: text.strip() == "[]",
            goal=goal,
        )
        for what, allowed, goal, modules in (
            ("import refemu, beyond NumPy", 0.02, 1.0, "refemu"),
            (
                "import refemu and its layers, beyond NumPy",
                0.15,
                0.0,
                "refemu.formats, refemu.units, refemu.models, refemu.golden",
            ),
        )
    ]


def command_line() -> list[Row]:
    """Whole processes; their limit is 0.4 s."""
    return [
        process_row("BUDGET-CLI", f"refemu {' '.join(words)}, start to end", 0.25, [*REFEMU, *words])
        for words in (("--help",), ("show", "INT4"), ("list",))
    ]


def plugins() -> list[Row]:
    """Cost of an installed refemu for other projects of the environment."""
    light = "print([name for name in sys.modules if name.startswith('refemu.units')])"
    return [
        inside_row(
            "BUDGET-PLUGIN",
            f"plug-in of {tool}",
            0.005,
            f"{before}\n{TIMED.format(code)}{light}",
            lambda output: output.strip() == "[]",
        )
        for tool, before, code in (
            ("pytest", "import pytest", "import refemu.testing.plugin"),
            ("hypothesis", "", "from refemu.testing import register\nregister()"),
        )
    ]


def first_calls() -> list[AnyRow]:
    """From the import of a compiled form to its first answer: without a cache, then with what that left."""
    return [
        row
        for what, (cold, code) in size(FIRST, ALL).items()
        for row in guarded("BUDGET-FIRST", what, partial(_first, what, cold, TIMED.format(code)))
    ]


def _first(what: str, allowed: float, code: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as empty:
        folder = size(empty, os.environ.get("REFEMU_CACHE", empty))
        return [
            inside_row("BUDGET-FIRST", f"first {what}, {state}", seconds, code, count=count, cache=folder)
            for state, seconds, count in (("no cache", allowed, 1), ("warm cache", 0.6, 3))[: size(2, 1)]
        ]


def compiling() -> list[Row]:
    """All kernels in two processes, without a cache: seconds are those of the processor."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # rows are measured on one core
    command = [sys.executable, "-m", "benchmarks.every_kernel", *size(("--processes", "2"), ("--smallest",))]
    with tempfile.TemporaryDirectory() as folder:
        found = json.loads(output(command, REFEMU_CACHE=folder))
    slowest = max(found["seconds"], key=found["seconds"].get)
    seconds, total = found["seconds"][slowest], sum(found["seconds"].values())
    used = f"{len(found['used'])} of {len(found['kernels'])} kernels"
    return [
        _compiled("BUDGET-KERNEL", f"slowest kernel to compile: {slowest}", "goal: 2 s", 2.0, seconds),
        _compiled("BUDGET-ALL", f"every kernel compiled: {used}", "goal: 60 s", 60.0, total),
    ]


def _compiled(id: str, what: str, goal: str, allowed: float, seconds: float) -> Row:
    return row(id, what, goal, [(allowed, seconds)], First(seconds, seconds, None), 1.0, True)


def generate() -> list[Row]:
    """A small set by readable units, without a cache."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*REFEMU, "generate", "-o", folder, "--unit", "ovp_decoder", "--kinds", "paper"]
        return [process_row("BUDGET-GENERATE", "refemu generate of ovp_decoder's paper cases", 2.0, command, count=3)]


def table() -> list[Row]:
    """One function of all 65,536 words, its hash included."""

    def ours() -> object:
        tables.table16.cache_clear()
        return tables.table16("silu")

    return [
        absolute(
            "BUDGET-TABLE",
            "fp16 table of silu, hash included",
            "goal: 8 ms",
            8e-3,
            ours,
            lambda words: words[0x3C00] == 0x39D9,
        )
    ]


ROWS: dict[str, Callable[[], Sequence[AnyRow]]] = {
    "BUDGET-IMPORT": imports,
    "BUDGET-CLI": command_line,
    "BUDGET-PLUGIN": plugins,
    "BUDGET-FIRST": first_calls,
    "BUDGET-KERNEL BUDGET-ALL": compiling,
    "BUDGET-GENERATE": generate,
    "BUDGET-TABLE": table,
}
