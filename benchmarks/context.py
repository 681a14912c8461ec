"""Data for comparing two runs: machine, load, versions, BLAS, rounding path, copy speed."""

import importlib
import importlib.util
import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import refemu
from benchmarks.pairs import sample

FLAGS = (
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "asimd",
    "fphp",
    "sve",
)  #: CPU features that decide speed
PACKAGES = ("numba", "llvmlite", "scipy", "ml_dtypes", "gfloat", "apytypes", "scikit-learn", "torch")
ROOT = Path(__file__).resolve().parent.parent


def context() -> dict[str, Any]:
    """The current context of this process."""
    from refemu.arith import jit

    name, flags = _cpu()
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _commit(),
        "refemu": refemu.__version__,
        "cpu": name,
        "flags": flags,
        "machine": platform.machine(),
        "affinity": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [],
        "cpus": os.cpu_count() or 1,
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "packages": _packages(),
        "blas": _blas(),
        "rounding": jit.ROUND16,
        "copy_gb_s": _copy_speed(),
    }


def _cpu() -> tuple[str, list[str]]:
    """Its name and those of its flags that are in FLAGS."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    found = {key.strip(): value.strip() for key, _, value in reversed([line.partition(":") for line in lines])}
    known = set((found.get("flags") or found.get("Features") or "").split())
    return found.get("model name") or platform.processor(), [flag for flag in FLAGS if flag in known]


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def _packages() -> dict[str, str]:
    installed = {name.lower() for distribution in metadata.distributions() if (name := distribution.metadata["Name"])}
    return {
        name: metadata.version(name) for name in PACKAGES if name in installed or name.replace("_", "-") in installed
    }


def _blas() -> dict[str, str]:
    """Name and version, and the kernels that it chose for this CPU if threadpoolctl can report them."""
    built: Any = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "name": built["name"],
        "version": built["version"],
        "core": _core() or os.environ.get("OPENBLAS_CORETYPE", ""),
    }


def _core() -> str:
    if importlib.util.find_spec("threadpoolctl") is None:
        return ""
    pools = importlib.import_module("threadpoolctl").threadpool_info()
    return next((pool["architecture"] for pool in pools if pool.get("user_api") == "blas"), "")


def _copy_speed() -> float:
    """GB/s read and written by one thread that copies 16 MiB."""
    source, target = np.zeros(1 << 24, np.uint8), np.zeros(1 << 24, np.uint8)
    np.copyto(target, source)
    return round(2 * source.nbytes / sample(lambda: np.copyto(target, source), 8, time.thread_time) / 1e9, 1)
