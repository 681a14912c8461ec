"""In every form of answers, a set with output bit r mod B of row r flipped differs in exactly those rows."""

import io
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from refemu import units
from refemu.golden.compare import answer_files, pipe
from refemu.golden.compare.diff import compare, differing
from refemu.golden.files import exchange, hexfile, manifest, sets
from refemu.testing import hold
from tests import sanitizers
from tests.golden import committed

SETS = [
    "bfp_aligner-paper",
    "bfp_aligner-hw",
    "fp16_mac-paper",
    "ovp_decoder-int4",
    "orizuru-n16_total_order",
    "bfp_pe-paper",
    "index_counter-w4a4",
    "index_norm-layer_exact",
]
KERNELS = Path(__file__).parents[2] / "examples" / "kernels"
Arrays = Mapping[str, np.ndarray]


@pytest.fixture(scope="module", params=SETS)
def golden(request: pytest.FixtureRequest) -> sets.Golden:
    return committed.read(request.param)


def outputs(golden: sets.Golden) -> dict[str, np.ndarray]:
    return {
        entry["name"]: golden.arrays[entry["name"]]
        for entry in golden.manifest["arrays"]
        if entry["role"] == "expected"
    }


def flipped(golden: sets.Golden, step: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The outputs with bit r mod B of every step-th row r inverted, and the rows in which that bit counts."""
    arrays = {name: array.copy() for name, array in outputs(golden).items()}
    bits = [
        (name, lane, bit)
        for name in arrays
        for lane in range(golden.array(name)["lanes"])
        for bit in range(golden.array(name)["bits"])
    ]
    wrong = np.zeros(golden.rows, np.bool_)
    for row in range(0, golden.rows, step):
        name, lane, bit = bits[row % len(bits)]
        arrays[name].reshape(golden.rows, -1)[row, lane] ^= arrays[name].dtype.type(1 << bit)
        masked = golden.manifest["unit"] == "bfp_aligner" and name in ("out.sign", "out.mantissa")
        wrong[row] = not (masked and golden.arrays["out.illegal"][row, lane])
    return arrays, wrong


def with_answers(golden: sets.Golden, answers: Arrays) -> sets.Golden:
    """The set with changed answers and their digests."""
    arrays = {**golden.arrays, **answers}
    entries = [{**entry, "sha256": manifest.array_sha256(arrays[entry["name"]])} for entry in golden.manifest["arrays"]]
    return sets.Golden({**golden.manifest, "arrays": entries}, arrays)


def saved(golden: sets.Golden, answers: Arrays, folder: Path) -> Path:
    path = folder / "answers.npz"
    np.savez(path, **answers)
    return path


def memory(golden: sets.Golden, answers: Arrays, folder: Path) -> Path:
    _, text = hexfile.files(golden.manifest, {**golden.arrays, **answers})["gold.mem"]
    path = folder / "answers.mem"
    path.write_bytes(text)
    return path


def exported(form: str, suffix: str) -> Callable[[sets.Golden, Arrays, Path], Path]:
    def written(golden: sets.Golden, answers: Arrays, folder: Path) -> Path:
        path = folder / f"answers{suffix}"
        path.write_text("".join(exchange.export(sets.Golden(golden.manifest, {**golden.arrays, **answers}), form)))
        return path

    return written


def directory(golden: sets.Golden, answers: Arrays, folder: Path) -> Path:
    return written(with_answers(golden, answers), folder / "other")


def written(golden: sets.Golden, folder: Path, bin: bool = False) -> Path:
    for name, data in sets.render(golden.manifest, golden.arrays, bin=bin).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


FILES = {
    "npz": saved,
    "mem": memory,
    "csv": exported("csv", ".csv"),
    "jsonl": exported("jsonl", ".jsonl"),
    "testfloat": exported("testfloat", ".txt"),
    "set": directory,
}


@pytest.mark.long
@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("way", FILES)
def test_flipped_rows_differ_in_files(way: str, step: int, golden: sets.Golden, tmp_path: Path) -> None:
    answers, wrong = flipped(golden, step)
    answer = answer_files.read(FILES[way](golden, answers, tmp_path), golden)
    rows = [one.reshape(golden.rows, -1).any(axis=1) for one in differing(golden, answer).values()]
    found = compare(golden, answer)

    assert np.array_equal(np.any(rows, axis=0), wrong)
    assert (found.rows_differ, found.first and found.first.row) == (np.count_nonzero(wrong), np.argmax(wrong))


@pytest.mark.parametrize("way", FILES)
def test_unchanged_set_is_equal(way: str, golden: sets.Golden, tmp_path: Path) -> None:
    assert compare(golden, answer_files.read(FILES[way](golden, outputs(golden), tmp_path), golden)).equal


def parts(golden: sets.Golden) -> Iterator[tuple[slice, int]]:
    """Every row with the earlier rows of its case, which a unit with registers needs, and its number."""
    for row in range(golden.rows):
        yield slice(golden.case(row), row + 1), row


@pytest.mark.long
def test_flipped_rows_differ_in_hold(golden: sets.Golden) -> None:
    """Rows are checked one by one, so that each result depends on one flipped bit."""
    answers, wrong = flipped(golden, 1)
    unit, event = units.find(golden.manifest["unit"]), golden.manifest["timing"] == "event"
    refused = np.zeros(golden.rows, np.bool_)
    for rows, row in parts(golden):
        inputs = sets.inputs(golden, unit, rows.start, 1, row + 1 - rows.start)
        given = {}
        for name, array in outputs(golden).items():
            port = sets.port_of(golden.array(name))
            given[port.name] = array[rows].copy()
            given[port.name][-1] = answers[name][row]
            given[port.name] = sets.fields.decode(given[port.name], port)
        try:
            hold(unit, golden.config, {name: array[0] if event else array for name, array in inputs.items()}, **given)
        except AssertionError:
            refused[row] = True

    assert np.array_equal(refused, wrong)


def lines(golden: sets.Golden, answers: Arrays) -> list[bytes]:
    """A device's lines in a pipe."""
    files = hexfile.files(golden.manifest, {**golden.arrays, **answers})
    asked, answered = (files[name][1].splitlines()[1:-1] for name in ("stim.mem", "gold.mem"))
    return [stimulus + b" " + answer + b"\n" for stimulus, answer in zip(asked, answered, strict=True)]


@pytest.mark.long
def test_flipped_rows_differ_in_pipe(golden: sets.Golden) -> None:
    answers, wrong = flipped(golden, 1)
    unit, right, sent = units.find(golden.manifest["unit"]), lines(golden, {}), lines(golden, answers)
    outcome = pipe.check(unit, golden.config, io.BytesIO(b"".join(sent)))
    assert (outcome.rows, outcome.rows_differ) == (golden.rows, np.count_nonzero(wrong))
    assert pipe.check(unit, golden.config, io.BytesIO(b"".join(right))).rows_differ == 0

    for rows, row in list(parts(golden))[:300]:
        found = pipe.check(unit, golden.config, io.BytesIO(b"".join([*right[rows][:-1], sent[row]])))
        assert found.rows_differ == wrong[row]


C_PROGRAM = """\
#include "{unit}_vec.h"
#include "golden_set.h"
int main(int argc, char **argv)
{{
    const char *set = argv[1];
    const struct golden_output outputs[] = {{ {outputs} }};
    enum {{ COUNT = sizeof outputs / sizeof *outputs }};
    (void)argc;
    for (size_t row = 0; row < {upper}_ROWS; row++) {{
        struct golden_output one[COUNT];
        for (size_t n = 0; n < COUNT; n++) {{
            size_t skip = row * outputs[n].lanes * outputs[n].size;
            one[n] = outputs[n];
            one[n].got = (const char *)one[n].got + skip;
            one[n].want = (const char *)one[n].want + skip;
            one[n].care = one[n].care ? (const char *)one[n].care + skip : NULL;
        }}
        if (golden_compare(one, COUNT, 1))
            printf("WRONG %zu\\n", row);
    }}
    return golden_finish(outputs, COUNT, {upper}_ROWS, 0, NULL);
}}
"""


def test_flipped_rows_differ_in_c(golden: sets.Golden, tmp_path: Path) -> None:
    """A C program with golden_set.h compares row by row and all rows together."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    answers, wrong = flipped(golden, 1)
    folder, other = written(golden, tmp_path / "set", True), tmp_path / "other"
    written(with_answers(golden, answers), other, True)
    unit = golden.manifest["unit"]
    listed = []
    for name in outputs(golden):
        port = f"{unit}_{name.partition('.')[2]}".upper()
        got = f'golden_read(argv[2], "{name}", {unit.upper()}_ROWS, {port}_LANES, sizeof({port}_TYPE))'
        listed.append(f'GOLDEN_OUTPUT(set, {unit.upper()}, {name.partition(".")[2].upper()}, "{name}", {got})')
    (tmp_path / "check.c").write_text(C_PROGRAM.format(unit=unit, upper=unit.upper(), outputs=",\n".join(listed)))
    subprocess.run(
        [
            compiler,
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-function",
            *sanitizers.flags(compiler),
            "-I",
            KERNELS,
            "-I",
            folder / "include",
            tmp_path / "check.c",
            "-o",
            tmp_path / "check",
        ],
        check=True,
    )
    ran = subprocess.run([tmp_path / "check", folder, other], capture_output=True, text=True, timeout=60)
    told = ran.stdout.splitlines()

    assert [int(line.split()[1]) for line in told if line.startswith("WRONG")] == np.flatnonzero(wrong).tolist()
    assert (ran.returncode, told[-1].split(",")[0]) == (1, f"FAIL {np.count_nonzero(wrong)} of {golden.rows} rows")
    assert subprocess.run([tmp_path / "check", folder, folder], capture_output=True, timeout=60).returncode == 0
