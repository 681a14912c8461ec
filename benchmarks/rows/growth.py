"""How cost grows with K, N, tokens, requests: series of pairs, each with a power fitted to its seconds."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.float32_forward import Forward
from benchmarks.pairs import Row, pairs, size
from benchmarks.rows.arith import normal
from benchmarks.rows.kllm import operands
from benchmarks.rows.leankv_memory import attention_row, step_row
from refemu import models
from refemu.arith import dot, dot_compiled
from refemu.arith.orders import Sequential
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.units.kllm import index_matmul
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled
from refemu.units.kllm.orizuru import compiled as orizuru_compiled

SCALES = (256, 512, 1024, 2048, 4096)
SMALL = 5  #: pairs of a point: the fit is over the points


def series(id: str, name: str, sizes: Sequence[int], row: Callable[[int], Row]) -> list[Row]:
    """The rows of `sizes` as one series; the smallest has two points."""
    return [replace(row(each), id=id, series=name, size=float(each)) for each in size(sizes, sizes[:2])]


def ordered() -> list[Row]:
    """Ordered matmul over K and over N."""
    return [
        *series("GROW-MATMUL", "ordered matmul, 16 x K x 1024, over K", SCALES, lambda k: _ordered(16, k, 1024)),
        *series("GROW-MATMUL", "ordered matmul, 16 x 1024 x N, over N", SCALES, lambda n: _ordered(16, 1024, n)),
    ]


def _ordered(m: int, k: int, n: int) -> Row:
    a, w = normal((m, k), 1), normal((n, k), 2)
    weights, want = dot_compiled.panels(w), dot.matmul(a, w[:8].T.copy(), order=Sequential(), acc="fp32")
    return pairs(
        "",
        f"{m} x {k} x {n}",
        "BLAS sgemm (no order)",
        lambda: a @ w.T,
        lambda: dot_compiled.matmul(a, weights, order=Sequential(), acc="fp32"),
        lambda _, ours: want.tobytes() == np.ascontiguousarray(ours[:, :8]).tobytes(),
        count=SMALL,
    )


def indexed() -> list[Row]:
    """Index MatMul of one token over K and over N."""
    return [
        *series("GROW-INDEX", "index MatMul, 1 x K x 1024, over K", SCALES, lambda k: _indexed(k, size(1024, 64))),
        *series("GROW-INDEX", "index MatMul, 1 x 1024 x N, over N", SCALES, lambda n: _indexed(size(1024, 64), n)),
    ]


def _indexed(k: int, n: int) -> Row:
    a, b = operands(1, k, n)
    few = operands(1, k, n)[1]
    few = replace(few, index=few.index[:, :2].copy(), mask=few.mask[:, :2].copy(), scale=few.scale[:2].copy())
    right, want = index_matmul_compiled.prepare(b), index_matmul.matmul(a, few).y
    x, kept = a.dequantize_fp16().astype(np.float32), b.codebook.centroids[b.index] * b.scales.astype(np.float32)
    return pairs(
        "",
        f"1 x {k} x {n}",
        "sgemm on kept float32 weights",
        lambda: x @ kept,
        lambda: index_matmul_compiled.matmul(a, right),
        lambda _, ours: want.tobytes() == np.ascontiguousarray(ours.y[:, :2]).tobytes(),
        count=SMALL,
    )


def selected() -> list[Row]:
    """Orizuru over the values of a token and over the outliers per side."""
    return [
        *series("GROW-ORIZURU", "Orizuru, 64 tokens of n, k = 16, over n", SCALES, lambda n: _selected(n, 16)),
        *series(
            "GROW-ORIZURU", "Orizuru, 64 tokens of 4096, over k", (4, 8, 16, 32, 64, 128), lambda k: _selected(4096, k)
        ),
    ]


def _selected(n: int, k: int) -> Row:
    x = normal((64, n), 5).astype(np.float16)
    wide = x.astype(np.float32)
    ends = np.sort(wide, axis=-1)

    def same(_: np.ndarray, ours: orizuru_compiled.Result) -> bool:
        low, top = (np.sort(np.take_along_axis(wide, index, -1), -1) for index in (ours.min_index, ours.max_index))
        return np.array_equal(low, ends[:, :k]) and np.array_equal(top, ends[:, -k:])

    return pairs(
        "",
        f"64 x {n}, k = {k} + {k}",
        "np.argpartition at both ends, float32",
        lambda: np.argpartition(wide, (k - 1, n - k), axis=-1),
        lambda: orizuru_compiled.pops(x, k),
        same,
        count=SMALL,
    )


def attended() -> list[Row]:
    """Attention of a whole prompt, and of one token over a cache in pages."""
    return [
        *series(
            "GROW-ATTENTION", "attention of a prompt, 9 heads of 64 on 3, over tokens", (64, 128, 256, 512), _attended
        ),
        *series(
            "GROW-PAGED",
            "one token over pages, 3 x 3 heads of 64, over tokens",
            (256, 512, 1024, 2048),
            lambda tokens: attention_row(tokens, 0.5),
        ),
    ]


def _attended(tokens: int) -> Row:
    q, k, v = (
        normal((tokens, heads, 64), seed).astype(np.float16).astype(np.float32)
        for seed, heads in ((1, 9), (2, 3), (3, 3))
    )
    scale, later = np.float32(0.125), np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)

    def rival() -> np.ndarray:
        scores = np.matmul(q.reshape(tokens, 3, 3, 64).transpose(1, 2, 0, 3), k.transpose(1, 2, 0)[:, None]) * scale
        e = np.exp(scores + later - scores.max(-1, keepdims=True))
        out = np.matmul(e / e.sum(-1, keepdims=True), v.transpose(1, 0, 2)[:, None])
        return out.transpose(2, 0, 1, 3).reshape(tokens, 9, 64)

    first = dot.attention(q[:8], k[:8], v[:8], scale=scale, start=0)  # tokens do not see later ones
    return pairs(
        "",
        f"{tokens} tokens",
        "NumPy float32",
        rival,
        lambda: dot_compiled.attention(q, k, v, scale=scale, start=0),
        lambda _, ours: first.tobytes() == ours[:8].tobytes(),
        count=SMALL,
    )


def managed() -> list[Row]:
    """A step of the page manager over requests."""
    return series(
        "GROW-PAGES",
        "step of the page manager, 30 x 3 heads, over requests",
        (1, 2, 4, 8, 16, 32),
        lambda requests: step_row(requests, 30, 3),
    )


class Bell:
    """Random fp16 weights of the sizes of `config`, scaled so that activations keep their size."""

    def __init__(self, config: ModelConfig) -> None:
        self._shapes = config.shapes
        self.names = tuple(self._shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a weight."""
        return self._shapes[name]

    def tensor(self, name: str) -> np.ndarray:
        """A weight, fp16 values; a norm's gains are 1."""
        shape = self._shapes[name]
        if len(shape) == 1:
            return np.ones(shape, np.float32)
        return (
            (normal(shape, self.names.index(name)) / np.float32(shape[1] ** 0.5)).astype(np.float16).astype(np.float32)
        )


def prefilled() -> list[Row]:
    """Prefill under `fp16` over tokens: four blocks of the widths of SmolLM2-135M, 1,024 words."""
    config = ModelConfig(
        blocks=size(4, 1), width=576, ffn=1536, heads=9, kv_heads=3, head_dim=64, vocab=1024, context=2048
    )
    model = Model("bell", config, Bell(config), "0" * 64)
    prepared, rival = models.prepare(model, "fp16"), Forward(model, 512)

    def row(tokens: int) -> Row:
        ids = list(np.random.default_rng(1).integers(0, 1024, tokens))

        def theirs() -> np.ndarray:
            rival.reset()
            return rival.append(ids)

        return pairs(
            "",
            f"{tokens} tokens, fp16, 4 blocks of 576",
            "float32 NumPy/BLAS",
            theirs,
            lambda: models.session(prepared).append(ids),
            _agree,
            count=3,
        )

    return series("GROW-PREFILL", "prefill, fp16, 4 blocks of 576, over tokens", (64, 128, 256, 512), row)


def _agree(theirs: np.ndarray, ours: np.ndarray) -> bool:
    """Nearly the same logits: theirs have no order and no rounding to fp16; `tests` hold ours to the bit."""
    return bool(np.abs(theirs - ours).max() < 0.05 * np.abs(theirs).max())


ROWS: dict[str, Callable[[], list[Row]]] = {
    "GROW-MATMUL": ordered,
    "GROW-INDEX": indexed,
    "GROW-ORIZURU": selected,
    "GROW-ATTENTION GROW-PAGED": attended,
    "GROW-PAGES": managed,
    "GROW-PREFILL": prefilled,
}
