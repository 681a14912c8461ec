"""What crosses the ports of KLLM's units while a model runs.

Ready configurations are smaller than a model's tensors, so a tap shows a piece: of a token's values those around the
largest one, of a column the same positions, of a row of scores the first query that sees exactly as many keys as the
unit has lanes. Everything shown is what the scheme worked with.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu import units
from refemu.arith import fp16
from refemu.formats.kmeans_tables import cartesian, squares
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.models.taps import Watch, config_of, model_case
from refemu.units.index_counter import INPUTS
from refemu.units.index_matmul_parts import Scores

if TYPE_CHECKING:
    from refemu.models.schemes.kllm import KllmConfig
    from refemu.models.schemes.kllm_layers import Kllm

UNITS = (
    "clustering",
    "concat",
    "functional",
    "index_counter",
    "index_function",
    "index_matmul",
    "index_norm",
    "index_product",
    "orizuru",
    "score_quantizer",
    "weighted_sum",
)
ROWS = 64  #: of the values of a token at the Clustering Unit


def tapped(config: "KllmConfig") -> tuple[str, ...]:
    """The units whose ports a run under `config` can show, in alphabetical order."""
    if config.quantizer == "rtn":
        return ()
    return tuple(unit for unit in UNITS if unit != "orizuru" or config.thresholds == "dynamic")


class Taps:
    """The taps of one scheme in one block."""

    def __init__(self, parts: "Kllm", layer: int, watch: Watch) -> None:
        self._config, self._eps, self._layer, self._watch = parts.kllm, parts.model.rms_eps, layer, watch
        self._norm, self._function = parts.model.norm, parts.model.activation

    def __repr__(self) -> str:
        return f"Taps(layer={self._layer})"

    def _emit(
        self, unit: str, parameters: Mapping[str, Any], why: str, tensor: str, inputs: Mapping[str, Any], **source: Any
    ) -> None:
        """inputs: arrays by port, beginning with the axis of cases."""
        name = config_of(unit, parameters)
        if name is not None:
            first = {"first_token": self._watch.first_token, **source}
            self._watch.emit(self._layer, unit, model_case(why, name, tensor, self._layer, inputs, **first))

    def _lanes(self, unit: str, parameters: Mapping[str, Any], size: str) -> int:
        """How many values a configuration takes, 0 if there is none."""
        name = config_of(unit, parameters)
        return 0 if name is None else int(units.find(unit).configs[name][size])

    def encoded(self, full: str, x: np.ndarray, found: KMeansTensor) -> None:
        """An activation, x (tokens, size), and what it was encoded to."""
        tensor = full.partition(".")[2].partition(".")[2]
        token = int(np.argmax(np.abs(x).max(axis=1)))
        words, peak = fp16.bits(fp16.to_f16(x[token])), int(np.argmax(np.abs(x[token])))
        if self._watch.wants("orizuru"):
            parameters = {"min_leaf": "not_max", "total_order": False, "n": min(ROWS, len(words))}
            n = self._lanes("orizuru", parameters, "n")
            if n:
                piece = around(peak, n, len(words))
                self._emit(
                    "orizuru",
                    parameters,
                    "values around the largest",
                    full,
                    {"x": words[None, piece]},
                    largest=float(np.abs(x).max()),
                    token=token,
                    first_value=piece.start,
                )
        if self._watch.wants("clustering"):
            inliers = np.flatnonzero(~found.mask[token])[:ROWS]
            given = {
                "x": words[inliers],
                "scale": np.full(inliers.size, found.scale[token]),
                "codebook": np.tile(found.codebook.values, (inliers.size, 1)),
            }
            self._emit(
                "clustering",
                {"bits": found.bits, "preset": self._config.preset},
                f"inliers of {tensor}, of the token with the largest value",
                full,
                given,
                token=token,
            )

    def normed(self, full: str, a: KMeansTensor, weight: KMeansTensor) -> None:
        """What a norm is computed from, and the weights whose centroids it divides."""
        parameters = {
            "norm": self._norm,
            "bits": a.bits,
            "weight_bits": weight.bits,
            "preset": self._config.preset,
            "eps": float(f"{np.float32(self._eps)!s}"),
        }
        n = self._lanes("index_norm", parameters, "n")
        if 0 < n <= a.length:
            token, piece = _peak(a, n)
            parts = {
                "q": a.index[token, piece],
                "mask": a.mask[token, piece].astype(np.uint8),
                "x": _outliers(a)[token, piece],
                "scale": a.scale[token],
                "squares": squares(a.codebook).values,
                "centroids": a.codebook.values,
                "weights": weight.codebook.values,
            }
            wanted = _ports("index_norm", parameters)
            given = {name: part for name, part in parts.items() if name in wanted}
            self._emit(
                "index_norm",
                parameters,
                "values around the largest",
                full,
                _case(given),
                token=token,
                first_value=piece.start,
            )

    def product(self, tensor: str, a: KMeansTensor, b: KMeansTensor) -> None:
        """K-Means x K-Means: a token and a column, b's first vector."""
        token, piece = _peak(a, a.length)
        valid = ~(a.mask[token] | b.mask[0])
        source = {"token": token, "column": 0, "largest": float(np.abs(fp16.values(_outliers(a))).max())}
        table = cartesian(a.codebook, b.codebook)
        self._column(tensor, a.index[token], a.bits, b, valid, table.values, source)
        k = self._lanes("index_matmul", self._matmul(a.bits, b.bits, False), "k")
        if k and k <= a.length:
            token, piece = _peak(a, k)
            left = _operand("a", a, token, piece) | {"a_codebook": a.codebook.values}
            right = _operand("b", b, 0, piece) | {"b_codebook": b.codebook.values}
            given = {**left, **right, "products": table.values}
            self._emit(
                "index_matmul",
                self._matmul(a.bits, b.bits, False),
                "positions around the largest value",
                tensor,
                _case(given),
                **source,
                first_position=piece.start,
            )

    def _matmul(self, a_bits: int, b_bits: int, integer: bool) -> dict[str, Any]:
        return {"a_bits": a_bits, "b_bits": b_bits, "integer": integer, "preset": self._config.preset}

    def _column(
        self,
        tensor: str,
        index: np.ndarray,
        a_bits: int,
        b: KMeansTensor,
        valid: np.ndarray,
        table: np.ndarray,
        source: dict[str, Any],
    ) -> None:
        """The units inside a K-Means x K-Means product, over one column."""
        bits, column = a_bits + b.bits, b.index[0]
        if self._watch.wants("concat"):
            self._emit(
                "concat",
                {"a_bits": a_bits, "b_bits": b.bits},
                "indices of a token and of a column",
                tensor,
                {"a": index[None, :INPUTS], "b": column[None, :INPUTS]},
                **source,
            )
        joint = (index.astype(np.int64) << b.bits) | column
        self._counted(tensor, joint, valid, None, bits, table, source)

    def _counted(
        self,
        tensor: str,
        q: np.ndarray,
        valid: np.ndarray,
        amount: np.ndarray | None,
        bits: int,
        table: np.ndarray,
        source: dict[str, Any],
    ) -> None:
        """The counter over all cycles, and the weighted sum of what it counted."""
        why = "one output column"
        if self._watch.wants("index_counter"):
            parts = {"q": q, "valid": valid} | ({} if amount is None else {"amount": amount})
            given = {name: _cycles(part) for name, part in parts.items()}
            given["clear"] = np.eye(1, given["q"].shape[1], dtype=np.uint8)
            size = 0 if amount is None else self._config.integer_bits
            self._emit("index_counter", {"bits": bits, "amount_bits": size}, why, tensor, given, **source)
        if self._watch.wants("weighted_sum"):
            weights = valid if amount is None else valid * amount.astype(np.int64)
            count = np.bincount(q, weights, minlength=1 << bits).astype(np.uint16)
            self._emit(
                "weighted_sum",
                {"bits": bits, "preset": self._config.preset},
                why,
                tensor,
                _case({"count": count, "codebook": table}),
                **source,
            )

    def softmax(self, tensor: str, logits: np.ndarray, seen: np.ndarray) -> None:
        """The row of the first query that sees as many keys as a configuration has lanes."""
        parameters = {"op": "softmax", "softmax": "softmax32" if self._config.preset == "exact" else "fp16"}
        t = self._lanes("functional", parameters, "t")
        for row in np.flatnonzero(seen == t)[:1]:
            self._emit(
                "functional",
                parameters,
                f"logits of a query that sees {t} keys",
                tensor,
                {"x": fp16.bits(logits)[row, None, :t]},
                query=t - 1,
            )

    def scores(self, tensor: str, scores: Scores, v_scale: np.ndarray, v: KMeansTensor, seen: np.ndarray) -> None:
        """The same for the quantizer and for the product with V, its first column."""
        config = self._config
        parameters = {"bits": config.integer_bits, "mode": config.score_scale, "preset": config.preset}
        t = self._lanes("score_quantizer", parameters, "t")
        for row in np.flatnonzero(seen == t)[:1]:
            given = {"p": scores.p[row, :t].view(np.uint16)}
            given |= {"v_scale": v_scale[:t].view(np.uint16)} if config.score_scale == "fold" else {}
            self._emit(
                "score_quantizer",
                parameters,
                f"scores of a query that sees {t} keys",
                tensor,
                _case(given),
                query=t - 1,
            )
        matmul = self._matmul(config.integer_bits, v.bits, True)
        k = self._lanes("index_matmul", matmul, "k")
        for row in np.flatnonzero(seen == k)[:1]:
            q, p = scores.q[row, :k], scores.p[row, :k].view(np.uint16)
            source = {"query": k - 1, "column": 0}
            self._counted(tensor, v.index[:k, 0], ~v.mask[:k, 0], q, v.bits, v.codebook.values, source)
            if scores.scale.dtype == np.float16:
                given = {
                    "a_index": q,
                    "a_outlier": p,
                    "a_scale": scores.scale[row].view(np.uint16),
                    "b_index": v.index[:k, 0],
                    "b_mask": v.mask[:k, 0].astype(np.uint8),
                    "b_outlier": _outliers(v)[:k, 0],
                    "b_codebook": v.codebook.values,
                }
                self._emit(
                    "index_matmul",
                    matmul,
                    f"scores of a query that sees {k} keys, first column of V",
                    tensor,
                    _case(given),
                    **source,
                )

    def gated(self, gate: KMeansTensor, silu: KMeansTensor, up: KMeansTensor) -> None:
        """SiLU's table for the token whose gate has the largest outlier, and its product with up."""
        self.table("gate", gate)
        if self._watch.wants("index_product"):
            token, piece = _peak(up, min(ROWS, up.length))
            given: dict[str, Any] = {}
            for side, tensor in (("a", silu), ("b", up)):
                given |= {
                    side: tensor.index[token, piece],
                    f"{side}_mask": tensor.mask[token, piece].astype(np.uint8),
                    f"{side}_value": fp16.bits(tensor.dequantized())[token, piece],
                }
            self._emit(
                "index_product",
                {"a_bits": silu.bits, "b_bits": up.bits},
                "values around the largest outlier of up",
                f"blk.{self._layer}.down_in",
                given,
                token=token,
                first_value=piece.start,
            )

    def table(self, name: str, gate: KMeansTensor) -> None:
        """The function's table for the token whose argument, activation `name`, has the largest outlier."""
        parameters = {"function": self._function, "bits": gate.bits, "mode": self._config.function_table}
        size = self._lanes("index_function", parameters, "outliers")
        token = _peak(gate, 1)[0]
        words = _outliers(gate)[token][gate.mask[token]][:size]
        if words.size == size and size:
            self._emit(
                "index_function",
                parameters,
                f"the token with the largest {name}",
                f"blk.{self._layer}.{name}",
                _case({"codebook": gate.codebook.values, "scale": gate.scale[token], "outlier": words}),
                token=token,
            )


def _ports(unit: str, parameters: Mapping[str, Any]) -> list[str]:
    """Names of the input ports of a configuration, none if there is none."""
    name, found = config_of(unit, parameters), units.find(unit)
    return [] if name is None else [port.name for port in found.ports(found.configs[name]).inputs]


def _case(inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """One case: every port's values under a new first axis."""
    return {name: np.asarray(array)[None] for name, array in inputs.items()}


def around(place: int, size: int, length: int) -> slice:
    """`size` places with `place` among them, in the middle where there is room."""
    start = min(max(place - size // 2, 0), length - size)
    return slice(start, start + size)


def _outliers(tensor: KMeansTensor) -> np.ndarray:
    """FP16 words in the shape of the values, 0 at inliers."""
    words = np.zeros(tensor.shape, np.uint16)
    words[tensor.mask] = tensor.outlier
    return words


def _peak(tensor: KMeansTensor, size: int) -> tuple[int, slice]:
    """The token with the largest outlier, and `size` places around it."""
    magnitudes = np.abs(fp16.values(_outliers(tensor)))
    token, place = divmod(int(np.argmax(magnitudes)), tensor.length)
    return token, around(place, size, tensor.length)


def _operand(side: str, tensor: KMeansTensor, vector: int, piece: slice) -> dict[str, Any]:
    return {
        f"{side}_index": tensor.index[vector, piece],
        f"{side}_mask": tensor.mask[vector, piece].astype(np.uint8),
        f"{side}_outlier": _outliers(tensor)[vector, piece],
        f"{side}_scale": tensor.scale[vector],
    }


def _cycles(x: np.ndarray) -> np.ndarray:
    """One device's cycles of sixteen positions, (1, cycles, 16), filled up with zeros."""
    wide = np.zeros(-(-x.size // INPUTS) * INPUTS, np.uint8)
    wide[: x.size] = x
    return wide.reshape(1, -1, INPUTS)
