"""A decoder under a KLLM scheme in plain Python, one token at a time, made of the oracles; values are FP16 words.

Codebooks and limits come from the calibration; everything else is restated here.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from refemu.models.config import ModelConfig
from refemu.models.model import Model
from tests.oracles import fp16, sums
from tests.oracles.kllm import formats, functions, units
from tests.oracles.kllm.formats import Vector

Words = list[int]


class Random:
    """Random weights that FP16 cannot represent exactly, for a decoder in plain Python."""

    def __init__(self, config: ModelConfig) -> None:
        random = np.random.default_rng(11)
        draws = {name: random.standard_t(3, shape) for name, shape in config.shapes.items()}
        self.values = {
            name: (1 + draw / 8 if name.endswith("norm") else draw / 3).astype(np.float32)
            for name, draw in draws.items()
        }
        self.names = tuple(self.values)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name].shape

    def tensor(self, name: str) -> np.ndarray:
        return self.values[name]


def small() -> Model:
    """Two blocks, four query heads on two KV heads."""
    config = ModelConfig(blocks=2, width=9, ffn=11, heads=4, kv_heads=2, head_dim=4, vocab=13, context=16)
    return Model("small", config, Random(config), "")


def layered(activation: str = "gelu_tanh") -> Model:
    """LayerNorm, learned positions, biases, no gate."""
    config = ModelConfig(
        blocks=2,
        width=9,
        ffn=11,
        heads=2,
        kv_heads=2,
        head_dim=4,
        vocab=13,
        context=16,
        norm="layer",
        positions="learned",
        gated=False,
        activation=activation,
        bias=True,
    )
    return Model("layered", config, Random(config), "")


def words(x: Any) -> Words:
    """Floats as FP16 words, each rounded once."""
    return [fp16.from_float(float(value)) for value in x]


class Plain:
    """The decoder; `config` is a KllmConfig."""

    def __init__(self, model: Model, config: Any, calibration: Any) -> None:
        self.model: Any = model.config
        self.config, self.calibration = config, calibration
        self.exact = config.preset == "exact"
        self.embed = [words(row) for row in model.tensor("embed")]
        self.gains = {name: words(model.tensor(name)) for name, shape in model.config.shapes.items() if len(shape) == 1}
        self.weights = {
            name: self.matrix(model, name)
            for name in model.config.shapes
            if name.startswith("blk.") and len(model.config.shapes[name]) == 2
        }
        self.biases = {name: self.bias(model, name) for name in self.weights}
        self.positions = [words(row) for row in model.tensor("position")] if self.model.positions == "learned" else []
        self.keys: list[list[Vector]] = [[] for _ in range(model.config.blocks)]
        self.values: list[list[Vector]] = [[] for _ in range(model.config.blocks)]

    def matrix(self, model: Model, name: str) -> list[Vector]:
        block, layer, kind = name.split(".")
        norm = {"q": "attn", "k": "attn", "v": "attn", "gate": "ffn", "up": "ffn"}.get(kind)
        folded = norm is not None and self.config.norm == "delayed" and self.config.gamma == "weights"
        book = self.codebook(f"{block}.{layer}.w{kind}")
        found = []
        for row in model.tensor(name):
            row16 = words(row)
            if folded:
                row16 = [fp16.mul(g, w) for g, w in zip(self.gains[f"{block}.{layer}.{norm}_norm"], row16, strict=True)]
            vector = formats.encode(row16, book, **self.rule)
            if kind == "q":
                scale = fp16.from_float(fp16.to_float(vector.scale) / math.sqrt(model.config.head_dim))
                vector = Vector(vector.codebook, vector.index, scale, vector.mask, vector.outlier)
            found.append(vector)
        return found

    def bias(self, model: Model, name: str) -> list[int | None]:
        """What is added to each output: the bias, and what the norm's bias makes of the unquantized weights."""
        norm = {"q": "attn", "k": "attn", "v": "attn", "gate": "ffn", "up": "ffn"}.get(name.rpartition(".")[2])
        if not self.model.bias:
            return [None] * len(self.weights[name])
        found = self.gains[f"{name}.bias"]
        if norm is not None and self.config.norm == "delayed":
            beta = self.gains[f"{name.rpartition('.')[0]}.{norm}_norm.bias"]
            found = [
                functions.folded_bias(beta, words(row), own) for row, own in zip(model.tensor(name), found, strict=True)
            ]
        if name.endswith(".q"):
            found = [fp16.from_float(fp16.to_float(word) / math.sqrt(self.model.head_dim)) for word in found]
        return list(found)

    @property
    def rule(self) -> dict[str, Any]:
        return {"normalize": "none", "distance": "real"} if self.exact else {}

    @property
    def acc(self) -> str:
        return "exact" if self.exact else "fp16"

    def codebook(self, name: str) -> Words:
        found: Words = self.calibration.codebook[name].tolist()
        return found

    def encode(self, layer: int, name: str, x: Words) -> Vector:
        full, config = f"blk.{layer}.{name}", self.config
        book = self.codebook(full)
        if not config.kv_outliers and name in ("k", "v"):
            return formats.encode(x, book, **self.rule)
        static = (
            config.thresholds == "static"
            or (name == "v" and config.v_scale == "static")
            or (name == ("gate" if self.model.gated else "up") and config.function_table == "offline")
        )
        if static:
            hi, lo = self.calibration.limits[full].tolist()
            return formats.encode(x, book, limits=(hi, lo), **self.rule)
        return formats.encode(x, book, k=formats.outlier_count(len(x), config.outlier_percent), **self.rule)

    def logits(self, token: int) -> list[float]:
        x = self.embed[token]
        if self.positions:
            x = [fp16.add(a, b) for a, b in zip(x, self.positions[len(self.keys[0])], strict=True)]
        for layer in range(self.model.blocks):
            for half in (self.attention, self.feed_forward):
                x = [fp16.add(a, b) for a, b in zip(x, half(layer, x), strict=True)]
        x = self.norm16("norm", x)
        return [self.head(row, x) for row in self.embed]

    def head(self, row: Words, x: Words) -> float:
        a, b = ([fp16.to_float(word) for word in side] for side in (row, x))
        if self.exact:
            total = sum(Fraction(s) * Fraction(t) for s, t in zip(a, b, strict=True))
            return fp16.to_float(fp16.from_fraction(Fraction(total)))
        return sums.f16(sums.dot(b, a, order=("sequential",), acc="fp32"))

    def norm16(self, name: str, x: Words) -> Words:
        if self.model.norm == "layer":
            return self.layer16(name, x)
        scale, values = self.reciprocal(x)[0], [fp16.to_float(word) for word in x]
        return words(
            fp16.f32(fp16.f32(v * scale) * fp16.to_float(g)) for v, g in zip(values, self.gains[name], strict=True)
        )

    def layer16(self, name: str, x: Words) -> Words:
        values, f32 = [fp16.to_float(word) for word in x], fp16.f32
        mean = f32(sums.dot(values, [1.0] * len(values), order=("sequential",), acc="fp32") / len(values))
        apart = [f32(value - mean) for value in values]
        square = f32(sums.dot(apart, apart, order=("sequential",), acc="fp32") / len(values))
        scale = f32(1 / f32(math.sqrt(f32(square + f32(self.model.rms_eps)))))
        gains, betas = ([fp16.to_float(word) for word in self.gains[full]] for full in (name, f"{name}.bias"))
        return words(f32(f32(f32(d * scale) * g) + b) for d, g, b in zip(apart, gains, betas, strict=True))

    def reciprocal(self, x: Words) -> tuple[float, float]:
        """1 / rms and rms, float32."""
        values = [fp16.to_float(word) for word in x]
        mean = fp16.f32(sums.dot(values, values, order=("sequential",), acc="fp32") / len(values))
        root = fp16.f32(math.sqrt(fp16.f32(mean + fp16.f32(self.model.rms_eps))))
        return fp16.f32(1 / root), root

    def linears(self, layer: int, names: str, tensor: str, norm: str | None, x: Words) -> list[Words]:
        divide: float | None = None
        config = self.config
        if norm is not None and config.norm == "fp16":
            x = self.norm16(f"blk.{layer}.{norm}", x)
        elif norm is not None and config.gamma == "activations":
            divide = self.reciprocal(x)[1]
            x = [fp16.mul(a, g) for a, g in zip(x, self.gains[f"blk.{layer}.{norm}"], strict=True)]
        a = self.encode(layer, tensor, x)
        stat, mean = "exact" if self.exact else "fp32", None
        if norm is not None and config.norm == "delayed" and self.model.norm == "layer":
            mean, divide = functions.layer_stats(a, self.model.rms_eps, stat)
        elif norm is not None and config.norm == "delayed" and divide is None:
            divide = functions.rms(a, self.model.rms_eps, stat)

        def left(b: Vector) -> units.Layer | None:
            if mean is None:
                return None if divide is None else units.Layer(divide)
            assert divide is not None
            return units.Layer(divide, mean, functions.row_sum(b, stat))

        fulls = [f"blk.{layer}.{name}" for name in names.split()]
        return [
            [
                units.column(a, b, self.acc, bias=bias, norm=left(b))
                for b, bias in zip(self.weights[full], self.biases[full], strict=True)
            ]
            for full in fulls
        ]

    def attention(self, layer: int, x: Words) -> Words:
        dim, group = self.model.head_dim, self.model.heads // self.model.kv_heads
        position = len(self.keys[layer])
        q, k, v = self.linears(layer, "q k v", "attn_in", "attn_norm", x)
        if self.model.positions == "rotary":
            q, k = self.rotate(q, position), self.rotate(k, position)
        a = self.encode(layer, "q", q)
        self.keys[layer].append(self.encode(layer, "k", k))
        self.values[layer].append(self.encode(layer, "v", v))
        out: Words = []
        for head in range(self.model.heads):
            shared = slice(head // group * dim, (head // group + 1) * dim)
            keys = [part(key, shared) for key in self.keys[layer]]
            query = part(a, slice(head * dim, (head + 1) * dim))
            out += self.context(layer, [units.column(query, key, self.acc) for key in keys], shared)
        return self.linears(layer, "o", "o_in", None, out)[0]

    def context(self, layer: int, logits: Words, columns: slice) -> Words:
        config, held = self.config, self.values[layer]
        p = functions.softmax(logits, config.preset)
        bits, scales = config.score_bits or config.act_bits, [token.scale for token in held]
        q, scale = functions.quantize_scores(p, scales, bits, config.score_scale, config.preset)
        found = []
        for n in range(len(held[0].index))[columns]:
            mask = [token.mask[n] for token in held]
            outliers = [formats.spread(token)[n] for token in held]
            found.append(
                units.integer_column(
                    q,
                    [token.index[n] for token in held],
                    held[0].codebook,
                    scale,
                    mask,
                    [word for word in outliers if word is not None],
                    p,
                    None if config.score_scale == "fold" else scales[0],
                    self.acc,
                )
            )
        return found

    def feed_forward(self, layer: int, x: Words) -> Words:
        if not self.model.gated:
            u = self.encode(layer, "up", self.linears(layer, "up", "ffn_in", "ffn_norm", x)[0])
            mode = self.config.function_table
            table, outliers = functions.index_function(u, self.model.activation, mode, u.scale)
            inner = formats.dequantized(Vector(table, u.index, formats.ONE, u.mask, outliers))
            return self.linears(layer, "down", "down_in", None, inner)[0]
        gate, up = self.linears(layer, "gate up", "ffn_in", "ffn_norm", x)
        g, u = self.encode(layer, "gate", gate), self.encode(layer, "up", up)
        table, outliers = functions.index_function(g, "silu", self.config.function_table, g.scale)
        silu = Vector(table, g.index, formats.ONE, g.mask, outliers)
        return self.linears(layer, "down", "down_in", None, units.product(silu, u, self.acc)[2])[0]

    def rotate(self, x: Words, position: int) -> Words:
        dim, values = self.model.head_dim, [fp16.to_float(word) for word in x]
        out = list(values)
        for i in range(0, len(x), 2):
            angle = position * self.model.rope_base ** (-(i % dim) / dim)
            cos, sin, a, b = fp16.f32(math.cos(angle)), fp16.f32(math.sin(angle)), values[i], values[i + 1]
            out[i] = fp16.f32(fp16.f32(a * cos) - fp16.f32(b * sin))
            out[i + 1] = fp16.f32(fp16.f32(a * sin) + fp16.f32(b * cos))
        return words(out)


def part(vector: Vector, columns: slice) -> Vector:
    """Some values of a vector, under its scale."""
    outliers = [word for word in formats.spread(vector)[columns] if word is not None]
    return Vector(vector.codebook, vector.index[columns], vector.scale, vector.mask[columns], outliers)
