"""Grading of sets, generation with and without registers, and memory of a generation."""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.commands import output
from benchmarks.pairs import Absent, AnyRow, First, Row, absolute, guarded, pairs, row, size
from refemu import golden, units
from refemu.golden.files import sets
from refemu.golden.grade.grade import Grade
from refemu.golden.make import build, generate
from refemu.golden.make.random_cases import random_cases
from refemu.units.ports import Ports
from refemu.units.unit import AnyUnit, Config, Kind

KINDS: tuple[Kind, ...] = ("paper", "edge", "random")  #: kinds of a committed set that need no model
SIMPLE = ("bits", "lanes", "order", "words")  #: classes that run no device
FEW = 2  #: number of samples if one takes a second
#: a set of one step, of many registers, and one that needs many further rows
QUICK = ("olive_mac-wrap", "page_manager-paper", "bfp_pe_array-exact")
SMALLEST = ("fp2half-paper",)  #: sets of `--smallest`
#: set -> seconds allowed of all classes but mutants
WHOLE = {"olive_mac-wrap": 60, "page_manager-paper": 60}
#: set -> seeds of its random rows; registers many times as wide as the outputs, or few
REGISTERS = {"olive_edp-int8_int8": 3200, "orizuru-n16": 200, "page_manager-paper": 100, "significance-paper": 400}
#: units whose sets are the widest
WIDE = ("bfp_pe_array", "harmonia_core", "kllm_chip", "layer_step", "olive_systolic_clocked", "paged_attention")
ALLOWED_MB = 1000  #: limit of a process that generates a set
#: script of a child: it generates a set and prints its largest memory
CHILD = """import sys
from refemu import golden
golden.generate(sys.argv[1], units=[sys.argv[2]])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))"""


def quick() -> list[AnyRow]:
    """Classes that compare results alone; further rows are drawn if the set misses a fault."""
    names = size(QUICK, SMALLEST)
    return [row for name in names for row in _graded("GRADE-QUICK", name, 1, ", ".join(SIMPLE), SIMPLE)]


def whole() -> list[AnyRow]:
    """All classes that need no mutants."""
    sets = size(WHOLE, dict.fromkeys(SMALLEST, 60))
    return [row for name, allowed in sets.items() for row in _graded("GRADE", name, allowed, "every class but model")]


def _graded(id: str, name: str, allowed: float, what: str, classes: tuple[str, ...] | None = None) -> list[AnyRow]:
    return guarded(id, name, lambda: [_grade(id, name, allowed, f"{name}, {what}", classes)])


def _grade(id: str, name: str, allowed: float, what: str, classes: tuple[str, ...] | None) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        unit, _, config = name.partition("-")
        golden.generate(folder, units=[f"{unit}:{config}"], kinds=size(KINDS, KINDS[:1]))
        if classes is None:
            return _once(id, what, allowed, Path(folder) / name)
        return absolute(
            id,
            what,
            f"goal: {allowed} s",
            allowed,
            lambda: golden.grade_set(Path(folder) / name, classes),
            lambda grade: _complete(grade, classes),
            count=FEW,
            clock=time.perf_counter,
        )


def _once(id: str, what: str, allowed: float, folder: Path) -> Row:
    """A grade that takes minutes, after another one that compiles its kernels."""
    golden.grade_set(folder, SIMPLE, pool=1)
    begin = time.perf_counter()
    grade = golden.grade_set(folder)
    seconds = time.perf_counter() - begin
    first = First(seconds, 0.0, grade)
    return row(id, what, f"goal: {allowed} s", [(allowed, seconds)], first, 1.0, _complete(grade, ()))


def _complete(grade: Grade, classes: tuple[str, ...]) -> bool:
    """Whether all classes were tried."""
    return len(grade.classes) == (len(classes) or 9) and grade.rows > 0


def registers() -> list[Row]:
    """Random rows of a campaign, compared with the same without registers in the files."""
    return [_beside_outputs(name, size(seeds, 1)) for name, seeds in REGISTERS.items()]


def _beside_outputs(name: str, seeds: int) -> Row:
    text, _, config = name.partition("-")
    unit = units.find(text)
    bare = replace(unit, ports=lambda config: _bare(unit, config))
    rows = build_set(unit, config, seeds)[0]

    def of(unit: AnyUnit) -> Callable[[], int]:
        return lambda: build_set(unit, config, seeds)[1]

    made = pairs(
        "GEN-REGISTERS",
        f"{rows} random rows of {name} with registers",
        "without registers in the files",
        of(bare),
        of(unit),
        lambda theirs, ours: 0 < theirs < ours,
        goal=1 / 3,
        clock=time.perf_counter,
    )
    return replace(made, what=f"{made.what}: {rows / made.ours_s:,.0f} rows/s")


def build_set(unit: AnyUnit, config: str, seeds: int) -> tuple[int, int]:
    """Rows and bytes of a set of random cases, answers by the compiled form."""
    blocks = random_cases(unit, config, 0, seeds)
    entry = {"function": generate.function_of(unit), "seed": 0, "seeds": seeds}
    manifest, arrays = build.build(unit, config, blocks, generator={"random": entry}, compiled_from=1)
    return len(arrays["flags"]), len(sets.render(manifest, arrays)[sets.VECTORS])


def _bare(unit: AnyUnit, config: Config) -> Ports:
    return replace(unit.ports(config), state=())


def memory() -> list[Row | Absent]:
    """A process for every ready configuration; the row is of the one that held most."""
    if not Path("/proc/self/status").exists():
        return [Absent("MEM-GENERATE", "memory of a process that generates a set", "no /proc")]
    names = size(WIDE, ("concat",))
    held = {f"{unit}:{config}": 0.0 for unit in names for config in list(units.find(unit).configs)[:1]}
    begin = time.perf_counter()
    for name in held:
        with tempfile.TemporaryDirectory() as folder:
            held[name] = int(output([sys.executable, "-c", CHILD, folder, name]).split()[-1]) * 1.024e-3
    seconds = time.perf_counter() - begin
    most = max(held, key=held.__getitem__)
    what = f"generating each of {len(held)} sets, at most: {most} {held[most]:.0f} MB"
    made = row("MEM-GENERATE", what, "1 GB", [(ALLOWED_MB, held[most])], First(0.0, 0.0, None), 1.0, True)
    return [replace(made, ours_s=seconds, rival_s=0.0, peak_mb=held[most])]


ROWS: dict[str, Callable[[], Sequence[AnyRow]]] = {
    "GRADE-QUICK": quick,
    "GRADE": whole,
    "GEN-REGISTERS": registers,
    "MEM-GENERATE": memory,
}
