"""OliVe's array edge by edge, and its output stage."""

from collections.abc import Callable

import numpy as np

from benchmarks.pairs import Row, absolute, pairs
from benchmarks.rows.formats import numpy_encode
from refemu.units.olive.olive_requant import NO_BIAS
from refemu.units.olive.olive_requant import compiled as olive_requant_compiled
from refemu.units.olive.olive_systolic_clocked import OliveSystolicClocked, Product, multiply, tile

EDGES, ELEMENT_CYCLES = 2e3, 50e6  #: a second, by the goals
BIASES = 2, 2  #: biases of int4's outliers


def pair_words(lines: int, half: int, seed: int) -> np.ndarray:
    """Pairs of normal int4 values, and one with an outlier at the head of every line."""
    rng = np.random.default_rng(seed)
    low, high = (rng.integers(1, 8, (lines, half)) for _ in range(2))
    words = low | high << 4
    words[:, 0] = 0x85
    return words


def edges() -> list[Row]:
    """The readable array of 8 x 8 elements: a product of K = 128, then its drain."""
    a, b = pair_words(8, 64, 1), pair_words(8, 64, 2)
    inputs, due = tile(a, b, BIASES, 8, 8), multiply(a, b, BIASES, rows=8, cols=8)
    count = len(inputs["drain"])

    def stepped() -> list[tuple[int, ...]]:
        return [state.south for state in OliveSystolicClocked(8, 8).steps(**inputs)]

    return [
        absolute(
            "OLIVE-EDGE",
            f"olive_systolic_clocked 8 x 8, readable, {count} edges",
            "goal: 2,000 edges/s",
            count / EDGES,
            stepped,
            lambda south: np.array_equal(south[-8:][::-1], due.d),
            count=5,
        )
    ]


def products() -> list[Row]:
    """A whole product on the array of the paper: 16 tokens by a layer of SmolLM2-135M."""
    a, b = pair_words(16, 288, 1), pair_words(576, 288, 2)
    edge_count = multiply(a, b, BIASES).cycles
    table = np.arange(16) - 16 * (np.arange(16) >= 8)
    left, right = (np.stack([table[words & 15], table[words >> 4]], -1) for words in (a, b))
    for side in (left, right):
        side[:, 0] = 48, 0  # 0x85
    due = left.reshape(16, -1) @ right.reshape(576, -1).T

    def good(answer: Product) -> bool:
        return np.array_equal(answer.d, due) and answer.cycles == edge_count

    return [
        absolute(
            "OLIVE-ARRAY",
            f"olive_systolic_clocked 64 x 64: 16 x 576 x 576, {edge_count} edges of 4,096 elements",
            "goal: 50 M element-cycles/s",
            edge_count * 64 * 64 / ELEMENT_CYCLES,
            lambda: multiply(a, b, BIASES),
            good,
        )
    ]


def outputs() -> list[Row]:
    """Sums to fp16 words and to pairs, every register, compared with NumPy without registers."""
    rng = np.random.default_rng(4)
    acc = rng.integers(-(1 << 16), 1 << 16, (1 << 18, 2)).astype(np.int32)
    a, following = np.float32(0.01), np.float32(3.0)
    w = (rng.random((1 << 18, 2)) / 64).astype(np.float32)
    scale_a, scale_next = (np.full(len(acc), each.view(np.uint32)) for each in (a, following))
    bias, scale_w = np.full(acc.shape, NO_BIAS, np.uint16), w.view(np.uint32)

    def rival() -> tuple[np.ndarray, np.ndarray]:
        y = (acc.astype(np.float32) * (a * w)).astype(np.float16)
        return y.view(np.uint16), numpy_encode(y.astype(np.float32) / following)

    return [
        pairs(
            "OLIVE-REQUANT",
            "olive_requant, int4: 2^19 sums to fp16 and to pairs",
            "NumPy float32, float16, where chain",
            rival,
            lambda: olive_requant_compiled.run(acc, scale_a, scale_w, bias, scale_next),
            lambda theirs, ours: np.array_equal(theirs[0], ours.y) and np.array_equal(theirs[1].reshape(-1), ours.pair),
        )
    ]


ROWS: dict[str, Callable[[], list[Row]]] = {
    "OLIVE-EDGE": edges,
    "OLIVE-ARRAY": products,
    "OLIVE-REQUANT": outputs,
}
