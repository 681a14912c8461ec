"""Scheme `fp16`: equal to an independent plain-Python decoder, pinned on model `tiny`, rejected input."""

import math
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.models.schemes.fp16.config import Fp16Config
from tests.models.held import Held, drawn
from tests.oracles import exp, fp16, sums

SEQUENTIAL = ("sequential",)


class Small(Held):
    """Random weights of a decoder for plain Python."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__({name: draw.astype(np.float32) for name, draw in drawn(config.shapes, 5, 2).items()})


def small(interleaved: bool = True, tied: bool = True) -> Model:
    """A model of two blocks, two query heads on one KV head, with weights that fp16 does not hold exactly."""
    config = ModelConfig(
        blocks=2,
        width=6,
        ffn=10,
        heads=4,
        kv_heads=2,
        head_dim=4,
        vocab=11,
        context=16,
        rope_interleaved=interleaved,
        tied_head=tied,
    )
    return Model("small", config, Small(config), "")


class Oracle:
    """The decoder in Python floats, one token at a time, every value an fp16 or float32 one [docs/fp16-scheme.md]."""

    def __init__(self, model: Model) -> None:
        self.config = model.config
        self.weights = {name: half(model.tensor(name).tolist()) for name in model.config.shapes}
        self.keys: list[list[Any]] = [[] for _ in range(model.config.blocks)]
        self.values: list[list[Any]] = [[] for _ in range(model.config.blocks)]

    def logits(self, token: int) -> list[float]:
        x = self.weights["embed"][token]
        for layer in range(self.config.blocks):
            x = [sums.f16(a + b) for a, b in zip(x, self.attention(layer, x), strict=True)]
            x = [sums.f16(a + b) for a, b in zip(x, self.feed_forward(layer, x), strict=True)]
        head = self.weights["embed" if self.config.tied_head else "head"]
        return [dot(row, self.norm("norm", x)) for row in head]

    def attention(self, layer: int, x: list[float]) -> list[float]:
        x = self.norm(f"blk.{layer}.attn_norm", x)
        dim, group = self.config.head_dim, self.config.heads // self.config.kv_heads
        q, k, v = (cut(self.linear(layer, name, x), dim) for name in "qkv")
        position = len(self.keys[layer])
        self.keys[layer].append([self.rotate(head, position) for head in k])
        self.values[layer].append(v)
        out: list[float] = []
        for index, head in enumerate(q):
            keys, values = ([token[index // group] for token in held[layer]] for held in (self.keys, self.values))
            head, scale = self.rotate(head, position), fp16.f32(1 / math.sqrt(dim))
            p = softmax([fp16.f32(dot(head, key) * scale) for key in keys])
            out += [sums.f16(dot(p, [value[i] for value in values])) for i in range(dim)]
        return self.linear(layer, "o", out)

    def feed_forward(self, layer: int, x: list[float]) -> list[float]:
        x = self.norm(f"blk.{layer}.ffn_norm", x)
        gate, up = (self.linear(layer, name, x) for name in ("gate", "up"))
        return self.linear(
            layer, "down", [sums.f16(sums.f16(a / (1 + math.exp(-a))) * b) for a, b in zip(gate, up, strict=True)]
        )

    def linear(self, layer: int, name: str, x: list[float]) -> list[float]:
        return [sums.f16(dot(row, x)) for row in self.weights[f"blk.{layer}.{name}"]]

    def norm(self, name: str, x: list[float]) -> list[float]:
        mean = fp16.f32(fp16.f32(dot(x, x) / len(x)) + fp16.f32(self.config.rms_eps))
        scale = fp16.f32(1 / fp16.f32(math.sqrt(mean)))
        return [sums.f16(fp16.f32(fp16.f32(a * scale) * gain)) for a, gain in zip(x, self.weights[name], strict=True)]

    def rotate(self, x: list[float], position: int) -> list[float]:
        half_dim, out = len(x) // 2, list(x)
        for i in range(half_dim):
            first, second = (2 * i, 2 * i + 1) if self.config.rope_interleaved else (i, i + half_dim)
            angle = position * self.config.rope_base ** (-2 * i / len(x))
            cos, sin, a, b = fp16.f32(math.cos(angle)), fp16.f32(math.sin(angle)), x[first], x[second]
            out[first] = sums.f16(fp16.f32(fp16.f32(a * cos) - fp16.f32(b * sin)))
            out[second] = sums.f16(fp16.f32(fp16.f32(a * sin) + fp16.f32(b * cos)))
        return out


def half(values: Any) -> Any:
    """Nested lists of floats, each rounded to fp16."""
    return [half(value) for value in values] if isinstance(values, list) else sums.f16(values)


def dot(a: list[float], b: list[float]) -> float:
    return sums.dot(a, b, order=SEQUENTIAL, acc="fp32")


def softmax(x: list[float]) -> list[float]:
    e = [exp.exp32(fp16.f32(value - max(x))) for value in x]
    total = sums.total32(e, SEQUENTIAL)
    return [fp16.f32(value / total) for value in e]


def cut(x: list[float], width: int) -> list[list[float]]:
    return [x[at : at + width] for at in range(0, len(x), width)]


@pytest.mark.parametrize("backend", ["numpy", "jit"])
@pytest.mark.parametrize(("interleaved", "tied"), [(True, True), (False, False)], ids=["pairs", "halves"])
def test_logits_equal_a_plain_python_decoder(backend: str, interleaved: bool, tied: bool) -> None:
    """D-arith-15: every step of the scheme, restated without arrays."""
    model, ids = small(interleaved, tied), [3, 0, 10, 7, 7, 1]
    oracle = Oracle(model)
    expected = [oracle.logits(token) for token in ids]

    assert expected == models.run(model, ids, backend=backend).logits.tolist()


@pytest.mark.parametrize("scheme", ["fp16", "fp16:acc=fp16", "fp16:acc=fp16_fma", "fp16:residual=fp32"])
def test_backends_agree_on_tiny(scheme: str) -> None:
    model = models.load("tiny")
    ids = model.tokenizer.encode("It is a truth.")
    jit, numpy = (models.run(model, ids, scheme, backend=backend).logits for backend in ("jit", "numpy"))

    assert jit.dtype == np.float32 and jit.shape == (len(ids), model.config.vocab)
    assert np.array_equal(jit.view(np.uint32), numpy.view(np.uint32))


def test_fused_fp32_accumulation_changes_nothing() -> None:
    """Products of two fp16 values are exact in float32."""
    model = small()
    plain, fused = (models.run(model, [1, 2, 3], scheme).logits for scheme in ("fp16", "fp16:acc=fp32_fma"))

    assert plain.tobytes() == fused.tobytes()


def test_parameters_change_bits() -> None:
    model, ids = models.load("tiny"), list(b"Sir Walter Elliot")
    schemes = ("fp16", "fp16:acc=fp16", "fp16:acc=fp16_fma", "fp16:residual=fp32")
    found = {models.run(model, ids, scheme).logits.tobytes() for scheme in schemes}

    assert len(found) == 4


def test_threads_change_nothing() -> None:
    from refemu.models.backend import Jit

    model, ids = models.load("tiny"), list(b"Sir Walter Elliot")

    assert (
        models.run(model, ids, backend=Jit(threads=2)).logits.tobytes()
        == models.run(model, ids, backend=Jit()).logits.tobytes()
    )


def test_scaled_embeddings_are_rounded_once() -> None:
    """D-arith-32: times float32(sqrt(width)), to fp16; a float32 stream keeps the product."""
    parts, wide = (models.prepare("tiny-gemma2", scheme) for scheme in ("fp16", "fp16:residual=fp32"))
    rows = models.load("tiny-gemma2").tensor("embed")[[3, 200]]

    assert np.array_equal(parts.embed(np.array([3, 200])), (rows * np.float32(8)).astype(np.float16))
    assert np.array_equal(wide.embed(np.array([3, 200])), rows * np.float32(8))


def test_repr_shows_model_scheme_and_backend() -> None:
    prepared = models.prepare(small(), "fp16", backend="numpy")

    assert repr(prepared) == f"Fp16('small', {Fp16Config()!r}, backend='numpy')"
