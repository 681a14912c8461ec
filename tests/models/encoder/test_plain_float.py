"""The plain float32 encoder is what loops over Python floats give, and scheme `fp16` stays near it.

Tolerances: float32 against Python floats, a few roundings of numbers of size one.
"""

import math
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.encoder import runtime
from refemu.models.encoder.plain_float import FloatEncoder
from refemu.models.taps import Watch

IDS = list(b"She was only Anne. ")


def tiny() -> FloatEncoder:
    return FloatEncoder(models.load("tiny-encoder"))


def product(a: Any, b: Any) -> float:
    return sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))


def test_attention_is_the_softmax_of_scaled_products() -> None:
    q, k, v = (np.linspace(-1, end, 3 * 3 * 16, dtype=np.float32).reshape(3, 3, 16) for end in (1, 2, 3))
    found = tiny().attention(q, k, v).reshape(3, 3, 16)

    for token, head in np.ndindex(3, 3):
        powers = [math.exp(product(q[token, head], key[head]) / 4) for key in k]
        mixed = sum(power / sum(powers) * value[head].astype(float) for power, value in zip(powers, v, strict=True))
        assert np.abs(found[token, head] - mixed).max() < 1e-5


def test_norm_sets_deviation_and_mean_by_gain_bias() -> None:
    model, x = models.load("tiny-encoder"), np.arange(48, dtype=np.float32)[None]
    gain, bias = (model.tensor(f"blk.0.attn_norm{end}") for end in ("", ".bias"))
    root = math.sqrt((48 * 48 - 1) / 12 + 1e-12)

    assert np.abs(tiny().norm("blk.0.attn_norm", x)[0] - ((x[0] - 23.5) / root * gain + bias)).max() < 1e-5


def test_linear_layers_of_group_keep_order_and_biases() -> None:
    model, x = models.load("tiny-encoder"), np.eye(48, dtype=np.float32)
    names = ("q", "k", "v")

    for name, y in zip(names, tiny().linear(1, names, x, Watch(None)), strict=True):
        expected = model.tensor(f"blk.1.{name}").T + model.tensor(f"blk.1.{name}.bias")
        assert np.array_equal(y, expected)


def test_gelu_and_the_sums() -> None:
    x = np.array([-3, -0.5, 0, 0.5, 3], np.float32)
    gelu = [one / 2 * (1 + math.erf(one / math.sqrt(2))) for one in x.tolist()]
    model = models.load("tiny-encoder")
    rows = [model.tensor(name)[at] for name, at in (("embed", 65), ("position", 7), ("token_type", 0))]

    assert np.abs(tiny().activation(x) - gelu).max() < 1e-6
    assert np.array_equal(tiny().add(x, x), 2 * x)
    assert np.array_equal(tiny().embeddings(np.array([65]), np.array([7]))[0], rows[0] + rows[1] + rows[2])


def test_scheme_fp16_is_near() -> None:
    """Weights of `tiny-encoder` are fp16 values; what differs are the roundings of hidden states."""
    prepared: Any = models.prepare("tiny-encoder")
    plain, rounded = runtime.encode(tiny(), [IDS]), runtime.encode(prepared, [IDS])

    assert plain.dtype == np.float32 and plain.shape == (len(IDS), 48)
    assert 0 < np.linalg.norm(plain - rounded) < 5e-3 * np.linalg.norm(plain)


def test_decoder_is_rejected() -> None:
    with pytest.raises(Refused, match="FloatEncoder: tiny is a decoder"):
        FloatEncoder(models.load("tiny"))


def test_plain_float_repr() -> None:
    assert repr(tiny()) == "FloatEncoder('tiny-encoder')"
