"""Transactions a second of `refemu serve`, through the C client of `refemu export dpi` and two pipes.

A transaction is answered before the next one is sent, as in a bench that draws its stimulus as it goes. Client and
server have a core each. Inputs are the rows of the committed sets, which are compared before anything is timed.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.commands import REFEMU
from benchmarks.context import ROOT
from benchmarks.pairs import Absent, First, Row, row
from refemu import golden, units
from refemu.golden.files import hexfile
from refemu.golden.rtl import dpi

FAST = ("fp16_mac", "ovp_decoder", "olive_mac")  #: units whose single transactions are to be fast
BATCHES = ("ovp_decoder", "fp16_mac")  #: units whose rows are to be fast
#: attention, arrays, and machines that hold them: single transactions without a goal
LARGE = (
    *("bfp_pe_array", "bfp_pe_array_clocked", "harmonia_core", "kllm_chip", "mmaovp", "mmaovp_clocked"),
    *("olive_systolic", "olive_systolic_clocked", "paged_attention", "head_step", "layer_step"),
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
        command = [program, folder, "--time", f"{SECONDS}"]
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
    """A rate beside the goal; 0 where there is none."""
    text = f"goal: {goal:,.0f} a second" if goal else "no goal"
    seconds = 1 / (goal or OTHER), 1 / rate
    return row(id, f"{name}, {what}: {rate:,.0f}/s", text, [seconds], First(1 / rate, 0.0, None), float(goal > 0), True)


def _absent(id: str) -> list[Row | Absent]:
    return [Absent(id, "transactions through refemu serve", "no C compiler on PATH")]


def fast() -> Sequence[Row | Absent]:
    """Single transactions of the units that a bench asks most."""
    if COMPILER is None:
        return _absent("SERVE")
    return [_row("SERVE", name, "single transactions", rates(name)[0], SINGLE) for name in FAST]


def every() -> Sequence[Row | Absent]:
    """Single transactions of every other unit, and rows of all."""
    if COMPILER is None:
        return _absent("SERVE-UNITS")
    made: list[Row | Absent] = []
    for name in units.names():
        single, batch = rates(name)
        if name not in FAST:
            goal = 0 if name in LARGE else OTHER
            made.append(_row("SERVE-UNITS", name, "single transactions", single, goal))
        made.append(_row("SERVE-UNITS", name, "rows of its cases", batch, 0))
    return made


def batches() -> Sequence[Row | Absent]:
    """Long batches."""
    if COMPILER is None:
        return _absent("SERVE-ROWS")
    return [_row("SERVE-ROWS", name, "rows in batches", rates(name, LONG)[1], ROWS_A_SECOND) for name in BATCHES]


ROWS = {"SERVE": fast, "SERVE-UNITS": every, "SERVE-ROWS": batches}
