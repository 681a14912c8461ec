"""Time of `refemu diff --explain` with start-up: for a decision, a decision with a bug, random words."""

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.commands import process_row
from benchmarks.pairs import AnyRow, Row, guarded, size
from refemu import units
from refemu.golden.compare import answer_files
from refemu.golden.explain import table, unit_runs
from refemu.golden.files import npz, sets, store
from refemu.golden.make import build, generate
from refemu.golden.make.random_cases import random_cases
from refemu.units import variant as other
from refemu.units.unit import AnyUnit
from refemu.units.variant import Device

SMALL, LARGE = 10_000, 1_000_000
ALLOWED = {SMALL: 2.0, LARGE: 20.0}
ALLOWED_MB = 2000
#: configurations of which sets of 10^4 rows are made: a step, registers, whole words of many lanes
STEPS = ("olive_mac-wrap", "orizuru-n16", "functional-softmax")
#: rows of up to 64 bytes, and a compiled form of 2 M rows a second and more
NARROW = ("olive_mac-wrap",)
#: a `diff` that must find a difference, and what its process held at most
CHILD = """import sys
from refemu.cli.main import main
code = main(["diff", sys.argv[1], sys.argv[2], "--explain", "--json"])
print(next((line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), 0))
sys.exit(code != 1)"""


def rows_of(id: str, rows: int, names: Sequence[str]) -> list[AnyRow]:
    """For every set a decision, the decision with a mistake in one lane, and one bit of every fiftieth row."""
    return [row for name in names for row in guarded(id, name, lambda name=name: _rows(id, rows, name))]


def _rows(id: str, rows: int, name: str) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        place, path = Path(folder) / name, Path(folder) / f"{name}.npz"
        golden = _set(name, size(rows, 1), place)
        for what, answers, expected in islice(_devices(golden), size(3 if rows == SMALL else 1, 1)):
            npz.write(path, answers)
            yield _row(id, f"{golden.rows} rows of {name}, {what}", place, path, rows, expected)


def _row(id: str, what: str, golden: Path, path: Path, rows: int, expected: str) -> Row:
    held = []

    def good(output: str) -> bool:
        document, _, memory = output.strip().rpartition("\n")
        held.append(int(memory) * 1.024e-3)
        return expected in document if expected else '"explanations": []' in document

    command = [sys.executable, "-c", CHILD, str(golden), str(path)]
    made = process_row(id, what, ALLOWED[rows], command, good, 1)
    return replace(made, peak_mb=max(held, default=0.0), checked=made.checked and max(held) <= ALLOWED_MB)


def _set(name: str, rows: int, folder: Path) -> sets.Golden:
    """Random rows of a unit, at least so many."""
    text, _, config = name.partition("-")
    unit: AnyUnit = units.find(text)
    each = sum(next(iter(case.inputs.values())).shape[0] for case in random_cases(unit, config, 0, 1))
    blocks = random_cases(unit, config, 0, -(-rows // each))
    entry = {"function": generate.function_of(unit), "seed": 0, "seeds": -(-rows // each)}
    manifest, arrays = build.build(unit, config, blocks, generator={"random": entry}, compiled_from=1)
    store.replace(folder, sets.render(manifest, arrays))
    return sets.load(folder)


def _devices(golden: sets.Golden) -> Iterator[tuple[str, dict[str, np.ndarray], str]]:
    """A description of a device, its answers, and the id that must be named."""
    unit: AnyUnit = units.find(golden.manifest["unit"])
    device, id = _other(unit, golden)
    answers = _answers(golden, device)
    yield id, answers, f'"{id}"'
    name = max(answers, key=lambda name: answers[name][0].size)
    buggy = answers[name].copy()
    lane = buggy.reshape(len(buggy), -1)[:, -1:]
    lane ^= lane.dtype.type(1)
    yield f"{id} and a bit inverted in one lane", answers | {name: buggy}, f'"{id}"'
    random = {name: np.array(array) for name, array in _right(golden).items()}
    flipped = random[name].reshape(-1)
    flipped[:: 50 * (flipped.size // golden.rows) + 1] ^= 1
    yield "a bit of every fiftieth row or so", random, ""


def _other(unit: AnyUnit, golden: sets.Golden) -> tuple[Device, str]:
    """The first device with another decision that answers otherwise somewhere."""
    right = _right(golden)
    for each in unit.variants:
        device = other.device(unit, unit.config(golden.config), [each])
        if device is not None and any((right[n] != a).mean() > 0.01 for n, a in _answers(golden, device).items()):
            return device, each.decision
    raise LookupError(f"{unit.name} has no variant that its random rows detect")


def _right(golden: sets.Golden) -> dict[str, np.ndarray]:
    return {name: golden.arrays[name] for name in golden.arrays if name.startswith("out.") and "care" not in name}


def _answers(golden: sets.Golden, device: Device) -> dict[str, np.ndarray]:
    """Answers of a device to the stimulus of a set."""
    right = _right(golden)
    whole = table.whole(golden, answer_files.Answer(right, {}))
    words, _ = unit_runs.words(whole, [], device)
    answers = {name: array.copy() for name, array in right.items()}
    for name, array in answers.items():
        array[whole.rows] = words[name].reshape(-1, *array.shape[1:])
    return answers


ROWS: dict[str, Callable[[], list[AnyRow]]] = {
    "EXPLAIN": lambda: rows_of("EXPLAIN", SMALL, size(STEPS, ("fp16_mac-fma",))),
    "EXPLAIN-LARGE": lambda: rows_of("EXPLAIN-LARGE", LARGE, size(NARROW, ("concat-a4",))),
}
