"""A seeded model of 1.1 B weights: preparation of `fp16`, the second start, memory; and the search of `olive-4`."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import seeded_checkpoint, sizes
from benchmarks.pairs import Absent, First, Row, absolute, row
from refemu.formats.olive.twins import ovp_search
from refemu.models.schemes.olive.config import OliveConfig

RATE, SEARCHED = 200e6, 10e6  #: weights a second and core, prepared and searched
START_S = 2.0  #: of the second start
ROWS_OF_WEIGHT, INPUTS = 256, 4096


def whole_starts() -> list[Row | Absent]:
    """Two starts of the model from an empty cache; the checkpoint is written first and deleted afterwards."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        seeded_checkpoint.write("1b", folder / "checkpoint")
        time.sleep(3)  # a file that changed this moment is digested but not remembered
        first, second = (sizes.child(folder, "fp16", 0) for _ in range(2))
    count = first["weights"]
    rates = f"{count / first['prepare_cpu_s'] / 1e6:.0f} M/s, {first['peak_mb']} MB at most"
    return [
        _row("SIZE-PREPARE", f"fp16, 1.1 B weights, kept on disk: {rates}", count / RATE, first["prepare_cpu_s"]),
        _row("SIZE-START", f"fp16, second start: {second['anonymous_mb']} MB anonymous", START_S, second["start_s"]),
    ]


def _row(id: str, what: str, allowed: float, seconds: float) -> Row:
    first = First(seconds=seconds, compiling=0.0, result=None)
    return row(id, what, f"goal: {allowed:.1f} s", [(allowed, seconds)], first, 1.0, True)


def search() -> list[Row]:
    """All candidates of `olive-4` on normal weights with outliers."""
    rng = np.random.Generator(np.random.PCG64(0))
    weights = rng.standard_normal((ROWS_OF_WEIGHT, INPUTS), np.float32)
    weights[rng.random(weights.shape) < 0.002] *= 20
    formats, few = OliveConfig().formats(4), weights[:4]
    _, want = _readable(few, formats)

    def right(found: Any) -> bool:
        return found[0] is not None and ovp_search.select(few, formats)[1].equals(want)

    allowed = weights.size / SEARCHED
    what = f"olive-4 search, {ROWS_OF_WEIGHT} x {INPUTS} weights"
    return [absolute("SIZE-SEARCH", what, "goal: 10 M weights/s", allowed, lambda: _select(weights, formats), right)]


def _select(weights: np.ndarray, formats: Any) -> Any:
    return ovp_search.select(weights, formats)


def _readable(weights: np.ndarray, formats: Any) -> Any:
    from refemu.formats.olive import ovp_search as readable

    return readable.select(weights, formats)


ROWS = {"SIZE-PREPARE SIZE-START": whole_starts, "SIZE-SEARCH": search}
