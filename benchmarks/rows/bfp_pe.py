"""BFP dot products, compiled, against BLAS on decoded values and NumPy integer products (PERF-7, PERF-8)."""

from collections.abc import Callable

import numpy as np

from benchmarks.pairs import Row, pairs, size
from benchmarks.rows.arith import normal
from refemu.formats import BFP8
from refemu.formats.groupint import INT4_G128, GroupIntTensor
from refemu.formats.harmonia.bfp import BfpTensor
from refemu.formats.harmonia.bfp_dot import bfp_dot, bfp_dot_int
from refemu.formats.harmonia.compiled.bfp_dot import bfp_dot as bfp_dot_compiled
from refemu.formats.harmonia.compiled.bfp_dot import bfp_dot_int as bfp_dot_int_compiled
from refemu.formats.harmonia.compiled.bfp_dot import prepare

#: rows, inner, columns, goal
SHAPES = (
    (1, 2048, 2048, 1.2),
    (16, 2048, 2048, 0.7),
    (256, 2048, 2048, 0.7),
    (1, 576, 1536, 0.0),
    (256, 576, 1536, 0.0),
)
SHAPES_LEAST = ((1, 128, 32, 1.2), (4, 128, 32, 0.7))


def operands(rows: int, inner: int, columns: int) -> tuple[BfpTensor, GroupIntTensor]:
    """Activations in 8-bit mantissas, weights in INT4."""
    weights = normal((columns, inner), 2) * np.float32(0.02)
    return BFP8.encode(normal((rows, inner), 1).astype(np.float16)), INT4_G128.encode(weights)


def numpy_groups(a: BfpTensor, w: GroupIntTensor) -> np.ndarray:
    """A user's code: an integer product per group, the fp16 rounding, the factor, the sum."""
    x, codes, power, scale = a.signed(), w.grid(), a.powers(), w.scales_of(32).astype(np.float32)
    total = np.zeros((len(x), len(codes)), np.float32)
    for g in range(power.shape[1]):
        some = slice(32 * g, 32 * g + 32)
        sums = x[:, some].astype(np.float32) @ codes[:, some].T.astype(np.float32)
        half = np.ldexp(sums, power[:, g, None].astype(np.int32)).astype(np.float16).astype(np.float32)
        total = total + half * scale[:, g]
    return total


def weights() -> list[Row]:
    """A row, sixteen and many rows by INT4 weights; sizes of PERF-7, PERF-8 and of a layer of SmolLM2."""
    return [
        row for rows, inner, columns, goal in size(SHAPES, SHAPES_LEAST) for row in _weights(rows, inner, columns, goal)
    ]


def _weights(rows: int, inner: int, columns: int, goal: float) -> list[Row]:
    (a, w), name = operands(rows, inner, columns), "PERF-7" if rows == 1 else "PERF-8"
    ready, dense, x = prepare(w), w.dequantize().T.copy(), a.dequantize().astype(np.float32)
    want, what = bfp_dot_int(a, w), f"BFP8 x INT4, M={rows}, {inner} x {columns}, prepared"

    def ours() -> np.ndarray:
        return bfp_dot_int_compiled(a, ready)

    def right(_: np.ndarray, found: np.ndarray) -> bool:
        return found.tobytes() == want.tobytes()

    return [
        pairs(name, what, "sgemm on dequantized float32", lambda: x @ dense, ours, right, goal),
        pairs(name, what, "NumPy loop over groups", lambda: numpy_groups(a, w), ours, right, 3.0 if goal else 0.0),
    ]


def activations() -> list[Row]:
    """Scores: 8 by 8 bits in two groups of a head, against an exact integer product per group."""
    a, b = (BFP8.encode(normal((512, 64), seed).astype(np.float16)) for seed in (1, 2))
    ready, want = prepare(b), bfp_dot(a, b)
    x, y = (side.signed().reshape(512, 2, 32).transpose(1, 0, 2) for side in (a, b))

    def right(theirs: np.ndarray, ours: np.ndarray) -> bool:
        return np.array_equal(theirs, x @ y.transpose(0, 2, 1)) and ours.tobytes() == want.tobytes()

    rivals: dict[str, Callable[[], np.ndarray]] = {
        "NumPy int64 matmul, sums only": lambda: x @ y.transpose(0, 2, 1),
        "NumPy float32 matmul, sums only": lambda: x.astype(np.float32) @ y.transpose(0, 2, 1).astype(np.float32),
    }
    what = "BFP8 x BFP8, 512 x 64 x 512, prepared"
    return [
        pairs("BFP-BFP", what, name, rival, lambda: bfp_dot_compiled(a, ready), right) for name, rival in rivals.items()
    ]


ROWS: dict[str, Callable[[], list[Row]]] = {"PERF-7 PERF-8": weights, "BFP-BFP": activations}
