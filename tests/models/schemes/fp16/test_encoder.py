"""Scheme `fp16` on encoders: equal to a plain-Python encoder that shares no code with it."""

import math
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.schemes.fp16.config import Fp16Config
from tests.models import toy_encoder
from tests.models.held import Held
from tests.oracles import exp, fp16, sums

SEQUENTIAL = ("sequential",)
CONFIG = EncoderConfig(blocks=2, width=6, ffn=10, heads=2, vocab=11, context=16)
IDS = [3, 0, 10, 7, 7, 1]


def small(**changes: np.ndarray) -> Model:
    return Model("small", CONFIG, Held(toy_encoder.values(CONFIG) | changes), "")


class Oracle:
    """The encoder in Python floats, token by token, every value an fp16 or float32 one [docs/fp16-scheme.md]."""

    def __init__(self, model: Model) -> None:
        self.weights = {name: half(model.tensor(name).tolist()) for name in model.config.shapes}

    def hidden(self, ids: list[int]) -> list[list[float]]:
        w = self.weights
        x = [
            self.norm(
                "embed_norm",
                [
                    sums.f16(fp16.f32(fp16.f32(word + position) + kind))
                    for word, position, kind in zip(w["embed"][i], w["position"][at], w["token_type"][0], strict=True)
                ],
            )
            for at, i in enumerate(ids)
        ]
        for block in (f"blk.{layer}." for layer in range(CONFIG.blocks)):
            mixed = self.attention(block, x)
            x = [self.after(block + "attn_norm", a, self.linear(block + "o", b)) for a, b in zip(x, mixed, strict=True)]
            x = [self.after(block + "ffn_norm", a, self.feed_forward(block, a)) for a in x]
        return x

    def attention(self, block: str, x: list[list[float]]) -> list[list[float]]:
        dim = CONFIG.head_dim
        q, k, v = ([self.linear(block + name, token) for token in x] for name in "qkv")
        scale, out = fp16.f32(1 / math.sqrt(dim)), []
        for query in q:
            row: list[float] = []
            for head in (slice(at, at + dim) for at in range(0, CONFIG.width, dim)):
                p = softmax([fp16.f32(dot(query[head], key[head]) * scale) for key in k])
                row += [sums.f16(dot(p, [value[head][i] for value in v])) for i in range(dim)]
            out.append(row)
        return out

    def feed_forward(self, block: str, x: list[float]) -> list[float]:
        up = self.linear(block + "up", x)
        return self.linear(block + "down", [sums.f16(a / 2 * math.erfc(-a / math.sqrt(2))) for a in up])

    def linear(self, name: str, x: list[float]) -> list[float]:
        return [
            sums.f16(fp16.f32(dot(row, x) + bias))
            for row, bias in zip(self.weights[name], self.weights[name + ".bias"], strict=True)
        ]

    def after(self, name: str, x: list[float], y: list[float]) -> list[float]:
        return self.norm(name, [sums.f16(a + b) for a, b in zip(x, y, strict=True)])

    def norm(self, name: str, x: list[float]) -> list[float]:
        mean = fp16.f32(sums.total32(x, SEQUENTIAL) / len(x))
        d = [fp16.f32(a - mean) for a in x]
        square = fp16.f32(fp16.f32(dot(d, d) / len(d)) + fp16.f32(CONFIG.norm_eps))
        scale = fp16.f32(1 / fp16.f32(math.sqrt(square)))
        return [
            sums.f16(fp16.f32(fp16.f32(fp16.f32(a * scale) * gain) + bias))
            for a, gain, bias in zip(d, self.weights[name], self.weights[name + ".bias"], strict=True)
        ]


def half(values: Any) -> Any:
    """Nested lists of floats, each rounded to fp16."""
    return [half(value) for value in values] if isinstance(values, list) else sums.f16(values)


def dot(a: list[float], b: list[float]) -> float:
    return sums.dot(a, b, order=SEQUENTIAL, acc="fp32")


def softmax(x: list[float]) -> list[float]:
    e = [exp.exp32(fp16.f32(value - max(x))) for value in x]
    total = sums.total32(e, SEQUENTIAL)
    return [fp16.f32(value / total) for value in e]


@pytest.mark.parametrize("backend", ["numpy", "jit"])
def test_hidden_states_equal_a_plain_python_encoder(backend: str) -> None:
    """D-arith-15, D-arith-16: every step of the scheme, restated without arrays."""
    model = small()

    assert Oracle(model).hidden(IDS) == models.encode(model, IDS, backend=backend).tolist()


def test_embeddings_are_added_in_float32_and_rounded_once() -> None:
    """D-arith-16: 2048 + 1 + 1 is 2050; rounded after each addition it would stay 2048."""
    shapes = CONFIG.shapes
    model = small(
        embed=np.full(shapes["embed"], 2048, np.float32),
        position=np.ones(shapes["position"], np.float32),
        token_type=np.ones(shapes["token_type"], np.float32),
    )
    prepared: Any = models.prepare(model)

    assert (prepared.embeddings(np.array([0]), np.array([0])) == 2050).all()


@pytest.mark.parametrize("scheme", ["fp16", "fp16:acc=fp16", "fp16:acc=fp16_fma", "fp16:residual=fp32"])
def test_backends_agree_on_tiny_encoder(scheme: str) -> None:
    ids = list(b"It is a truth.")
    jit, numpy = (models.encode("tiny-encoder", ids, scheme, backend=backend) for backend in ("jit", "numpy"))

    assert jit.dtype == np.float32 and jit.shape == (len(ids), 48)
    assert np.array_equal(jit.view(np.uint32), numpy.view(np.uint32))


def test_parameters_change_bits() -> None:
    schemes = ("fp16", "fp16:acc=fp16", "fp16:acc=fp16_fma", "fp16:residual=fp32")
    found = {models.encode("tiny-encoder", list(b"Sir Walter Elliot"), scheme).tobytes() for scheme in schemes}

    assert len(found) == 4


def test_every_token_sees_every_other() -> None:
    """Not causal: the first hidden state depends on the last token."""
    one, other = (models.encode("tiny-encoder", list(text)) for text in (b"Sir Walter", b"Sir Waltez"))

    assert one[0].tobytes() != other[0].tobytes()


def test_only_the_first_token_type_is_read() -> None:
    changed = toy_encoder.values(CONFIG)["token_type"]
    changed[1] = 7

    assert models.encode(small(), IDS).tobytes() == models.encode(small(token_type=changed), IDS).tobytes()


def test_an_overflow_of_fp16_is_a_result() -> None:
    """Infinity becomes NaN in the norm; its embedding is rejected."""
    largest = {name: np.full(CONFIG.shapes[name], 65_504, np.float32) for name in ("embed", "position")}
    model = small(**largest)

    assert np.isnan(models.encode(model, IDS)).all()


def test_repr_shows_model_scheme_and_backend() -> None:
    prepared = models.prepare(small(), "fp16", backend="numpy")

    assert repr(prepared) == f"Fp16Encoder('small', {Fp16Config()!r}, backend='numpy')"
