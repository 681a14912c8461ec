"""KLLM's lanes edge by edge, a product of the paper's size on the chip, and the machine on a block of a model."""

import json
import subprocess
import time
from collections.abc import Callable

import numpy as np

from benchmarks.commands import REFEMU
from benchmarks.pairs import Absent, Row, absolute
from refemu.formats import Codebook, KMeans, TopK
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.fetch import store
from refemu.units.kllm.kllm_chip import ChipSizes, Product
from refemu.units.kllm.pe_lane import Slab
from refemu.units.kllm.twins import index_matmul as index_matmul_jit
from refemu.units.kllm.twins import kllm_chip as kllm_chip_jit

LANE_EDGES, PRODUCT_SECONDS = 100.0, 2.0  #: by the goals
MODEL, MACHINE_SECONDS = "smollm2-135m", 60.0
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
        ports = {port.name: [0] * port.lanes if port.lanes > 1 else 0 for port in device.ports.inputs}
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
            count=3,
        )
    ]


def operands(k: int, n: int) -> tuple[KMeansTensor, KMeansTensor]:
    """A token with 1 % outliers, and a weight."""
    rng, book = np.random.default_rng(2), Codebook(4, np.linspace(-1, 1, 16).astype(np.float16))
    token = KMeans(book, TopK("1")).encode(rng.standard_normal((1, k)).astype(np.float16))
    return token, KMeans(book).encode(rng.standard_normal((n, k)).astype(np.float16))


def product() -> list[Row]:
    """A matrix-vector product of 4096 x 4096 on sixteen lanes, every edge of each."""
    a, b = operands(SIZE, SIZE)
    weight = index_matmul_jit.prepare(b)
    due = index_matmul_jit.matmul(a, weight)

    def good(answer: Product) -> bool:
        return np.array_equal(answer.y, due.y) and answer.indices == due.indices

    return [
        absolute(
            "KLLM-CHIP",
            f"kllm_chip.matmul, compiled: 1 x {SIZE} x {SIZE} on 16 lanes, edge by edge",
            f"goal: {PRODUCT_SECONDS:g} s",
            PRODUCT_SECONDS,
            lambda: kllm_chip_jit.matmul(a, weight),
            good,
        )
    ]


def machine() -> list[Row | Absent]:
    """The command, from its start, preparation taken off: block 0 under kllm-a4, every result compared."""
    what = f"refemu machine: {MODEL}, kllm-a4, block 0, 16 tokens"
    if store.path(MODEL) is None:
        return [Absent("KLLM-MACHINE", what, f"no model: refemu models fetch {MODEL}")]
    words = [*REFEMU, "machine", "--model", MODEL, "--scheme", "kllm-a4", "--layer", "0", "--tokens", "16", "--json"]

    def command() -> str:
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout

    def equal(output: str) -> bool:
        operations = json.loads(output)["operations"] if output else []
        return bool(operations) and not any(operation["differing"] for operation in operations)

    goal = f"goal: {MACHINE_SECONDS:g} s"
    return [absolute("KLLM-MACHINE", what, goal, MACHINE_SECONDS, command, equal, count=3, clock=time.perf_counter)]


ROWS: dict[str, Callable[[], list[Row] | list[Row | Absent]]] = {
    "KLLM-LANE": lane,
    "KLLM-CHIP": product,
    "KLLM-MACHINE": machine,
}
