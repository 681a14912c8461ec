"""The same bits everywhere: CPU levels of NumPy and numba, BLAS kernels, threads, rounding path, JIT on and off, cache.

Every environment is a process of its own, and shows that its setting is really in force. `make test` has one of each
kind, `make test-slow` each setting by itself.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
CLEARED = (
    "NPY_DISABLE_CPU_FEATURES",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES",
    "NUMBA_DISABLE_JIT",
    "NUMBA_BOUNDSCHECK",
    "REFEMU_ROUND16",
    "REFEMU_CACHE",
)
ONE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
TWO = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
ON = {name for name, on in np._core._multiarray_umath.__cpu_features__.items() if on}
NO_AVX512 = {"NPY_DISABLE_CPU_FEATURES": "AVX512_ICL X86_V4"}
BASELINE = {"NPY_DISABLE_CPU_FEATURES": " ".join(name for name in ("AVX512_ICL", "X86_V4", "X86_V3") if name in ON)}

NATIVE, ALL_AT_ONCE, GENERIC = "native, one thread", "numpy baseline, BLAS Nehalem, two threads", "numba generic"

#: environment -> (variables, what the probe must show)
MATRIX: dict[str, tuple[dict[str, str], Callable[[dict[str, Any]], Any]]] = {
    NATIVE: (ONE, lambda shown: shown["jit"] and set(shown["blas_threads"]) <= {1}),
    ALL_AT_ONCE: (
        {**TWO, **BASELINE, "OPENBLAS_CORETYPE": "Nehalem"},
        lambda shown: (
            "X86_V3" not in shown["numpy"] and "Nehalem" in shown["blas"] and set(shown["blas_threads"]) == {2}
        ),
    ),
    GENERIC: (
        {**ONE, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
        lambda shown: set(shown["vector"]) <= {"xmm"} and shown["path"] == "portable",
    ),
    "two threads": (TWO, lambda shown: set(shown["blas_threads"]) <= {2}),
    "numpy without AVX-512": ({**ONE, **NO_AVX512}, lambda shown: "X86_V4" not in shown["numpy"]),
    "numpy baseline": ({**ONE, **BASELINE}, lambda shown: "X86_V3" not in shown["numpy"]),
    "BLAS Haswell": ({**ONE, "OPENBLAS_CORETYPE": "Haswell"}, lambda shown: "Haswell" in shown["blas"]),
    "BLAS Nehalem, two threads": ({**TWO, "OPENBLAS_CORETYPE": "Nehalem"}, lambda shown: "Nehalem" in shown["blas"]),
    "numba haswell": (
        {**ONE, "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""},
        lambda shown: "zmm" not in shown["vector"] and shown["path"] == "portable",
    ),
    "portable rounding": ({**ONE, "REFEMU_ROUND16": "portable"}, lambda shown: shown["path"] == "portable"),
    "bounds checked": ({**ONE, "NUMBA_BOUNDSCHECK": "1"}, lambda shown: shown["jit"]),
}
COMPILED = {GENERIC, "numba haswell", "portable rounding", "bounds checked"}  #: otherwise than in this process

#: a shorter search than `olive-4` has: the readable arithmetic runs without the JIT
READABLE = ("fp16", "olive-4:calibration_tokens=64,step=10")
#: heads of `tiny` are 16 wide, so its pages need other groups
LEANKV = "leankv:k_vec=1,k_group=4,v_vec=2,v_group=2,align=4+4,page_bytes=112,window=4,t_low=0.02,t_high=0.1"
SCHEMES = (*READABLE, "kllm-a4:calibration_windows=1", "harmonia-kv4", LEANKV)
FLOATS = SCHEMES[:1]  #: where each kernel has to be compiled; of the other schemes in slow runs
#: what is compared with NATIVE: environments and schemes
OTHERS = [(ALL_AT_ONCE, SCHEMES), (GENERIC, FLOATS)]
OTHERS += [pytest.param(name, SCHEMES, marks=pytest.mark.slow) for name in MATRIX if name not in (NATIVE, ALL_AT_ONCE)]


class Shown(NamedTuple):
    """What the process of an environment shows: hashes of logits and centroids, settings in force, files of sets."""

    hashes: dict[str, str]
    evidence: dict[str, Any]
    files: dict[str, bytes]


Probed = Callable[[str, tuple[str, ...]], Shown]


def probe(name: str, backend: str, schemes: tuple[str, ...], *options: str, **variables: str) -> Shown:
    """Run one process of the matrix."""
    inherited = {name: value for name, value in os.environ.items() if name not in CLEARED}
    words = [name, backend, ",".join(scheme.replace(",", ";") for scheme in schemes), *options]
    done = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", str(ROOT / "tests" / "environment_probe.py"), *words],
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return Shown(**json.loads(done.stdout.splitlines()[-1]), files={})


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def variables_of(name: str, code: Path) -> dict[str, str]:
    """The variables of an environment, and the folder of its compiled code: that of this process where it is equal."""
    common = os.environ.get("REFEMU_CACHE", "0")
    folder = code / name if name in COMPILED else code / "common" if common in ("", "0") else common
    return {**MATRIX[name][0], "REFEMU_CACHE": os.fspath(folder)}


def skip_without(name: str) -> None:
    """Levels that this processor does not have cannot be switched off."""
    if name.startswith(("numpy without", "numpy baseline")) and name != ALL_AT_ONCE and "X86_V4" not in ON:
        pytest.skip(f"{name}: this processor or NumPy has no level X86_V4")


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for compiled code, empty."""
    return tmp_path_factory.mktemp("code")


@pytest.fixture(scope="module")
def probed(code: Path, tmp_path_factory: pytest.TempPathFactory) -> Probed:
    """What an environment shows for `tiny`, with all schemes sets, too; each is run once."""

    @functools.cache
    def shown(name: str, schemes: tuple[str, ...]) -> Shown:
        folder = tmp_path_factory.mktemp("sets")
        options = ["--centroids"] + (["--generate", str(folder)] if schemes == SCHEMES else [])
        result = probe("tiny", "jit", schemes, *options, **variables_of(name, code))
        return result._replace(files=files(folder))

    return shown


@pytest.mark.long
@pytest.mark.parametrize(
    "variables", [{"NUMBA_DISABLE_JIT": "1"}, pytest.param({}, marks=pytest.mark.slow)], ids=["jit off", "jit on"]
)
def test_logits_are_those_of_the_readable_arithmetic(probed: Probed, variables: dict[str, str]) -> None:
    """The definition."""
    readable, native = probe("tiny", "numpy", READABLE, **ONE, **variables), probed(NATIVE, SCHEMES)

    assert readable.evidence["jit"] == (not variables) and MATRIX[NATIVE][1](native.evidence)
    assert readable.hashes == {scheme: native.hashes[scheme] for scheme in readable.hashes}
    assert len(readable.hashes) == len(READABLE)


@pytest.mark.long
@pytest.mark.parametrize(("name", "schemes"), OTHERS)
def test_logits_centroids_and_vectors_are_the_same_bits(name: str, schemes: tuple[str, ...], probed: Probed) -> None:
    skip_without(name)
    native, shown = probed(NATIVE, SCHEMES), probed(name, schemes)

    assert MATRIX[name][1](shown.evidence), shown.evidence
    assert shown.evidence["vector"] or name not in COMPILED, "code from a cache does not show its registers"
    assert len(native.hashes) == len(SCHEMES) + 1 and native.files
    assert shown.hashes == {what: native.hashes[what] for what in shown.hashes}
    assert len(shown.hashes) == len(schemes) + 1
    assert shown.files == (native.files if schemes == SCHEMES else {})


@pytest.mark.long
def test_cache_cold_and_warm_are_the_same(probed: Probed, code: Path) -> None:
    cold = probed(GENERIC, FLOATS)
    compiled = files(code / GENERIC)
    warm = probe("tiny", "jit", FLOATS, "--centroids", **variables_of(GENERIC, code))

    assert any(name.endswith(".nbi") for name in compiled) and compiled == files(code / GENERIC)
    assert warm.hashes == cold.hashes


@pytest.mark.long
@pytest.mark.model
@pytest.mark.parametrize(
    "name",
    [ALL_AT_ONCE]
    + [pytest.param(name, marks=pytest.mark.slow) for name in MATRIX if name not in (NATIVE, ALL_AT_ONCE)],
)
def test_logits_of_real_model_are_same_bits(name: str, real: Shown, smollm2: Any, code: Path) -> None:
    skip_without(name)
    shown = probe("smollm2-135m", "jit", ("fp16",), **variables_of(name, code))

    assert MATRIX[name][1](shown.evidence)
    assert shown.hashes == real.hashes


@pytest.fixture(scope="module")
def real(smollm2: Any, code: Path) -> Shown:
    """What this processor computes with one thread."""
    return probe("smollm2-135m", "jit", ("fp16",), **variables_of(NATIVE, code))
