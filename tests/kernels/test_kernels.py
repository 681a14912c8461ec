"""Kernels in C, numba.cuda and Triton agree with the golden sets, and planted bugs are caught."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from examples.kernels import bugs, host, run, ways
from refemu import golden

SMALL = {
    "ovp_decoder": ("int4", "flint4"),
    "bfp_pe": ("paper",),
    "paged_attention": ("narrow", "f128", "f64"),
    "prompt_compressor": ("odd",),
    "prefix_sum": ("odd",),
    "kv_quantizer": ("paper",),
    "kv_compressor": ("pages",),
}  # simulators are slow
C_RUNS = [
    (way, unit, config)
    for way in ("C, called", "C, program")
    for unit, configs in run.UNITS.items()
    for config in configs
    if ways.runs(way, unit)
]
SLOW_RUNS = [
    pytest.param(
        way,
        unit,
        config,
        marks=[pytest.mark.slow] if way == "numba.cuda" and config in ("f128", "f64", "pages") else [],  # minutes each
    )
    for way in ("numba.cuda", "Triton")
    for unit, configs in SMALL.items()
    for config in configs
]


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden sets of `make kernels`."""
    folder = tmp_path_factory.mktemp("kernels")
    run.sets(folder)
    return folder


def require(line: run.Line) -> None:
    if line.outcome.startswith("skipped"):
        pytest.skip(line.outcome)
    assert line.good, line.outcome


@pytest.mark.long
@pytest.mark.parametrize(("way", "unit", "config"), C_RUNS + SLOW_RUNS)
def test_kernel_is_equal_in_every_bit(way: str, unit: str, config: str, sets: Path) -> None:
    line = run.held(sets, way, unit, config)

    require(line)
    assert ("equal", golden.load(sets / f"{unit}-{config}").rows) == (line.outcome, line.rows)
    assert line.rows_per_second > 0


def _marks(bug: bugs.Bug) -> list[pytest.MarkDecorator]:
    slow = bug.what == SLOW_BUG or (bug.way, bug.unit) == ("numba.cuda", "kv_compressor")
    return [pytest.mark.slow if slow else pytest.mark.long] * (bug.unit in ("paged_attention", "kv_compressor"))


SLOW_BUG = "neighbouring slots in neighbouring accumulators"  #: takes more than a minute
BUGS = [  #: those of attention and of whole pages take seconds each
    pytest.param(
        bug,
        id=bug.what,
        marks=_marks(bug),
    )
    for bug in bugs.BUGS
]


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_detected(bug: bugs.Bug, sets: Path) -> None:
    line = run.hunted(sets, bug)

    require(line)
    assert line.outcome.startswith("caught by")


def test_every_kernel_has_a_bug_in_every_language() -> None:
    kernels = {(way, unit) for unit in run.UNITS for way in ways.WAYS if ways.runs(way, unit)}
    assert kernels == {(bug.way, bug.unit) for bug in bugs.BUGS}


def test_cuda_and_triton_say_where_they_ran(sets: Path, tmp_path: Path) -> None:
    ran = ways.cuda(sets / "bfp_pe-paper", tmp_path)

    assert (host.gpu() or "simulator") == ran.where


def sizes_of_arrays(source: str) -> list[ast.expr]:
    """First arguments of the calls `cuda.shared.array` and `cuda.local.array` of a source."""
    return [
        node.args[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("cuda.shared.array", "cuda.local.array")
    ]


@pytest.mark.parametrize("path", sorted(ways.HERE.glob("cuda_*.py")), ids=lambda path: path.stem)
def test_array_sizes_are_constants_for_gpus(path: Path) -> None:
    """numba's simulator accepts an expression too; its compiler for GPUs does not."""
    wrong = [
        ast.unparse(size) for size in sizes_of_arrays(path.read_text()) if not isinstance(size, ast.Constant | ast.Name)
    ]

    assert not wrong
    assert sizes_of_arrays("part = cuda.shared.array(MOST * 8, float32)")


def test_failing_kernel_is_a_line_of_the_table(sets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(folder: Path, work: Path, sources: Path = ways.HERE) -> ways.Run:
        raise RuntimeError("kernels.py: Traceback\nTypingError: no such function\n")

    monkeypatch.setitem(run.WAYS, "C, called", ended)
    bug = next(bug for bug in bugs.BUGS if bug.way == "C, called")
    lines = [run.held(sets, "C, called", "ovp_decoder", "int4"), run.hunted(sets, bug)]

    assert [(line.good, line.outcome) for line in lines] == [(False, "ended: TypingError: no such function")] * 2


def test_kernels_retain_the_users_search_path(sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "numba_kernels.py"
    program.write_text("import json, seen; print(json.dumps({'where': seen.WHERE, 'rows': 1, 'seconds': 1.0}))")
    library = tmp_path / "library"
    library.mkdir()
    (library / "seen.py").write_text("WHERE = 'here'")
    monkeypatch.setenv("PYTHONPATH", str(library))

    assert ways.python_kernel(tmp_path, "numba", sets / "bfp_pe-paper", tmp_path).where == "here"


def test_the_reader_is_one_short_header() -> None:
    assert len((ways.HERE / "golden_set.h").read_text().splitlines()) < 150


@pytest.fixture(scope="module")
def program(sets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C program for the int4 decoder."""
    target = tmp_path_factory.mktemp("program") / "check"
    try:
        ways.compiled(ways.HERE, "ovp_decoder", sets / "ovp_decoder-int4", target, shared=False)
    except ways.Absent as reason:
        pytest.skip(str(reason))
    return target


def check(program: Path, *arguments: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)


def test_program_passes_and_says_how_many(program: Path, sets: Path) -> None:
    done = check(program, sets / "ovp_decoder-int4")
    rows = golden.load(sets / "ovp_decoder-int4").rows

    assert (0, f"PASS {rows} of {rows} rows") == (done.returncode, done.stdout.partition(",")[0])


def test_program_sees_one_flipped_bit(program: Path, sets: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(sets / "ovp_decoder-int4", tmp_path / "set")
    file = folder / "bin" / "out.base_int.bin"
    data = bytearray(file.read_bytes())
    data[21] ^= 4
    file.write_bytes(data)
    done = check(program, folder)

    assert done.returncode == 1
    assert "row 10, out.base_int[1]" in done.stdout
    assert "FAIL 1 of " in done.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda file: file.unlink(), "cannot be opened", id="missing"),
        pytest.param(lambda file: file.write_bytes(file.read_bytes()[:-1]), "its size differs", id="short"),
        pytest.param(lambda file: file.write_bytes(file.read_bytes() + b"\0"), "its size differs", id="long"),
    ],
)
def test_program_rejects_truncated_files(
    change: Callable[[Path], object], message: str, program: Path, sets: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(sets / "ovp_decoder-int4", tmp_path / "set")
    change(folder / "bin" / "in.pair.bin")
    done = check(program, folder)

    assert done.returncode == 2
    assert message in done.stderr


def test_program_rejects_a_different_set(program: Path, sets: Path) -> None:
    done = check(program, sets / "ovp_decoder-int8")

    assert (done.returncode, done.stdout) == (2, "")
    assert "its size differs" in done.stderr


def test_program_needs_a_set(program: Path) -> None:
    done = check(program)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"golden set: {program}: usage: SET [ANSWERS.csv]\n"


def test_stale_bug_raises_an_error(tmp_path: Path) -> None:
    """A replacement whose text is gone must not count as a detected bug."""
    stale = bugs.Bug("C, called", "bfp_pe", "", "bfp_dot.c", "no such text", "")

    with pytest.raises(ValueError, match="must occur once, got 0 times"):
        bugs.planted(stale, ways.HERE, tmp_path / "kernels")


def test_wrong_kernel_gives_exit_code_1(
    sets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answered(folder: Path, work: Path) -> ways.Run:
        made = golden.load(folder)
        np.savez(
            work / "answers.npz", **{name: array ^ 1 for name, array in made.arrays.items() if name.startswith("out.")}
        )
        return ways.Run("nowhere", made.rows, 1.0, work / "answers.npz")

    monkeypatch.setattr(run, "WAYS", {"wrong": answered})
    monkeypatch.setattr(run, "BUGS", [])
    monkeypatch.setattr(run, "UNITS", {"ovp_decoder": ("int4",)})
    monkeypatch.setattr(run, "sets", lambda out: None)
    monkeypatch.setattr(sys, "argv", ["run", "--out", str(sets)])

    assert run.main() == 1
    assert "rows differ; row 0, out.exponent[0]" in capsys.readouterr().out
