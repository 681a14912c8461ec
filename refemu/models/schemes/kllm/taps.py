"""Taps of KLLM's units: values at their ports while a model runs.

A tap shows complete operations of the model: the configuration of a case has the sizes of its tensors, and is a ready
one only if a ready one has these sizes. Of the many operations of a tensor these are shown: those of the token with the
largest value, of the first column, and of the first query whose visible keys match the lanes of a ready configuration
or the window of the block. All values come from the records of the parts of a block.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu import units
from refemu.arith import fp16
from refemu.formats.kllm.kmeans_outliers import TopK
from refemu.formats.kllm.kmeans_tables import cartesian
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm import vectors
from refemu.models.schemes.kllm.attention import Attention
from refemu.models.schemes.kllm.block import Gated, Linear, Plain
from refemu.models.schemes.kllm.cache import IndexCache, cut, outlier_words
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.kllm.operands import Operands
from refemu.models.schemes.scheme import Half
from refemu.models.taps import Watch, config_of, model_case, sized
from refemu.units.kllm.index_matmul import Scores

if TYPE_CHECKING:
    from refemu.models.schemes.kllm.compiled.attention import TokenAttention
    from refemu.models.schemes.kllm.compiled.block import TokenGated, TokenLinear

INDEX_UNITS = ("index_counter", "index_function", "index_matmul", "index_norm", "index_product")
UNITS = ("clustering", "concat", "functional", *INDEX_UNITS, "orizuru", "score_quantizer", "weighted_sum")
OTHERS: dict[Half, tuple[str, ...]] = {  #: units that a half does not use
    "linear": ("functional", "score_quantizer"),
    "attention": ("index_function", "index_norm", "index_product"),
}


def tapped(config: KllmConfig, half: Half | None = None) -> tuple[str, ...]:
    """The units whose ports a run under `config` can show, in alphabetical order. half: None for both."""
    if config.quantizer == "rtn":
        return ()
    there = [unit for unit in UNITS if unit != "orizuru" or config.thresholds == "dynamic"]
    return tuple(unit for unit in there if unit not in (OTHERS[half] if half else ()))


class Taps:
    """The taps of one scheme in one block."""

    def __init__(self, operands: Operands, layer: int, watch: Watch) -> None:
        self._operands, self._config, self._sizes = operands, operands.config, operands.sizes
        self._layer, self._watch = layer, watch

    def __repr__(self) -> str:
        return f"Taps(layer={self._layer})"

    def linear(self, names: Sequence[str], linear: "Linear | TokenLinear") -> None:
        """The activation, its norm, and its product with every weight."""
        group, a = self._operands.group(self._layer, names), linear.a
        self._encoded(group.full, linear.x, a)
        if group.norm:
            self._normed(group.full, a, group.weights[0].tensor)
        for weight in group.weights:
            self._product(self._full(weight.name), a, weight.tensor)

    def attention(self, x: np.ndarray, attention: "Attention | TokenAttention", cache: IndexCache) -> None:
        """Query head 0: q, float32 (tokens, size), its product with K, the softmax, the scores and their product."""
        q, tokens, length = attention.q, len(x), len(cache)
        head = slice(self._sizes.head_dim)
        keys, values = (side.tensor(length, head) for side in (cache.k, cache.v))
        seen = np.arange(length - tokens + 1, length + 1)
        self._encoded(self._full("q"), x, q)
        self._product(self._full("logits"), cut(q, head), keys)
        window = self._sizes.score_rule(self._layer).window
        whole = np.where(seen <= (window or length), seen, 0)  # 0: its oldest keys are invisible
        self._softmax(attention.logits, whole)
        self._scores(attention.scores, cache.v.scale(length), whole)
        self._mixed(attention.scores, values, whole)

    def gated(self, gate: np.ndarray, up: np.ndarray, gated: "Gated | TokenGated") -> None:
        """Both operands, float32 (tokens, size), the gate's table, and the product."""
        argument, right = gated.gate, gated.up
        self._encoded(self._full("gate"), gate, argument)
        self._encoded(self._full("up"), up, right)
        self._table("gate", argument)
        if self._watch.wants("index_product"):
            token = vectors.peak(right)
            parameters = {"a_bits": argument.bits, "b_bits": right.bits}
            inputs = vectors.factor("a", gated.function, token) | vectors.factor("b", right, token)
            why = "the token with the largest outlier of up"
            self._emit("index_product", parameters, why, self._full("down_in"), inputs, token=token)

    def plain(self, up: np.ndarray, plain: Plain) -> None:
        """The operand, float32 (tokens, size), and its table."""
        self._encoded(self._full("up"), up, plain.up)
        self._table("up", plain.up)

    def _full(self, name: str) -> str:
        return f"blk.{self._layer}.{name}"

    def _emit(
        self,
        unit: str,
        parameters: Mapping[str, Any],
        why: str,
        tensor: str,
        inputs: Mapping[str, Any],
        sizes: Mapping[str, Any] | None = None,
        **source: Any,
    ) -> None:
        """inputs: arrays by port, with the axis of cases first. sizes: parameters that depend on the model."""
        name = sized(unit, parameters, **(sizes or {})) if self._watch.wants(unit) else None
        if name is not None:
            first = {"first_token": self._watch.first_token, **source}
            self._watch.emit(self._layer, unit, model_case(why, name, tensor, self._layer, inputs, **first))

    def _lanes(self, unit: str, parameters: Mapping[str, Any], size: str) -> int:
        """Number of keys in the case of a query: as many as a ready configuration or a window has.

        0 if there is no configuration.
        """
        name = config_of(unit, parameters)
        lanes = 0 if name is None else int(units.find(unit).configs[name][size])
        return min(lanes, self._sizes.score_rule(self._layer).window or lanes)

    def _encoded(self, full: str, x: np.ndarray, a: KMeansTensor) -> None:
        """An activation, float32 (tokens, size), and its indices: the token with the largest value."""
        token = int(np.argmax(np.abs(x).max(axis=1)))
        if self._watch.wants("orizuru"):
            self._sorted(full, x, token)
        if self._watch.wants("clustering"):
            inputs = vectors.inliers(fp16.bits(fp16.to_f16(x[token])), a, token)
            parameters = {"bits": a.bits, "preset": self._config.preset}
            source: dict[str, Any] = {"largest": float(np.abs(x).max()), "token": token}
            self._emit("clustering", parameters, "inliers of the token with the largest value", full, inputs, **source)

    def _sorted(self, full: str, x: np.ndarray, token: int) -> None:
        """The values that Orizuru ranks."""
        words, tensor = fp16.bits(fp16.to_f16(x[token])), full.rpartition(".")[2]
        percent = self._config.percent(tensor)
        if percent is None or self._config.static(tensor, self._operands.function):
            return
        parameters = {"min_leaf": "not_max", "total_order": False}
        source = {"largest": float(np.abs(x).max()), "token": token}
        sizes = {"n": len(words), "k": TopK(percent).count(len(words))}
        self._emit("orizuru", parameters, "the token with the largest value", full, {"x": words[None]}, sizes, **source)

    def _normed(self, full: str, a: KMeansTensor, weight: KMeansTensor) -> None:
        """The operands of a norm, and the weight whose centroids it divides."""
        parameters = {"norm": self._sizes.norm, "preset": self._config.preset}
        eps = float(f"{np.float32(self._sizes.rms_eps)!s}")
        sizes = {"n": a.length, "bits": a.bits, "weight_bits": weight.bits, "eps": eps}
        token = vectors.peak(a)
        ports = _ports("index_norm", parameters)
        inputs = vectors.case({name: part[token] for name, part in vectors.normed(a, weight).items() if name in ports})
        why = "the token with the largest outlier"
        self._emit("index_norm", parameters, why, full, inputs, sizes, token=token)

    def _product(self, tensor: str, a: KMeansTensor, b: KMeansTensor) -> None:
        """K-Means x K-Means: a token and a column, b's first vector."""
        token = vectors.peak(a)
        source: dict[str, Any] = {
            "token": token,
            "column": 0,
            "largest": float(np.abs(fp16.values(outlier_words(a))).max()),
        }
        table = cartesian(a.codebook, b.codebook).values
        self._column(tensor, a, b, token, table, source)
        left = vectors.operand("a", a, token) | {"a_codebook": a.codebook.values}
        right = vectors.operand("b", b, 0) | {"b_codebook": b.codebook.values}
        inputs, why = vectors.case({**left, **right, "products": table}), "the token with the largest outlier"
        parameters = self._matmul(a.bits, b.bits, False)
        self._emit("index_matmul", parameters, why, tensor, inputs, {"k": a.length}, **source)

    def _matmul(self, a_bits: int, b_bits: int, integer: bool) -> dict[str, Any]:
        return {"a_bits": a_bits, "b_bits": b_bits, "integer": integer, "preset": self._config.preset}

    def _column(
        self, tensor: str, a: KMeansTensor, b: KMeansTensor, token: int, table: np.ndarray, source: dict[str, Any]
    ) -> None:
        """The units inside a K-Means x K-Means product, over one column."""
        index, column = a.index[token], b.index[0]
        if self._watch.wants("concat"):
            parameters = {"a_bits": a.bits, "b_bits": b.bits}
            inputs = {"a": vectors.cycles(index)[0], "b": vectors.cycles(column)[0]}
            self._emit("concat", parameters, "indices of a token and of a column", tensor, inputs, **source)
        joint, valid = (index.astype(np.int64) << b.bits) | column, ~(a.mask[token] | b.mask[0])
        self._counted(tensor, joint, valid, None, table, source)

    def _counted(
        self,
        tensor: str,
        q: np.ndarray,
        valid: np.ndarray,
        amount: np.ndarray | None,
        table: np.ndarray,
        source: dict[str, Any],
    ) -> None:
        """The counter over all cycles, and the weighted sum of its counts. table: words, an entry per counter."""
        why, bits = "one output column", table.size.bit_length() - 1
        if self._watch.wants("index_counter"):
            parts = {"q": q, "valid": valid} | ({} if amount is None else {"amount": amount})
            inputs = {name: vectors.cycles(part) for name, part in parts.items()}
            inputs["clear"] = np.eye(1, inputs["q"].shape[1], dtype=np.uint8)
            size = 0 if amount is None else self._config.integer_bits
            self._emit("index_counter", {"bits": bits, "amount_bits": size}, why, tensor, inputs, **source)
        if self._watch.wants("weighted_sum"):
            weights = valid if amount is None else valid * amount.astype(np.int64)
            count = np.bincount(q, weights, minlength=table.size).astype(np.uint16)
            parameters = {"bits": bits, "preset": self._config.preset}
            self._emit(
                "weighted_sum", parameters, why, tensor, vectors.case({"count": count, "codebook": table}), **source
            )

    def _softmax(self, logits: np.ndarray, seen: np.ndarray) -> None:
        """The row of the first query with as many visible keys as a configuration has lanes."""
        parameters = {"op": "softmax", "softmax": "softmax32" if self._config.preset == "exact" else "fp16"}
        t = self._lanes("functional", parameters, "t")
        for row in np.flatnonzero((seen == t) & (seen > 0))[:1]:
            why = f"logits of a query that sees {t} keys"
            tensor = self._full("logits")
            self._emit(
                "functional", parameters, why, tensor, {"x": fp16.bits(logits)[row, None, :t]}, {"t": t}, query=t - 1
            )

    def _scores(self, scores: Scores, v_scale: np.ndarray, seen: np.ndarray) -> None:
        """The same row at the quantizer of scores."""
        config = self._config
        parameters = {"bits": config.integer_bits, "mode": config.score_scale, "preset": config.preset}
        t = self._lanes("score_quantizer", parameters, "t")
        for row in np.flatnonzero((seen == t) & (seen > 0))[:1]:
            inputs = {"p": scores.p[row, :t].view(np.uint16)}
            inputs |= {"v_scale": v_scale[:t].view(np.uint16)} if config.score_scale == "fold" else {}
            why = f"scores of a query that sees {t} keys"
            self._emit(
                "score_quantizer", parameters, why, self._full("scores"), vectors.case(inputs), {"t": t}, query=t - 1
            )

    def _mixed(self, scores: Scores, v: KMeansTensor, seen: np.ndarray) -> None:
        """The same row at the product with V, its first column."""
        parameters, tensor = self._matmul(self._config.integer_bits, v.bits, True), self._full("scores")
        k = self._lanes("index_matmul", parameters, "k")
        for row in np.flatnonzero((seen == k) & (seen > 0))[:1]:
            q, p = scores.q[row, :k], scores.p[row, :k].view(np.uint16)
            source: dict[str, Any] = {"query": k - 1, "column": 0}
            self._counted(tensor, v.index[:k, 0], ~v.mask[:k, 0], q, v.codebook.values, source)
            if scores.scale.dtype == np.float16:
                inputs = {
                    "a_index": q,
                    "a_outlier": p,
                    "a_scale": scores.scale[row].view(np.uint16),
                    "b_index": v.index[:k, 0],
                    "b_mask": v.mask[:k, 0].astype(np.uint8),
                    "b_outlier": outlier_words(v)[:k, 0],
                    "b_codebook": v.codebook.values,
                }
                why = f"scores of a query that sees {k} keys, first column of V"
                self._emit("index_matmul", parameters, why, tensor, vectors.case(inputs), {"k": k}, **source)

    def _table(self, name: str, argument: KMeansTensor) -> None:
        """The table for the token whose argument of the activation, `name`, has the largest outlier."""
        parameters = {"mode": self._config.function_table}
        token = vectors.peak(argument)
        words = outlier_words(argument)[token][argument.mask[token]]
        if words.size:
            inputs = {"codebook": argument.codebook.values, "scale": argument.scale[token], "outlier": words}
            why = f"the token with the largest {name}"
            sizes = {"function": self._sizes.activation, "bits": argument.bits, "outliers": int(words.size)}
            self._emit("index_function", parameters, why, self._full(name), vectors.case(inputs), sizes, token=token)


def _ports(unit: str, parameters: Mapping[str, Any]) -> list[str]:
    """Names of the input ports of a configuration; none for no configuration."""
    name, device = config_of(unit, parameters), units.find(unit)
    return [] if name is None else [port.name for port in device.ports(device.configs[name]).inputs]
