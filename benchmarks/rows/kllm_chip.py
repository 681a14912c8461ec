"""KLLM's lanes edge by edge, and a product of the paper's size on the chip."""

from collections.abc import Callable

import numpy as np

from benchmarks.pairs import Row, absolute, size
from refemu.formats import Codebook, KMeans, TopK
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled
from refemu.units.kllm.kllm_chip import ChipSizes, Product
from refemu.units.kllm.kllm_chip import compiled as kllm_chip_compiled
from refemu.units.kllm.pe_lane import Slab

LANE_EDGES, PRODUCT_SECONDS = 100.0, 2.0  #: by the goals
SIZE = 4096  #: positions and columns
COLUMNS, TURNS = 32, 8


def lane() -> list[Row]:
    """The readable lane of [kllm Table I]: a tile of 32 columns is counted and reduced."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 16, SIZE)
    ones = np.ones(SIZE, np.int64)
    columns = [rng.integers(0, 16, SIZE) for _ in range(COLUMNS)]
    stream = [Slab(a, b, ones, TURNS, 1, int(n == COLUMNS - 1)) for n, b in enumerate(columns)]
    due = np.bincount((a << 4 | columns[0]), minlength=256)
    edges = 128

    def stepped() -> tuple[int, ...]:
        device, waiting = ChipSizes().lane(4, 4), list(stream)
        ports = {port.name: port.filled(0) for port in device.ports.inputs}
        for _ in range(edges):
            given = {**ports, "turns": 1, "go": 1}
            if device.state.ready and waiting:
                given |= {"load": 1, **waiting.pop(0)._asdict()}
            device.step(**given)
        return tuple(device.state.counted)

    return [
        absolute(
            "KLLM-LANE",
            f"pe_lane of 4,096 Concat units, 32 counters, 32 MACs, readable, {edges} edges that count",
            "goal: 100 edges/s",
            edges / LANE_EDGES,
            stepped,
            lambda counted: np.array_equal(counted[:256], due),
            count=1,
        )
    ]


def operands(k: int, n: int) -> tuple[KMeansTensor, KMeansTensor]:
    """A token with 1 % outliers, and a weight."""
    rng, book = np.random.default_rng(2), Codebook(4, np.linspace(-1, 1, 16).astype(np.float16))
    token = KMeans(book, TopK("1")).encode(rng.standard_normal((1, k)).astype(np.float16))
    return token, KMeans(book).encode(rng.standard_normal((n, k)).astype(np.float16))


def product() -> list[Row]:
    """A matrix-vector product of 4096 x 4096 on sixteen lanes, every edge of each."""
    side = size(SIZE, 64)
    a, b = operands(side, side)
    weight = index_matmul_compiled.prepare(b)
    due = index_matmul_compiled.matmul(a, weight)

    def good(answer: Product) -> bool:
        return np.array_equal(answer.y, due.y) and answer.indices == due.indices

    return [
        absolute(
            "KLLM-CHIP",
            f"kllm_chip.matmul, compiled: 1 x {side} x {side} on 16 lanes, edge by edge",
            f"goal: {PRODUCT_SECONDS:g} s",
            PRODUCT_SECONDS,
            lambda: kllm_chip_compiled.matmul(a, weight),
            good,
        )
    ]


ROWS: dict[str, Callable[[], list[Row]]] = {
    "KLLM-LANE": lane,
    "KLLM-CHIP": product,
}
