"""The same bits everywhere: CPU levels of NumPy and numba, BLAS kernels, threads, rounding path, JIT on and off, cache.

Every environment is a process of its own, and shows that its setting is really in force.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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
NO_AVX512 = "AVX512_ICL X86_V4"
ON = {name for name, on in np._core._multiarray_umath.__cpu_features__.items() if on}

#: environment -> (variables, what the probe must show)
MATRIX: dict[str, tuple[dict[str, str], Any]] = {
    "native, one thread": (ONE, lambda shown: shown["jit"] and set(shown["blas_threads"]) <= {1}),
    "two threads": (TWO, lambda shown: set(shown["blas_threads"]) <= {2}),
    "numpy without AVX-512": (
        {**ONE, "NPY_DISABLE_CPU_FEATURES": NO_AVX512},
        lambda shown: "X86_V4" not in shown["numpy"],
    ),
    "numpy baseline": (
        {**ONE, "NPY_DISABLE_CPU_FEATURES": f"{NO_AVX512} X86_V3"},
        lambda shown: "X86_V3" not in shown["numpy"],
    ),
    "BLAS Haswell": ({**ONE, "OPENBLAS_CORETYPE": "Haswell"}, lambda shown: "Haswell" in shown["blas"]),
    "BLAS Nehalem, two threads": ({**TWO, "OPENBLAS_CORETYPE": "Nehalem"}, lambda shown: "Nehalem" in shown["blas"]),
    "numba haswell": (
        {**ONE, "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""},
        lambda shown: "zmm" not in shown["vector"] and shown["vector"],
    ),
    "numba generic": (
        {**ONE, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
        lambda shown: shown["vector"] == ["xmm"],
    ),
    "portable rounding": ({**ONE, "REFEMU_ROUND16": "portable"}, lambda shown: shown["path"] == "portable"),
    "bounds checked": ({**ONE, "NUMBA_BOUNDSCHECK": "1"}, lambda shown: shown["jit"]),
}


#: what numba compiles alike for: one of them compiles, the others take its code
ALIKE = {
    "native, one thread",
    "two threads",
    "numpy without AVX-512",
    "numpy baseline",
    "BLAS Haswell",
    "BLAS Nehalem, two threads",
}


def variables_of(name: str, code: Path) -> dict[str, str]:
    """The variables of an environment, with the compiled code in `code` where it is the same."""
    return MATRIX[name][0] | ({"REFEMU_CACHE": str(code)} if name in ALIKE else {})


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the code of environments that are ALIKE."""
    return tmp_path_factory.mktemp("code")


def probe(*arguments: str, **variables: str) -> dict[str, Any]:
    """Run one process of the matrix."""
    inherited = {name: value for name, value in os.environ.items() if name not in CLEARED}
    done = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", str(ROOT / "tests" / "environment_probe.py"), *arguments],
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def skip_without(name: str) -> None:
    """Levels that this processor does not have cannot be switched off."""
    if "numpy" in name and "X86_V4" not in ON:
        pytest.skip(f"{name}: this processor or NumPy has no level X86_V4")


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    """Logits of `tiny` under the readable arithmetic: the definition."""
    return probe("tiny", "numpy", "fp16,olive-4", **ONE)["hashes"]


@pytest.fixture(scope="module")
def first_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "first"
    probe("tiny", "jit", "fp16", "--generate", str(folder), **ONE)  # compiled without a cache
    return folder


@pytest.mark.parametrize("name", MATRIX)
def test_logits_and_vectors_are_the_same_bits(
    name: str, expected: dict[str, str], first_set: Path, code: Path, tmp_path: Path
) -> None:
    skip_without(name)
    second = tmp_path / "second"
    shown = probe("tiny", "jit", "fp16,olive-4", "--generate", str(second), **variables_of(name, code))

    assert MATRIX[name][1](shown["evidence"]), shown["evidence"]
    assert shown["hashes"] == expected
    assert files(second) == files(first_set)


def test_numpy_backend_is_the_same_without_jit(expected: dict[str, str]) -> None:
    shown = probe("tiny", "numpy", "fp16,olive-4", NUMBA_DISABLE_JIT="1", **ONE)

    assert not shown["evidence"]["jit"]
    assert shown["hashes"] == expected


def test_cache_cold_and_warm_are_the_same(expected: dict[str, str], tmp_path: Path) -> None:
    runs = [probe("tiny", "jit", "fp16,olive-4", REFEMU_CACHE=str(tmp_path), **ONE)["hashes"] for _ in range(2)]

    assert any(tmp_path.rglob("*.nbi"))
    assert runs == [expected, expected]


SMOLLM2 = [
    "native, one thread",
    "two threads",
    "numpy baseline",
    "BLAS Nehalem, two threads",
    "numba generic",
    "portable rounding",
]


@pytest.mark.model
def test_logits_of_the_real_model_are_the_same_bits(smollm2: Any, code: Path) -> None:
    shown = {}
    for name in SMOLLM2:
        if "numpy" in name and "X86_V4" not in ON:
            continue
        shown[name] = probe("smollm2-135m", "jit", "fp16", **variables_of(name, code))
        assert MATRIX[name][1](shown[name]["evidence"])

    assert len({result["hashes"]["fp16"] for result in shown.values()}) == 1
    assert len(shown) >= 5


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    found = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
    assert found
    return found
