"""The parts of a block for one token: through the kernels of a prompt, on prepared arrays.

Read block.py first. [kllm §III-A, §III-C, §III-D] `TokenBlocks` computes once what does not depend on the token; a
cache stores its tokens in the form of the kernels. Operations without such kernels, and invalid values, go to the
units.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from refemu.arith import fp16
from refemu.arith.fp16_compiled import plain, ready
from refemu.arith.jit import jit_is_off
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.compiled.kmeans_row import ONE, Encoder, Row, is_plain
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.formats.kllm.kmeans_outliers import TopK
from refemu.formats.kllm.kmeans_tables import squares
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm.attention import Attention
from refemu.models.schemes.kllm.block import Blocks, Gated, Linear
from refemu.models.schemes.kllm.cache import IndexCache
from refemu.models.schemes.kllm.compiled.attention import AttentionStep, TokenAttention
from refemu.models.schemes.kllm.compiled.packed import Packed, packed
from refemu.models.schemes.kllm.compiled.product import widened
from refemu.models.schemes.kllm.compiled.token import kmeans_function, kmeans_gated, kmeans_root
from refemu.models.schemes.kllm.operands import Group, Operands, not_finite
from refemu.models.schemes.kllm.tensors import widths
from refemu.units.kllm.index_function.index_function import function_words


class TokenLinear(NamedTuple):
    """Products of one token with the weights that read it: `Linear`."""

    x: np.ndarray
    row: Row
    codebook: Codebook
    outputs: list[np.ndarray]

    @property
    def outliers(self) -> int:
        """Codebook of the activation."""
        return self.row.outliers

    @property
    def a(self) -> KMeansTensor:
        """The activation."""
        return self.row.tensor(self.codebook)


class TokenGated(NamedTuple):
    """The activation of the gate, times up, of one token: `Gated`."""

    rows: tuple[Row, Row]  #: gate and up
    codebooks: tuple[Codebook, Codebook]
    entries: np.ndarray  #: float32, the activation of the gate's centroids
    values: np.ndarray  #: float32 (1, size), the activation of the gate
    product: np.ndarray

    @property
    def outliers(self) -> int:
        """Codebooks of both operands."""
        return self.rows[0].outliers + self.rows[1].outliers

    @property
    def gate(self) -> KMeansTensor:
        """The argument of the activation."""
        return self.rows[0].tensor(self.codebooks[0])

    @property
    def up(self) -> KMeansTensor:
        """The other factor."""
        return self.rows[1].tensor(self.codebooks[1])

    @property
    def function(self) -> KMeansTensor:
        """The activation of the gate: its indices, a table as codebook, scale 1."""
        gate = self.rows[0]
        book = Codebook(self.codebooks[0].bits, fp16.bits(fp16.to_f16(self.entries)))
        words = fp16.bits(fp16.to_f16(self.values[gate.mask]))
        return KMeansTensor(book, gate.codes, np.array([ONE], np.uint16), gate.mask, words)


class TokenGroup:
    """Linear layers that read one activation: `Group`."""

    def __init__(self, codebook: Codebook, group: Group) -> None:
        """codebook: of the activation."""
        self.full: str = group.full
        self.codebook: Codebook = codebook
        #: float32 squares of the centroids, after a delayed norm
        self.squares: np.ndarray | None = plain(squares(codebook).centroids) if group.norm else None
        #: float32 (weights, entries)
        self.centroids: np.ndarray = np.stack([weight.tensor.codebook.centroids for weight in group.weights])
        self._weights = group.weights

    @functools.cached_property
    def packed(self) -> Packed:
        """The weights; made at the first token, so that prompts alone need no memory for them."""
        return packed(self.codebook, self._weights)


class TokenBlocks:
    """All blocks of a decoder, for one token: `Blocks`."""

    def __init__(self, operands: Operands, blocks: Blocks) -> None:
        """operands: such that `suits` is true. blocks: for the other operations."""
        ready()
        self._operands, self._blocks = operands, blocks
        sizes = operands.sizes
        self._encoders = {
            full: Encoder(fmt, widths(sizes)[full.split(".")[2]]) for full, fmt in operands.formats.items()
        }
        self.groups: dict[tuple[int, tuple[str, ...]], TokenGroup] = {
            place: TokenGroup(operands.formats[group.full].codebook, group)
            for place, group in operands.groups.items()
            if group.norm != "layer" and group.gain is None and len(group.weights[0].right.index) <= 1 << 16
        }
        self._attention = [AttentionStep(operands, layer) for layer in range(sizes.blocks) if operands.attends]
        self._function = plain(function_words(sizes.activation)[1])

    def encode(self, full: str, x: np.ndarray) -> Row:
        """Activation `full` ("blk.3.k"), fp16 values (1, size)."""
        row = self._encoders[full].encode(plain(x))
        if row is None:
            raise not_finite(full)
        return row

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray) -> TokenLinear | Linear:
        """`Blocks.linear`; by the units after a norm that is not an RMSNorm with its gains in the weights."""
        group = self.groups.get((layer, tuple(names)))
        if group is None:
            return self._blocks.linear(layer, names, x)
        row = self.encode(group.full, x)
        scale, centroids = widened(row.scale), group.centroids
        if group.squares is not None:
            centroids = np.empty_like(group.centroids)
            eps = float(self._operands.sizes.rms_eps)
            root, scale = kmeans_root(
                row.codes, row.mask, row.value, scale, group.squares, eps, group.centroids, centroids
            )
            if not 0 < root < np.inf:
                return self._blocks.linear(layer, names, x)
        return TokenLinear(x, row, group.codebook, group.packed.times(row, float(scale), centroids))

    def attention(self, layer: int, q: np.ndarray, cache: IndexCache) -> TokenAttention | Attention:
        """`Blocks.attention`; by the units if a soft cap, ALiBi or a window acts on the logits."""
        rule = self._operands.sizes.score_rule(layer)
        if rule.cap or rule.slopes or rule.first(len(cache)):
            return self._blocks.attention(layer, q, cache)
        attention = self._attention[layer].run(self.encode(f"blk.{layer}.q", q), cache)
        return self._blocks.attention(layer, q, cache) if attention is None else attention

    def gated(self, layer: int, gate: np.ndarray, up: np.ndarray) -> TokenGated | Gated:
        """`Blocks.gated`."""
        left, right = f"blk.{layer}.gate", f"blk.{layer}.up"
        g, u = self.encode(left, gate), self.encode(right, up)
        a, b = self._encoders[left].centroids, self._encoders[right].centroids
        entries, values, product = (np.empty(shape, np.float32) for shape in (a.shape, gate.shape, gate.shape))
        bad = kmeans_function(g.codes, g.mask, g.word, _scale(g), a, self._function, entries, values)
        if bad or kmeans_gated(g.codes, g.mask, values, entries, u.codes, u.mask, u.value, _scale(u), b, product):
            return self._blocks.gated(layer, gate, up)
        books = self._operands.formats[left].codebook, self._operands.formats[right].codebook
        return TokenGated((g, u), books, entries, values, product)


def suits(operands: Operands) -> bool:
    """Whether kernels can compute single tokens of this decoder: the paper's arithmetic and datapath."""
    config = operands.config
    return (
        operands.backend.name == "jit"
        and not jit_is_off()
        and operands.arith == KllmArith()
        and config.score_scale == "fold"
        and config.function_table == "token"
        and all(is_plain(fmt) for fmt in operands.formats.values())
        and _room_for_outliers(operands)
    )


def _room_for_outliers(operands: Operands) -> bool:
    """Whether vectors are long enough for their outliers; else an encoder rejects the first token."""
    sizes = widths(operands.sizes)
    return all(
        not isinstance(fmt.outliers, TopK)
        or 2 * fmt.outliers.count(sizes[name.split(".")[2]]) < sizes[name.split(".")[2]]
        for name, fmt in operands.formats.items()
    )


def _scale(row: Row) -> np.float32:
    return np.float32(widened(row.scale))
