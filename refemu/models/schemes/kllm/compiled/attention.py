"""Attention of one token under a KLLM scheme. Read attention.py first. [kllm §III-A, §IV-A]"""

import functools
from typing import NamedTuple

import numpy as np

from refemu.arith import fp16
from refemu.arith.fp16_compiled import plain
from refemu.arith.tables import table16
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.compiled.kmeans_row import Row
from refemu.formats.kllm.kmeans_tables import cartesian
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm.cache import IndexCache
from refemu.models.schemes.kllm.compiled.cache import Layout, layout_of
from refemu.models.schemes.kllm.compiled.product import Rows, multiply, table, widened
from refemu.models.schemes.kllm.compiled.token import kmeans_scores
from refemu.models.schemes.kllm.operands import Operands
from refemu.units.kllm.index_matmul import Scores


class TokenAttention(NamedTuple):
    """`Attention` of one token over the whole cache, from the arrays of all heads."""

    row: Row  #: the query
    codebook: Codebook  #: codebook of q
    logit: np.ndarray  #: float32 (heads, at least keys), fp16 values
    p: np.ndarray  #: float32 (heads, keys), fp16 values
    integer: np.ndarray  #: uint8 (heads, keys)
    scale: np.ndarray  #: float64 (heads,), fp16 values
    context: np.ndarray  #: fp16 values in float32 (1, heads * dim)

    @property
    def outliers(self) -> int:
        """Number of outliers of q."""
        return self.row.outliers

    @property
    def q(self) -> KMeansTensor:
        """The query."""
        return self.row.tensor(self.codebook)

    @property
    def logits(self) -> np.ndarray:
        """Logits of query head 0, float16 (1, keys)."""
        return fp16.to_f16(self.logit[:1, : self.p.shape[1]])

    @property
    def scores(self) -> Scores:
        """Scores of query head 0."""
        return Scores(self.integer[:1], fp16.to_f16(self.scale[:1]), fp16.to_f16(self.p[:1]))


class AttentionStep:
    """The attention of one block, one token at a time."""

    def __init__(self, operands: Operands, layer: int) -> None:
        q, k, v = (operands.formats[f"blk.{layer}.{name}"].codebook for name in "qkv")
        sizes = operands.sizes
        self.heads: int = sizes.heads
        self.kv_heads: int = sizes.kv_heads
        self.dim: int = sizes.head_dim
        self._group, self._largest = sizes.heads // sizes.kv_heads, (1 << operands.config.integer_bits) - 1
        self._codebook = q
        self._keys, self._values = plain(k.centroids)[None], plain(v.centroids)[None]
        self._products = table(cartesian(q, k).centroids, k.bits)
        self._entries = table(v.centroids, v.bits, self._largest)

    def run(self, row: Row, cache: IndexCache) -> TokenAttention | None:
        """Attention of the encoded q; None if its logits or scores are invalid."""
        length, layout = len(cache), layout_of(cache, self.kv_heads)
        logits = self._logits(row, layout, length)
        p, integers = np.empty((self.heads, length), np.float32), np.empty((self.heads, length), np.uint8)
        scale = np.empty(self.heads)
        if kmeans_scores(logits, _exp(), cache.v.arrays()[3], self._largest, p, integers, scale):
            return None
        context = self._context(Rows(integers, np.zeros(p.shape, np.uint8), p, scale), layout, length)
        return TokenAttention(row, self._codebook, logits, p, integers, scale, context.reshape(1, -1))

    def _logits(self, row: Row, layout: Layout, length: int) -> np.ndarray:
        """q times the keys, float32 (heads, space); values after `length` are undefined."""
        shape = self.heads, self.dim
        scale = np.full(self.heads, widened(row.scale))
        queries = Rows(
            row.codes.reshape(shape), row.mask.view(np.uint8).reshape(shape), row.value.reshape(shape), scale
        )
        limits, out = np.array([[self.dim, length]] * self._group), np.empty((self.heads, layout.room), np.float32)
        multiply(queries, layout.keys.columns(), self._keys, self._products, limits, out)
        return out

    def _context(self, scores: Rows, layout: Layout, length: int) -> np.ndarray:
        """float32 (heads, dim): integer scores times the values."""
        limits, out = np.array([[length, self.dim]] * self._group), np.empty((self.heads, self.dim), np.float32)
        multiply(scores, layout.values.columns(), self._values, self._entries, limits, out)
        return out


@functools.cache
def _exp() -> np.ndarray:
    """uint16 (65536,): words of exp, of an array type that kernels accept."""
    return plain(table16("exp"))
