"""Sums that lose nothing, and KLLM's sum of weighted counters (performance rows PERF-9, PERF-10, PERF-12)."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from benchmarks.pairs import Row, absolute, pairs, size
from benchmarks.rows.arith import normal
from refemu.arith import dot_compiled, exact, fp16
from refemu.arith.orders import Exact
from refemu.formats import OVP_INT4, OVP_INT8, Ovp
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.models.backend import Jit
from refemu.units.kllm import weighted_sum
from refemu.units.kllm.kernels import index_matmul
from refemu.units.kllm.weighted_sum import compiled as weighted_sum_compiled

SIZE, TILE = 4096, 512  #: columns whose counters are summed, and those of a tile
GOAL = "goal: 8 G MAC/s"


def integers() -> list[Row]:
    """Products of OVP values, 64 rows, through the backend as a scheme has them."""
    return [_integers("int4", OVP_INT4, 3.0, 0.9), _integers("int8", OVP_INT8, 100.0, 0.45)]


def _integers(name: str, fmt: Ovp, deviation: float, goal: float) -> Row:
    x, w = (fmt.encode(normal((rows, size(1024, 64)), rows) * np.float32(deviation)).decode() for rows in (64, 1024))
    backend, wide = Jit(), [side.astype(np.float32) for side in (x, w)]
    weights = backend.integer_weights(w)
    what = "as it is" if weights.digit_bits(int(np.abs(x).max())) == 0 else "in digits, for sums pass 2^24"
    return pairs(
        "PERF-9",
        f"OVP {name} values, 64 x 1024 x 1024, {what}",
        "sgemm, inexact beyond 2^24",
        lambda: wide[0] @ wide[1].T,
        lambda: backend.integer_matmul(wide[0], weights),
        lambda _, ours: np.array_equal(x @ w.T, ours),
        goal,
    )


def accumulator() -> list[Row]:
    """One row by fp16 weights, nothing rounded before the end."""
    side = size(1024, 64)
    a, b = (fp16.round16(normal(shape, 1)) for shape in ((1, side), (side, 128)))
    left, right = exact.steps(a[0]).tolist(), exact.steps(b.T).tolist()
    what = f"exact accumulator, fp16, 1 x {side} x 128"

    def python() -> list[int]:
        return [sum(x * y for x, y in zip(left, column, strict=True)) for column in right]

    def fractions() -> list[Fraction]:
        row, columns = ([Fraction(x) for x in side.ravel().tolist()] for side in (a, b.T))
        return [
            sum((x * y for x, y in zip(row, columns[at : at + len(row)], strict=True)), Fraction(0))
            for at in range(0, len(columns), len(row))
        ]

    def ours() -> np.ndarray:
        return dot_compiled.matmul(a, b, order=Exact(), acc="exact", out="fp32")

    def same(theirs: list[int], found: np.ndarray) -> bool:
        return [np.float32(exact.to_odd(total)) for total in theirs] == found[0].tolist()

    return [
        pairs(
            "PERF-10",
            what,
            "Python Fraction, not rounded",
            fractions,
            ours,
            lambda theirs, found: same([int(total / Fraction(2) ** exact.UNIT) for total in theirs], found),
            500.0,
            count=3,
        ),
        pairs("PERF-10", what, "Python integers made before, not rounded", python, ours, same, count=5),
        absolute("PERF-10", what, "goal: 0.1 G MAC/s", b.size / 0.1e9, ours, lambda found: same(python(), found)),
    ]


def counters() -> list[Row]:
    """256 counters of 4,096 columns by one codebook of products, in order: inside the index MatMul, and the unit."""
    count = np.random.default_rng(3).multinomial(SIZE, np.full(256, 1 / 256), SIZE)
    table = fp16.round16(normal((256,), 4))
    arith = KllmArith(acc="fp32")
    want, what = weighted_sum.sums(count, table, arith), f"weighted sum of 256 counters x {SIZE}, in order, fp32"
    tiles = np.ascontiguousarray(count.T.astype(np.uint8).reshape(16, 16, -1, TILE).transpose(2, 0, 1, 3))

    def inside() -> np.ndarray:
        sums = np.zeros((len(tiles), TILE), np.float32)
        for tile, columns in zip(tiles, sums, strict=True):
            for first, part in enumerate(tile):
                index_matmul.reduce_counts(part, table[16 * first : 16 * first + 16], columns, TILE, 0)
        return sums.ravel()

    def same(ours: np.ndarray) -> bool:
        return want.tobytes() == ours.tobytes()

    return [
        absolute("PERF-12", f"{what}, in the MatMul's tiles", GOAL, count.size / 8e9, inside, same),
        replace(
            absolute(
                "PERF-12",
                f"{what}, from int64 counts of a unit's ports",
                GOAL,
                count.size / 8e9,
                lambda: weighted_sum_compiled.sums(count, np.broadcast_to(table, count.shape), arith),
                same,
            ),
            goal=0.0,
        ),
    ]


ROWS: dict[str, Callable[[], list[Row]]] = {"PERF-9": integers, "PERF-10": accumulator, "PERF-12": counters}
