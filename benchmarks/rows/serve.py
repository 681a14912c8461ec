"""Transactions a second of `refemu serve`, through the C client of `refemu export dpi` and two pipes.

A transaction is answered before the next one is sent, as in a bench that draws its stimulus as it goes. Client and
server have a core each. Inputs are the rows of the committed sets, which are compared before anything is timed.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.commands import REFEMU
from benchmarks.context import ROOT
from benchmarks.pairs import Absent, AnyRow, First, Row, guarded, row, size
from refemu import golden, units
from refemu.golden.files import hexfile
from refemu.golden.rtl import dpi

FAST = ("fp16_mac", "ovp_decoder", "olive_mac")  #: units whose single transactions are to be fast
BATCHES = ("ovp_decoder", "fp16_mac")  #: units whose rows are to be fast
#: attention, arrays, and machines that hold them: single transactions without a goal
LARGE = (
    *("bfp_pe_array_clocked", "harmonia_core", "kllm_chip", "mmaovp_clocked"),
    *("olive_systolic_clocked", "paged_attention", "layer_step"),
)
SINGLE, OTHER, ROWS_A_SECOND = 20_000, 1_000, 1_000_000  #: a second, by the goals
LONG = 100_000  #: rows of a set for long batches, at least
SECONDS = 1.0  #: that each rate is measured
COMPILER = shutil.which("cc") or shutil.which("gcc")
RATE = re.compile(r"^RATE (\d+) single transactions a second, (\d+) rows a second$", re.MULTILINE)


def rates(name: str, rows: int = 0) -> tuple[float, float]:
    """Single transactions and rows a second of a unit's first configuration.

    rows: of a unit without registers, how many a batch has at least. RuntimeError: an answer is wrong.
    """
    unit, config = units.choose(name)
    set_ = golden.load(ROOT / "vectors" / f"{name}-{config}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for file, text in dpi.files(unit, config).items():
            (folder / file).write_bytes(text)
        (folder / "hex").mkdir()
        for file, (_, text) in hexfile.files(set_.manifest, set_.arrays).items():
            (folder / "hex" / file).write_bytes(_repeated(text, -(-rows // set_.rows) or 1))
        program = folder / "client"
        sources = [folder / file for file in ("client.c", "refemu_dpi.c", f"{name}_dpi.c")]
        subprocess.run([str(COMPILER), "-std=c99", "-O2", "-o", program, *sources, "-pthread"], check=True)
        environment = {**os.environ, "REFEMU": " ".join(REFEMU)}
        command = [program, folder, "--time", f"{size(SECONDS, 0.01)}"]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    rate = RATE.search(ran.stdout)
    if ran.returncode or not rate or "\nPASS " not in ran.stdout:
        raise RuntimeError(f"{name}: {ran.stdout}{ran.stderr}")
    return float(rate[1]), float(rate[2])


def _repeated(text: bytes, times: int) -> bytes:
    """A hex file with its rows several times over."""
    comment, *lines, sentinel = text.splitlines(keepends=True)
    return b"".join([comment, *(times * lines), sentinel])


def _row(id: str, name: str, what: str, rate: float, goal: float) -> Row:
    """A rate relative to the goal; 0 if there is none."""
    text = f"goal: {goal:,.0f} a second" if goal else "no goal"
    seconds = 1 / (goal or OTHER), 1 / rate
    return row(id, f"{name}, {what}: {rate:,.0f}/s", text, [seconds], First(1 / rate, 0.0, None), float(goal > 0), True)


def fast(name: str) -> Iterator[Row]:
    """Single transactions of a unit that a bench asks most."""
    yield _row("SERVE", name, "single transactions", rates(name)[0], SINGLE)


def other(name: str) -> Iterator[Row]:
    """Single transactions of every other unit, and rows of all."""
    single, batch = rates(name)
    if name not in FAST:
        yield _row("SERVE-UNITS", name, "single transactions", single, 0 if name in LARGE else OTHER)
    yield _row("SERVE-UNITS", name, "rows of its cases", batch, 0)


def batches(name: str) -> Iterator[Row]:
    """Long batches."""
    yield _row("SERVE-ROWS", name, "rows in batches", rates(name, size(LONG, 0))[1], ROWS_A_SECOND)


def each(id: str, rows: Callable[[str], Iterable[Row]], names: Sequence[str]) -> list[AnyRow]:
    """Rows of every unit; those of a unit whose client or server fails are its error."""
    if COMPILER is None:
        return [Absent(id, "transactions through refemu serve", "no C compiler on PATH")]
    return [row for name in size(names, names[:1]) for row in guarded(id, name, partial(rows, name))]


ROWS = {
    "SERVE": partial(each, "SERVE", fast, FAST),
    "SERVE-UNITS": partial(each, "SERVE-UNITS", other, (*LARGE, "kv_compressor", "page_manager")),
    "SERVE-ROWS": partial(each, "SERVE-ROWS", batches, BATCHES),
}
