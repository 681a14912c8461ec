"""Designs in Verilator with a live predictor, `refemu export dpi`: a correct one passes, one with a bug is detected."""

import dataclasses
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from examples.rtl.benches import HERE, KINDS, ROOT, Design, call
from examples.rtl.mutants import MUTANTS
from refemu import golden, units
from refemu.golden.rtl import dpi

#: without registers, one with masks, one that rejects NaN, two of clock edges
SETS = (
    "ovp_decoder-int4",
    "bfp_aligner-paper",
    "orizuru-n8",
    "orizuru_clocked-n8",
    "olive_systolic_clocked-int4_flint4",
)
TRANSACTIONS, SEED = 2000, 3


@dataclasses.dataclass(frozen=True)
class Live:
    """What the bench says of one device."""

    set: str
    what: str
    right: bool
    output: str = ""  #: where it does not say what it must


def held(design: Design, folder: Path) -> Iterator[Live]:
    """The design as it is, then with the first of its bugs."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    golden.generate(folder, units=[design.unit], configs=[design.config], kinds=KINDS, hex=True)
    for name, content in dpi.files(units.find(design.unit), design.config).items():
        (folder / name).write_bytes(content)
    ran = verilated(folder, [HERE / name for name in design.sources])
    passed = re.search(rf"^PASS {TRANSACTIONS} transactions of {design.set}, seed {SEED}, ", ran[1], re.MULTILINE)
    right = ran[0] == 0 and passed is not None
    yield Live(design.set, f"{TRANSACTIONS} transactions pass", right, "" if right else ran[1])
    mutant = next(mutant for mutant in MUTANTS if mutant.design == design.set)
    sources = [folder / name for name in design.sources]
    for path in sources:
        text = (HERE / path.name).read_text()
        path.write_text(text.replace(mutant.old, mutant.new) if path.name == mutant.file else text)
    ran = verilated(folder, sources)
    shown = re.search(rf"^FAIL transaction (\d+), seed {SEED}: in [0-9a-f]+\n  \w+: got ", ran[1], re.MULTILINE)
    right = ran[0] != 0 and shown is not None and "\nPASS" not in ran[1]
    first = f" in transaction {shown[1]}" if shown else ""
    yield Live(design.set, f"is seen{first}: {mutant.bug}", right, "" if right else ran[1])


def verilated(folder: Path, sources: list[Path]) -> tuple[int, str]:
    """Exit code and output of the bench."""
    refemu = f"env PYTHONPATH={ROOT} {sys.executable} -m refemu"
    words = [f"DEVICE={' '.join(map(str, sources))}", f"REFEMU={refemu}", f"N={TRANSACTIONS}", f"SEED={SEED}"]
    ran = call(["make", "-s", "verilator", *words], folder)
    return ran.returncode, ran.stdout + ran.stderr


def shown(one: Live) -> str:
    """A line of the table; below it what a bench had to say that did not say what it must."""
    line = f"{one.set:36}{'yes' if one.right else 'NO':9}{one.what}"
    return "\n  ".join([line, *one.output.splitlines()[-20:]])
