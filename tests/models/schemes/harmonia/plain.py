"""A decoder under a Harmonia scheme in plain Python, made of the oracles; values are FP16 words.

The first call of `append` is a prompt, whose queries all see the groups and bits of its end; later tokens are decoded.
Nothing is stored as codes: every attention converts its inputs.
"""

import math
from typing import Any

import numpy as np

from refemu.models.config import ModelConfig
from refemu.models.model import Model
from tests.models.schemes.kllm import plain
from tests.models.schemes.kllm.plain import Words, words
from tests.oracles import exp, fp16, sums
from tests.oracles.fp16 import f32
from tests.oracles.harmonia import bfp, units
from tests.oracles.harmonia.bfp import Group
from tests.oracles.kllm import functions

ASCENDING = ("sequential",)


OPT: dict[str, Any] = {"norm": "layer", "positions": "learned", "gated": False, "activation": "relu", "bias": True}


def small(opt: bool = False) -> Model:
    """One block, four query heads on two KV heads; inputs of the width make two groups of 16. opt: OPT-like."""
    config = ModelConfig(
        blocks=1, width=19, ffn=7, heads=4, kv_heads=2, head_dim=6, vocab=13, context=64, **OPT if opt else {}
    )
    return Model("small", config, plain.Random(config), "")


class Plain(plain.Plain):
    """The decoder; `config` is a HarmoniaConfig, s the factors of offline smoothing (blocks, KV heads, head_dim)."""

    def __init__(self, model: Model, config: Any, s: np.ndarray) -> None:
        self.model, self.config = model.config, config
        self.embed = [words(row) for row in model.tensor("embed")]
        self.gains = {name: words(model.tensor(name)) for name, shape in model.config.shapes.items() if len(shape) == 1}
        self.position = [words(row) for row in model.tensor("position")] if self.model.positions == "learned" else []
        self.scale = f32(1 / np.sqrt(self.model.head_dim))
        names = [name for name, shape in model.config.shapes.items() if name.startswith("blk.") and len(shape) == 2]
        self.rows = {
            name: [self.integers(row) for row in self.smoothed(name, model.tensor(name).tolist(), s)] for name in names
        }
        self.bias = {
            name: words(row[0] for row in self.smoothed(name, model.tensor(f"{name}.bias")[:, None].tolist(), s))
            for name in names
            if self.model.bias
        }
        self.held: list[list[tuple[Words, Words]]] = [[] for _ in range(self.model.blocks)]
        self.offset: list[Words] = [[] for _ in range(self.model.blocks)]

    def smoothed(self, name: str, rows: list[list[float]], s: np.ndarray) -> list[list[float]]:
        """W_K times the factors, W_Q divided by those of its KV head."""
        _, layer, kind = name.split(".")
        if kind not in ("q", "k"):
            return rows
        dim, group = self.model.head_dim, self.model.heads // self.model.kv_heads
        found = []
        for number, row in enumerate(rows):
            head, channel = divmod(number, dim)
            factor = float(s[int(layer)][head if kind == "k" else head // group][channel])
            out = [f32(w * factor) if kind == "k" else f32(w / factor) for w in row]
            fold = kind == "q" and self.config.score_scale == "fold"
            found.append([f32(w * self.scale) for w in out] if fold else out)
        return found

    def integers(self, row: list[float]) -> Any:
        """Codes and scales by BFP group, or the weights as FP16."""
        if self.config.weights == "fp16":
            return [fp16.to_float(fp16.from_float(w)) for w in row]
        [whole] = bfp.encode_int(row)
        codes = [whole.code[at : at + self.config.group] for at in range(0, len(row), self.config.group)]
        return codes, [whole.scale] * len(codes)

    def encode(self, x: Words, m: int | None = None) -> list[Group]:  # type: ignore[override]
        """A row by groups."""
        config = self.config
        return bfp.encode(
            x, m or config.act_mantissa, config.group, rounding=config.rounding, subnormals=config.subnormals
        )

    def half(self, x: float) -> int:
        return units.fp2half(x, self.config.saturate)

    def matmul(self, layer: int, name: str, x: Words) -> Words:
        config, full = self.config, f"blk.{layer}.{name}"
        a, out = self.encode(x), []
        for number, row in enumerate(self.rows[full]):
            if config.weights == "fp16":
                decoded = [float(v) for group in a for v in bfp.values(group)][: len(x)]
                y = sums.dot(decoded, row, order=ASCENDING, acc="fp32")
            else:
                codes, scales = row
                y, _ = units.dot_int(a, codes, scales, config.preset, config.product, config.scale_per)
            bias = fp16.to_float(self.bias[full][number]) if full in self.bias else None
            if bias is not None and config.bias_add == "accumulator":
                y = f32(y + bias)
            word = self.half(y)
            out.append(
                word if bias is None or config.bias_add == "accumulator" else fp16.add(word, self.bias[full][number])
            )
        return out

    def append(self, ids: list[int]) -> list[list[float]]:
        start = len(self.held[0])
        xs = [self.embed[token] for token in ids]
        if self.position:
            xs = [[fp16.add(a, b) for a, b in zip(x, self.position[start + t], strict=True)] for t, x in enumerate(xs)]
        for layer in range(self.model.blocks):
            for half in (self.attend, self.feed):
                xs = [
                    [fp16.add(a, b) for a, b in zip(x, y, strict=True)]
                    for x, y in zip(xs, half(layer, xs, start), strict=True)
                ]
        return [[self.row(row, self.norm16("norm", x)) for row in self.embed] for x in xs]

    def norm16(self, name: str, x: Words) -> Words:
        if self.model.norm == "rms":
            return super().norm16(name, x)
        values = [fp16.to_float(word) for word in x]
        mean = f32(sums.total32(values, ASCENDING) / len(x))
        off = [f32(value - mean) for value in values]
        square = f32(sums.total32([f32(value * value) for value in off], ASCENDING) / len(x))
        scale = f32(1 / f32(math.sqrt(f32(square + f32(self.model.rms_eps)))))
        parts = zip(off, self.gains[name], self.gains[f"{name}.bias"], strict=True)
        return words(
            f32(f32(f32(value * scale) * fp16.to_float(gain)) + fp16.to_float(bias)) for value, gain, bias in parts
        )

    def rotate(self, x: Words, position: int) -> Words:
        return super().rotate(x, position) if self.model.positions == "rotary" else x

    def row(self, row: Words, x: Words) -> float:
        a, b = ([fp16.to_float(word) for word in side] for side in (x, row))
        return sums.dot(a, b, order=ASCENDING, acc="fp32")

    def feed(self, layer: int, xs: list[Words], start: int) -> list[Words]:
        out = []
        for x in xs:
            normed = self.norm16(f"blk.{layer}.ffn_norm", x)
            if self.model.activation == "relu":
                up = self.matmul(layer, "up", normed)
                out.append(self.matmul(layer, "down", [0 if fp16.to_float(word) <= 0 else word for word in up]))
                continue
            gate, up = (self.matmul(layer, name, normed) for name in ("gate", "up"))
            silu = [functions.function16("silu", word) for word in gate]
            out.append(self.matmul(layer, "down", [fp16.mul(g, u) for g, u in zip(silu, up, strict=True)]))
        return out

    def attend(self, layer: int, xs: list[Words], start: int) -> list[Words]:
        queries, keys = [], []
        for t, x in enumerate(xs):
            normed = self.norm16(f"blk.{layer}.attn_norm", x)
            q, k, v = (self.matmul(layer, name, normed) for name in "qkv")
            queries.append(self.rotate(q, start + t))
            keys.append((self.rotate(k, start + t), v))
        if start == 0:
            self.offset[layer] = self.offsets([k for k, _ in keys])
        shifted = [(units.apply_offsets(k, self.offset[layer]), v) for k, v in keys]
        out = []
        if start == 0:
            self.held[layer] += shifted
        for t, q in enumerate(queries):
            if start:
                self.held[layer].append(shifted[t])
            seen, end = start + t + 1, len(self.held[layer])
            bits = seen if self.config.prefill_window == "query" else end
            out.append(self.matmul(layer, "o", self.mixed(layer, q, seen, bits)))
        return out

    def offsets(self, keys: list[Words]) -> Words:
        config = self.config
        if not config.online:
            return [0] * len(keys[0])
        head = self.model.head_dim if config.offset_scope == "head" else None
        return units.k_offsets(keys, config.offset_k, head=head, signed=config.offset_sign == "signed")[0]

    def mixed(self, layer: int, q: Words, seen: int, tokens: int) -> Words:
        """One query over its keys, in the bits of a cache of `tokens` tokens and the groups of all that is held."""
        dim, group = self.model.head_dim, self.model.heads // self.model.kv_heads
        out: Words = []
        for head in range(self.model.heads):
            shared = head // group * dim
            query = self.encode(q[head * dim : (head + 1) * dim])
            p = self.scores(layer, query, shared, seen, tokens)
            p += [0] * (len(self.held[layer]) - len(p))
            scores = self.encode(p)
            out += [
                self.half(units.dot(scores, self.groups(layer, shared + c, tokens), self.config.preset)[0])
                for c in range(dim)
            ]
        return out

    def low(self, token: int, tokens: int) -> bool:
        return bool(self.config.n_initial <= token < tokens - self.config.n_local)

    def scores(self, layer: int, query: list[Group], shared: int, seen: int, tokens: int) -> Words:
        config, logits = self.config, []
        for j, (key, _) in enumerate(self.held[layer][:seen]):
            codes = self.encode(
                key[shared : shared + self.model.head_dim], config.low if self.low(j, tokens) else config.high
            )
            s, _ = units.dot(query, codes, config.preset)
            s = fp16.to_float(self.half(s)) if config.scores == "fp16" else s
            logits.append(s if config.score_scale == "fold" else f32(s * self.scale))
        terms = [exp.exp32(f32(x - max(logits))) for x in logits]
        total = sums.total32(terms, ASCENDING)
        return [fp16.from_float(f32(term / total)) for term in terms]

    def groups(self, layer: int, channel: int, tokens: int) -> list[Group]:
        """A channel of V by groups of tokens: low if the group is whole and all its tokens are ordinary."""
        config, column = self.config, [v[channel] for _, v in self.held[layer]]
        found = []
        for at in range(0, len(column), config.group):
            places = range(at, at + config.group)
            low = [self.low(j, tokens) for j in places]
            [high] = self.encode(column[at : at + config.group], config.high)
            [few] = self.encode(column[at : at + config.group], config.low)
            if config.v_granularity == "token":
                step = 2 ** (config.high - config.low)
                mixed = [f * step if one else h for f, h, one in zip(few.mantissa, high.mantissa, low, strict=True)]
                found.append(high._replace(mantissa=mixed))
            else:
                found.append(few if all(low) else high)
        return found
