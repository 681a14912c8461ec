"""How each kernel runs, and its answers to a golden set. A way that cannot run here says why."""

import ctypes
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.ctypeslib import ndpointer

from refemu.golden import load
from refemu.golden.files.hexfile import case_starts

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
#: unit -> C file and function
KERNELS = {"ovp_decoder": "ovp_decoder", "bfp_pe": "bfp_dot", "page_reader": "page_reader"}
PROGRAMS = {
    "paged_attention": "leankv",
    "prompt_compressor": "leankv",
    "page_reader": "pages",
    "prefix_sum": "memory",
    "kv_quantizer": "memory",
    "kv_compressor": "compressor",
}  #: unit -> end of the names of Python files
INPUTS = {
    "ovp_decoder": ("pair", "bias"),
    "page_reader": ("images", "n_high"),
    "bfp_pe": ("mode", "clear", "a_sign", "a_mag", "a_exp", "b", "b_sign", "b_exp", "w_scale"),
}
OUTPUTS = {
    "ovp_decoder": ("out.exponent", "out.base_int", "out.illegal"),
    "page_reader": ("out.key", "out.value", "out.score", "out.position"),
    "bfp_pe": ("out.acc", "out.flags", "st.psum", "st.value"),
}
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", "-ffp-contract=off"]
TIMED = 0.05  #: seconds that a fast kernel is repeated for


class Absent(Exception):
    """This way cannot run on this machine."""


@dataclass(frozen=True)
class Run:
    """A kernel that ran."""

    where: str  #: "gcc, ctypes", "simulator", or the name of a GPU
    rows: int
    seconds: float  #: of all rows
    answers: Path  #: what `refemu diff` reads


def compiler() -> str:
    """The C compiler of this machine."""
    for name in ("gcc", "cc", "clang"):
        if shutil.which(name):
            return name
    raise Absent("no C compiler; Debian, Ubuntu: apt-get install gcc libc6-dev")


def compiled(sources: Path, unit: str, folder: Path, target: Path, shared: bool) -> str:
    """Build the kernel against the headers of the set in `folder`; returns the compiler's name."""
    name, cc = KERNELS[unit], compiler()
    files = [sources / f"{name}.c", *([] if shared else [sources / f"check_{name}.c"])]
    how = ["-shared", "-fPIC"] if shared else []
    subprocess.run([cc, *FLAGS, *how, "-I", folder / "include", "-I", sources, *files, "-o", target, "-lm"], check=True)
    return cc


def c_library(folder: Path, work: Path, sources: Path = HERE) -> Run:
    """The C kernel in a shared object, called through ctypes on the arrays of the .npz."""
    golden = load(folder)
    unit = golden.manifest["unit"]
    target = work / f"{golden.name}.so"
    cc = compiled(sources, unit, folder, target, shared=True)
    inputs = [
        *([case_starts(golden.manifest)] if unit == "bfp_pe" else []),
        *(golden.arrays[f"in.{name}"] for name in INPUTS[unit]),
    ]
    answers = {name: np.zeros_like(golden.arrays[name]) for name in OUTPUTS[unit]}
    arrays = [*inputs, *answers.values()]
    function = getattr(ctypes.CDLL(str(target)), KERNELS[unit])
    function.argtypes = [ctypes.c_size_t, *(ndpointer(array.dtype, flags="C_CONTIGUOUS") for array in arrays)]
    function.restype = None
    seconds = timed(lambda: function(golden.rows, *arrays))
    np.savez(work / "answers.npz", **answers)
    return Run(f"{cc}, ctypes", golden.rows, seconds, work / "answers.npz")


def timed(call: Callable[[], None]) -> float:
    """Seconds of one call: the mean over TIMED seconds of them."""
    calls, begin = 0, time.perf_counter()
    while calls == 0 or time.perf_counter() - begin < TIMED:
        call()
        calls += 1
    return (time.perf_counter() - begin) / calls


def c_program(folder: Path, work: Path, sources: Path = HERE) -> Run:
    """The C kernel in a program of its own, which reads bin/ and compares by itself; its CSV is compared once more."""
    golden = load(folder)
    target, answers = work / f"check-{golden.name}", work / "answers.csv"
    cc = compiled(sources, golden.manifest["unit"], folder, target, shared=False)
    done = subprocess.run([target, folder, answers], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{target.name}: {done.stderr}")
    words = done.stdout.splitlines()[-1].split()
    if (words[0] == "PASS") != (done.returncode == 0):
        raise RuntimeError(f"{target.name}: exit code {done.returncode}, but: {done.stdout}")
    return Run(f"{cc}, program", golden.rows, float(words[-2]), answers)


def cuda(folder: Path, work: Path, sources: Path = HERE) -> Run:
    """The numba.cuda kernel, on a GPU or in the simulator."""
    return python_kernel(sources, "cuda", folder, work)


def triton(folder: Path, work: Path, sources: Path = HERE) -> Run:
    """The Triton kernel, on a GPU or in the interpreter."""
    for module in ("triton", "torch"):
        if not importlib.util.find_spec(module):
            raise Absent(f"{module} is not installed (extra `triton`, about 2 GB)")
    return python_kernel(sources, "triton", folder, work)


def own(file: Path, folder: Path, work: Path, device: str) -> Run:
    """A kernel of the user's, see own.py."""
    return started([HERE / "own.py", file, folder, work / "answers.npz", device], work)


def python_kernel(sources: Path, language: str, folder: Path, work: Path) -> Run:
    """Run a Python kernel in a process of its own: what chooses GPU or simulator must be set before an import."""
    program = sources / f"{language}_{PROGRAMS.get(load(folder).manifest['unit'], 'kernels')}.py"
    return started([program, folder, work / "answers.npz"], work)


def started(words: Sequence[str | Path], work: Path) -> Run:
    """Run a program, which writes answers.npz in `work` and ends with a line of JSON."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{Path(words[0]).name}: {done.stderr}")
    told = json.loads(done.stdout.splitlines()[-1])
    return Run(told["where"], told["rows"], told["seconds"], work / "answers.npz")


WAYS: Mapping[str, Callable[..., Run]] = {
    "C, called": c_library,
    "C, program": c_program,
    "numba.cuda": cuda,
    "Triton": triton,
}


def runs(way: str, unit: str) -> bool:
    """Whether there is a kernel of a unit to run so: in C of some only."""
    return unit in KERNELS or not way.startswith("C, ")
