"""A decode step of a KLLM scheme: one token through the same kernels as a prompt, on arrays laid out beforehand.

Read kllm_layers.py and kllm_attention.py first. [kllm §III-A, §III-C, §III-D] What does not depend on the token is made
with the weights, and the cache of indices keeps its columns as the kernels read them. A function here returns None for
what it does not compute, or what has to be refused: then the units do it, or say why not.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from refemu.arith import float_jit, fp16
from refemu.arith.fp16_jit import plain, ready
from refemu.arith.jit import jit_is_off
from refemu.arith.panels import peak
from refemu.arith.tables import table16
from refemu.formats.codebook import Codebook
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans_outliers import TopK
from refemu.formats.kmeans_row_jit import Encoder, Row, is_plain
from refemu.formats.kmeans_tables import cartesian, squares
from refemu.models.schemes.kllm_cache import IndexCache
from refemu.models.schemes.kllm_calibrate import INPUTS
from refemu.units.index_function import function_words
from refemu.units.index_matmul_jit import Prepared

if TYPE_CHECKING:
    from refemu.models.schemes.kllm_layers import Kllm

NO_COUNTS, NO_UNITS = np.zeros((0, 0, 0), np.int32), np.zeros(0, np.int64)
NO_TOTALS, NO_SHIFT, NO_BIAS = np.zeros((0, 0), np.int64), np.zeros((0, 0)), np.zeros(0)
FP16 = float_jit.ACCUMULATORS["fp16"]


class Table(NamedTuple):
    """Entries that counts are multiplied by, and what is known of the sums."""

    entries: np.ndarray  #: float32
    size: int  #: entries of an index of B
    peak: float

    def counted(self, most: int) -> tuple[Any, ...]:
        """What `kmeans_dense` takes for counts up to `most`."""
        return self.entries, self.size, FP16, self.peak * most < fp16.OVERFLOW, most <= 2048, True


def table(entries: np.ndarray, bits: int) -> Table:
    """Of float32 entries for a right operand of `bits` bits."""
    return Table(plain(entries), 1 << bits, peak(entries))


class Weight(NamedTuple):
    """A weight as the kernels read it."""

    codes: np.ndarray  #: (K + 1, N), as `Prepared.index`
    outliers: tuple[np.ndarray, np.ndarray, np.ndarray]  #: starts, places, values
    scales: tuple[np.ndarray, np.ndarray]  #: float32, float64
    centroids: np.ndarray  #: float32 (1, entries)
    limits: np.ndarray
    counted: tuple[Any, ...]
    bias: np.ndarray


class Group(NamedTuple):
    """Linear layers that read one activation."""

    encoder: Encoder
    weights: list[Weight]
    squares: np.ndarray | None  #: behind a delayed norm: float32, of the activation's centroids
    entries: np.ndarray  #: float32 (weights, entries): their centroids


class Layer(NamedTuple):
    """The attention and the gate of a block."""

    encoders: dict[str, Encoder]
    logits: Table  #: q times k
    mixed: Table  #: centroids of v
    keys: np.ndarray  #: float32 (1, entries): centroids of k


class Laid:
    """Keys and values of a cache, head by head, as right operands that grow."""

    def __init__(self, cache: IndexCache, heads: int, room: int) -> None:
        """Room for as many tokens as the buffers of `cache`."""
        dim = cache.k.size // heads
        self.room, self.length, self.met = room, 0, [0, 0]
        self.index = np.zeros((heads, dim + 1, room), np.uint8), np.zeros((heads, room + 1, dim), np.uint8)
        self.starts = np.zeros((heads, dim + 1), np.int64), np.zeros((heads, room + 1), np.int64)
        self.places = [np.zeros((heads, 64), np.int64) for _ in "kv"]
        self.values = [np.zeros((heads, 64), np.float32) for _ in "kv"]
        self.scales = np.zeros(room, np.float32), np.zeros(room)  # of keys
        self.ones = np.ones(dim)

    def take(self, cache: IndexCache) -> None:
        """The tokens that came to the cache since."""
        end = len(cache)
        for side, held in enumerate((cache.k, cache.v)):
            index, mask, word, scale = held.arrays()
            self.met[side] += int(np.count_nonzero(mask[self.length : end]))
            if self.met[side] > self.places[side].shape[1]:
                self.places[side], self.values[side] = (
                    np.concatenate([x, np.zeros((len(x), 2 * self.met[side]), x.dtype)], axis=1)
                    for x in (self.places[side], self.values[side])
                )
            float_jit.kmeans_lay_out(
                index,
                mask,
                word,
                self.length,
                end,
                side,
                self.index[side],
                self.starts[side],
                self.places[side],
                self.values[side],
            )
            if side == 0:
                self.scales[0][self.length : end] = self.scales[1][self.length : end] = fp16.values(
                    scale[self.length : end]
                )
        self.length = end


class Step:
    """What decode steps need of a prepared decoder."""

    def __init__(self, parts: "Kllm") -> None:
        """parts: one that `suits`."""
        ready()
        self.eps, sizes = float(parts.model.rms_eps), parts.model
        self.heads, self.kv_heads, self.dim = sizes.heads, sizes.kv_heads, sizes.head_dim
        self.largest = (1 << parts.kllm.integer_bits) - 1
        self.exp = plain(table16("exp"))
        self.function = plain(function_words(sizes.activation)[1]) if sizes.gated else NO_UNITS
        self.groups = {
            key: _group(parts, key[0], key[1], weights)
            for key, weights in parts._linears.items()
            if _takes(parts, key[1])
        }
        self.layers = [_layer(parts, layer) for layer in range(sizes.blocks)]

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray) -> tuple[Row, list[np.ndarray]] | None:
        """`Kllm.linear` of one token x (1, size)."""
        group = self.groups.get((layer, tuple(names)))
        row = None if group is None else group.encoder.encode(plain(x))
        if group is None or row is None:
            return None
        scale, entries = float(_float(row.scale)), group.entries
        if group.squares is not None:
            entries = np.empty_like(group.entries)
            root, scale = float_jit.kmeans_root(
                row.codes, row.mask, row.value, scale, group.squares, self.eps, group.entries, entries
            )
            if not 0 < root < np.inf:
                return None
        mask, scales = row.mask.view(np.uint8), np.full(1, scale)
        return row, [_times(row, mask, scales, weight, entries[i : i + 1]) for i, weight in enumerate(group.weights)]

    def keep(self, layer: int, cache: IndexCache, keys: np.ndarray, values: np.ndarray) -> bool:
        """Encode and write the key and the value of one token; False where a value is not finite."""
        encoders = self.layers[layer].encoders
        k, v = (encoders[name].encode(plain(x.reshape(1, -1))) for name, x in (("k", keys), ("v", values)))
        if k is None or v is None:
            return False
        for held, row in ((cache.k, k), (cache.v, v)):
            held.write_row(len(cache), row)
        return True

    def attention(self, layer: int, q: np.ndarray, cache: IndexCache) -> tuple[Row, np.ndarray] | None:
        """`kllm_attention.attention` of one token q (1, heads, head_dim) over all that the cache holds."""
        own, length = self.layers[layer], len(cache)
        row = own.encoders["q"].encode(plain(q.reshape(1, -1)))
        if row is None:
            return None
        room = cache.k.room
        if cache.laid is None or cache.laid.room != room:
            cache.laid = Laid(cache, self.kv_heads, room)
        laid = cache.laid
        laid.take(cache)
        logits = self._logits(row, own, laid, length)
        p, integers = np.empty((self.heads, length), np.float32), np.empty((self.heads, length), np.uint8)
        scale = np.empty(self.heads)
        if float_jit.kmeans_scores(logits, self.exp, cache.v.arrays()[3], self.largest, p, integers, scale):
            return None
        return row, self._mixed(p, integers, scale, own, laid, length)

    def _logits(self, row: Row, own: Layer, laid: Laid, length: int) -> np.ndarray:
        group = self.heads // self.kv_heads
        index, value = (part.reshape(self.kv_heads, group, self.dim) for part in (row.codes, row.value))
        mask = row.mask.view(np.uint8).reshape(index.shape)
        limits, scale = np.array([[self.dim, length]] * group), np.full(group, float(_float(row.scale)))
        counted, out = own.logits.counted(self.dim), np.empty((self.heads, laid.room), np.float32)
        for head in range(self.kv_heads):
            operand = laid.index[0][head], laid.starts[0][head], laid.places[0][head], laid.values[0][head]
            _product(
                index[head],
                mask[head],
                value[head],
                0,
                operand,
                (laid.scales[0], own.keys),
                limits,
                counted,
                (scale, laid.scales[1], True, NO_BIAS),
                out[head * group : (head + 1) * group],
            )
        return out

    def _mixed(
        self, p: np.ndarray, integers: np.ndarray, scale: np.ndarray, own: Layer, laid: Laid, length: int
    ) -> np.ndarray:
        group = self.heads // self.kv_heads
        limits, mask = np.array([[length, self.dim]] * group), np.zeros((group, length), np.uint8)
        counted, out = own.mixed.counted(length * self.largest), np.empty((self.heads, self.dim), np.float32)
        for head in range(self.kv_heads):
            rows = slice(head * group, (head + 1) * group)
            operand = laid.index[1][head], laid.starts[1][head], laid.places[1][head], laid.values[1][head]
            _product(
                integers[rows],
                mask,
                p[rows],
                1,
                operand,
                (laid.scales[0], own.keys),
                limits,
                counted,
                (scale[rows], laid.ones, False, NO_BIAS),
                out[rows],
            )
        return out.reshape(1, -1)

    def gated(self, layer: int, gate: np.ndarray, up: np.ndarray) -> tuple[Row, Row, np.ndarray] | None:
        """`Kllm.activation` of one token."""
        encoders = self.layers[layer].encoders
        g, u = encoders["gate"].encode(plain(gate)), encoders["up"].encode(plain(up))
        if g is None or u is None:
            return None
        out = np.empty(gate.shape, np.float32)
        bad = float_jit.kmeans_gated(
            g.codes,
            g.mask,
            g.word,
            _float(g.scale),
            encoders["gate"].centroids,
            self.function,
            u.codes,
            u.mask,
            u.value,
            _float(u.scale),
            encoders["up"].centroids,
            out,
        )
        return None if bad else (g, u, out)


def suits(parts: "Kllm") -> bool:
    """Whether decode steps of this decoder can be taken here: the paper's arithmetic and datapath, by kernels."""
    config = parts.kllm
    return (
        parts.backend.name == "jit"
        and not jit_is_off()
        and parts.arith == KllmArith()
        and config.score_scale == "fold"
        and config.function_table == "token"
        and all(is_plain(fmt) for fmt in parts.formats.values())
        and _room_for_outliers(parts)
    )


def _room_for_outliers(parts: "Kllm") -> bool:
    """Vectors are long enough for their outliers; else an encoder refuses them, when there is a token."""
    sizes = _sizes(parts)
    return all(
        not isinstance(fmt.outliers, TopK)
        or 2 * fmt.outliers.count(sizes[name.split(".")[2]]) < sizes[name.split(".")[2]]
        for name, fmt in parts.formats.items()
    )


def _sizes(parts: "Kllm") -> dict[str, int]:
    sizes = parts.model
    wide, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    return {
        "attn_in": sizes.width,
        "q": wide,
        "k": keys,
        "v": keys,
        "o_in": wide,
        "ffn_in": sizes.width,
        "gate": sizes.ffn,
        "up": sizes.ffn,
        "down_in": sizes.ffn,
    }


def _takes(parts: "Kllm", names: Sequence[str]) -> bool:
    """Whether a group is here: not behind a norm that is delayed in another way than RMSNorm with folded gains."""
    delayed = INPUTS[tuple(names)] in ("attn_in", "ffn_in") and parts.kllm.norm == "delayed"
    return not delayed or (parts.model.norm == "rms" and parts.kllm.gamma == "weights")


def _encoder(parts: "Kllm", layer: int, tensor: str) -> Encoder:
    return Encoder(parts.formats[f"blk.{layer}.{tensor}"], _sizes(parts)[tensor])


def _group(parts: "Kllm", layer: int, names: Sequence[str], weights: Sequence[Prepared]) -> Group:
    tensor = INPUTS[tuple(names)]
    book = parts.formats[f"blk.{layer}.{tensor}"].codebook
    normed = tensor in ("attn_in", "ffn_in") and parts.kllm.norm == "delayed"
    made = [
        _weight(weight, book, parts.biases[f"blk.{layer}.w{name}"]) for weight, name in zip(weights, names, strict=True)
    ]
    return Group(
        _encoder(parts, layer, tensor),
        made,
        plain(squares(book).centroids) if normed else None,
        np.concatenate([weight.centroids for weight in made]),
    )


def _weight(given: Prepared, left: Codebook, bias: np.ndarray | None) -> Weight:
    book, (k, n) = given.tensor.codebook, given.index.shape
    products, scale = table(cartesian(left, book).centroids, book.bits), given.vectors.scale
    return Weight(
        given.index,
        (given.starts, given.places, given.values),
        (scale.astype(np.float32), plain(scale)),
        plain(book.centroids)[None],
        np.array([[k - 1, n]]),
        products.counted(k - 1),
        NO_BIAS if bias is None else bias.astype(np.float64),
    )


def _layer(parts: "Kllm", layer: int) -> Layer:
    names = ("q", "k", "v", "gate", "up") if parts.model.gated else ("q", "k", "v")
    q, k, v = (parts.formats[f"blk.{layer}.{name}"].codebook for name in "qkv")
    return Layer(
        {name: _encoder(parts, layer, name) for name in names},
        table(cartesian(q, k).centroids, k.bits),
        table(v.centroids, v.bits),
        plain(k.centroids)[None],
    )


def _times(row: Row, mask: np.ndarray, scale: np.ndarray, weight: Weight, centroids: np.ndarray) -> np.ndarray:
    """A token times a weight, float32 (1, outputs)."""
    out = np.empty((1, weight.codes.shape[1]), np.float32)
    _product(
        row.codes,
        mask,
        row.value,
        0,
        (weight.codes, *weight.outliers),
        (weight.scales[0], centroids),
        weight.limits,
        weight.counted,
        (scale, weight.scales[1], True, weight.bias),
        out,
    )
    return out


def _product(
    index: np.ndarray,
    mask: np.ndarray,
    value: np.ndarray,
    amounts: int,
    b: tuple[np.ndarray, ...],
    sparse: tuple[np.ndarray, np.ndarray],
    limits: np.ndarray,
    counted: tuple[Any, ...],
    merged: tuple[Any, ...],
    out: np.ndarray,
) -> None:
    """Rows of A times B, float32 into `out` up to the columns that `limits` name."""
    places, values = b[2:]
    inside, outside = np.zeros(out.shape, np.float32), np.empty(out.shape, np.float32)
    float_jit.kmeans_dense(
        index, mask, amounts, b[0], b[1], places, limits, *counted, inside, NO_COUNTS, NO_UNITS, NO_TOTALS
    )
    float_jit.kmeans_sparse(mask, value, b[0], *sparse, b[1], places, values, limits, FP16, outside)
    a_scale, b_scale, joint, bias = merged
    float_jit.kmeans_merge(inside, a_scale, b_scale, outside, NO_SHIFT, bias, True, joint, limits, out)


def _float(word: int) -> np.float32:
    """The value of a positive fp16 word."""
    return np.float32(np.uint16(word).view(np.float16))
