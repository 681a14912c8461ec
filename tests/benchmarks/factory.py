"""Made-up rows and contexts."""

from typing import Any

from benchmarks.pairs import Row

CONTEXT: dict[str, Any] = {
    "time": "2026-01-01T00:00:00Z",
    "commit": "abc",
    "refemu": "0",
    "cpu": "some CPU",
    "flags": ["avx2"],
    "machine": "x86_64",
    "affinity": [1],
    "cpus": 2,
    "load": 0.5,
    "python": "3.11",
    "numpy": "2",
    "rounding": "hardware",
    "packages": {"numba": "0.61"},
    "copy_gb_s": 50.0,
    "blas": {"name": "openblas", "version": "0.3", "core": ""},
}


def row(id: str = "PERF-1", ratio: float = 1.0, goal: float = 0.9, checked: bool = True, **more: Any) -> Row:
    """A row whose rival takes a millisecond."""
    fields: dict[str, Any] = {
        "what": "an operation",
        "rival": "another",
        "ours_s": 1e-3 / ratio,
        "rival_s": 1e-3,
        "low": ratio,
        "high": ratio,
        "first_s": 0.5,
        "peak_mb": 1.0,
    }
    return Row(id=id, ratio=ratio, goal=goal, checked=checked, **{**fields, **more})
