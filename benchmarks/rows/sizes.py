"""A model of 1.1 B random weights: preparation of `fp16`, the second start, memory; and the search of `olive-4`.

Preparation alone, which keeps nothing, is measured on two blocks of that model, in memory.
"""

import os
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks import seeded_checkpoint, sizes
from benchmarks.pairs import AnyRow, First, Row, absolute, row, size
from refemu import models
from refemu.formats.olive import ovp_search
from refemu.formats.olive.compiled import ovp_search as compiled_run
from refemu.models.schemes.olive.config import OliveConfig

RATE, SEARCHED = 200e6, 10e6  #: weights a second and core, prepared and searched
START_S = 2.0  #: limit of the second start
ROWS_OF_WEIGHT, INPUTS = 256, 4096


def whole_starts() -> list[AnyRow]:
    """Two starts of the model from an empty cache; the checkpoint is written first and deleted afterwards."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        seeded_checkpoint.write(size("1b", "smallest"), folder / "checkpoint")
        time.sleep(size(3, 0))  # a file that changed this moment is digested but not remembered
        first, second = (sizes.child(folder, "fp16", 0) for _ in range(2))
    count = first["weights"]
    rates = f"{count / first['prepare_cpu_s'] / 1e6:.0f} M/s, {first['peak_mb']} MB at most"
    return [
        # with digests and files, which the goal of preparation alone leaves out
        _row("SIZE-PREPARE", f"fp16, 1.1 B weights, kept on disk: {rates}", count / RATE, first["prepare_cpu_s"], 0.0),
        _row("SIZE-START", f"fp16, second start: {second['anonymous_mb']} MB anonymous", START_S, second["start_s"]),
    ]


def _row(id: str, what: str, allowed: float, seconds: float, goal: float = 1.0) -> Row:
    first = First(seconds=seconds, compiling=0.0, result=None)
    return row(
        id, what, f"goal: {allowed:.1f} s" if goal else f"{allowed:.1f} s", [(allowed, seconds)], first, goal, True
    )


def preparation() -> list[Row]:
    """Scheme `fp16` from a mapped checkpoint of fp16, on one thread; without a cache, so no digest and no disk."""
    with tempfile.TemporaryDirectory() as place:
        model = models.load(seeded_checkpoint.write(size("two-blocks", "smallest"), Path(place) / "checkpoint"))
        count = int(sum(np.prod(shape) for shape in model.config.shapes.values()))

        def right(prepared: Any) -> bool:
            matrix, _ = prepared._linears[0, ("o",)]
            return np.array_equal(matrix.matrix(), model.tensor("blk.0.o").T)

        def prepare() -> Any:
            with mock.patch.dict(os.environ, REFEMU_PREPARED="0"):
                return models.prepare(model, "fp16")

        what = f"fp16 alone, {count // 10**6} M weights"
        return [absolute("SIZE-FP16", what, "goal: 200 M weights/s", count / RATE, prepare, right)]


def search() -> list[Row]:
    """All candidates of `olive-4` on normal weights with outliers."""
    rng = np.random.Generator(np.random.PCG64(0))
    weights = rng.standard_normal((size(ROWS_OF_WEIGHT, 4), size(INPUTS, 64)), np.float32)
    weights[rng.random(weights.shape) < 0.002] *= 20
    formats, few = OliveConfig().formats(4), 4

    def right(found: Any) -> bool:
        """The first rows are those that the readable search finds under the chosen format."""
        fmt, chosen = found
        want = ovp_search.search(weights[:few], fmt)
        return np.array_equal(chosen.scale[:few], want.scale) and np.array_equal(chosen.mse[:few], want.mse)

    allowed = weights.size / SEARCHED
    what = f"olive-4 search, {ROWS_OF_WEIGHT} x {INPUTS} weights"
    return [
        absolute(
            "SIZE-SEARCH",
            what,
            "goal: 10 M weights/s",
            allowed,
            lambda: compiled_run.select(weights, formats),
            right,
            clock=time.process_time,  # a separate thread searches
        )
    ]


ROWS = {"SIZE-FP16": preparation, "SIZE-PREPARE SIZE-START": whole_starts, "SIZE-SEARCH": search}
