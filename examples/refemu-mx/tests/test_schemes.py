"""Schemes: what reaches the products is what the formats give, every option has an effect, and parts make mixes."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import oracle
import pytest
from refemu_mx import schemes
from refemu_mx.schemes import MxConfig
from refemu_mx.tensors import MxFormat

from refemu import models
from refemu.arith import Refused

IDS = [5, 17, 250, 3, 99, 31]
TINY = models.load("tiny")


class Watching:
    """The readable backend, which keeps what is multiplied."""

    def __init__(self) -> None:
        self._backend: Any = models.prepare("tiny", "fp16", backend="numpy").backend
        self.name = self._backend.name
        self.matrices: list[np.ndarray] = []
        self.products: list[tuple[np.ndarray, Any]] = []

    def weights(self, rows: np.ndarray) -> Any:
        self.matrices.append(rows)
        return self._backend.weights(rows)

    def matmul(self, x: np.ndarray, weights: Any, acc: Any) -> np.ndarray:
        self.products.append((x, weights))
        return np.asarray(self._backend.matmul(x, weights, acc))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def exact(element: str, rows: np.ndarray) -> np.ndarray:
    """Values of MX blocks along rows, by exact fractions."""
    table = np.zeros(rows.shape, np.float32)
    for number, row in enumerate(rows.astype(np.float32)):
        for start in range(0, row.size, 32):
            words = row[start : start + 32].view(np.uint32).tolist()
            scale, codes, _ = oracle.encode(element, "floor", [oracle.of_float32(word) for word in words])
            values = [Fraction(oracle.value(element, code)) * Fraction(2) ** (scale - 127) for code in codes]
            table[number, start : start + 32] = [float(each) for each in values]
    return table


def mismatches(element: str) -> tuple[int, int]:
    """Weights and inputs of the first layer that are not those of the format, under the scheme of an element."""
    backend: Any = Watching()
    name = {"e2m1": "mxfp4", "e4m3": "mxfp8"}[element]
    prepared = models.prepare("tiny", name, backend=backend)
    models.session(prepared).append(IDS[:2])
    names = [f"blk.0.{each}" for each in prepared.model.groups[0]]
    rows = np.concatenate([TINY.half(each)[:4] for each in names])
    ends = np.cumsum([0, *(len(TINY.half(each)) for each in names)])[:-1]
    got = next(each for each in backend.matrices if len(each) == sum(len(TINY.half(name)) for name in names))
    got = np.concatenate([got[end : end + 4] for end in ends])
    x = prepared.norm("blk.0.attn_norm", prepared.embed(np.array(IDS[:2])))
    reached = backend.products[0][0]
    return int(np.count_nonzero(got != exact(element, rows))), int(np.count_nonzero(reached != exact(element, x)))


@pytest.mark.parametrize("element", ["e2m1", "e4m3"])
def test_values_of_the_product_are_the_formats(element: str) -> None:
    assert mismatches(element) == (0, 0)


def test_unencoded_values_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemes, "values", lambda *_: lambda x: x)
    weights, inputs = mismatches("e2m1")

    assert weights > 100 and inputs > 20


def logits(scheme: str | MxConfig, backend: str = "jit") -> bytes:
    """Logits of a few tokens."""
    return models.run("tiny", IDS, scheme=scheme, backend=backend).logits.tobytes()


def steps(scheme: str) -> bytes:
    """Logits of the same tokens one by one, as they are generated."""
    session = models.session(models.prepare("tiny", scheme))
    return np.concatenate([session.append([each]) for each in IDS]).tobytes()


def test_every_option_has_an_effect() -> None:
    texts = ["fp16", "mxfp8", "mxfp6", "mxfp4", "mxint8", "nvfp4", "mxfp4:rule=ceil", "mxfp4:rule=even"]
    texts += ["mxfp4:rule=nvidia", "mxfp4:activations=none", "mxfp4:activations=mxfp8", "mxfp4:weights=nvfp4"]
    texts += ["mxfp8:weights=mxfp8_e5m2", "mxfp8:activations=mxfp8_e5m2", "mxfp6:weights=mxfp6_e3m2"]
    answers = [logits(text) for text in texts]

    assert len(set(answers)) == len(texts)


@pytest.mark.parametrize("scheme", ["mxfp4", "nvfp4", "mxfp8", "mxint8", "mxfp6"])
def test_backends_and_phases_give_equal_bits(scheme: str) -> None:
    assert logits(scheme) == logits(scheme, "numpy") == steps(scheme)


@pytest.mark.parametrize("text", ["mxfp4+leankv-k8v4", "mxfp8@0+nvfp4+harmonia-kv4"])
def test_mix_has_the_cache_of_the_paper(text: str) -> None:
    """The mix has the linear layers of one and the cache of the other, and is written back as it was."""
    run = models.run("tiny", IDS, scheme=text)
    linear = text.rpartition("+")[0].rpartition("+")[2]
    alone = models.prepare("tiny", linear)
    mixed: Any = models.prepare("tiny", text)
    x = alone.norm("blk.1.ffn_norm", alone.embed(np.array(IDS)))
    names = next(group for group in alone.model.groups if "up" in group)  # harmonia changes those of q and k
    watch: Any = None

    assert repr(run.scheme) == f"Mix({text!r})"
    assert np.isfinite(run.logits).all()
    for got, want in zip(mixed.linear(1, names, x, watch), alone.linear(1, names, x, watch), strict=True):
        assert np.array_equal(got, want)
    cache = text.rpartition("+")[2]
    assert len({steps(each) for each in (text, linear, f"fp16+{cache}", "fp16")}) == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MxConfig(weights="fp3"), "weights must be one of mxfp8, .* got 'fp3'"),  # type: ignore[arg-type]
        (lambda: MxConfig(weights=None), "weights must be one of"),  # type: ignore[arg-type]
        (lambda: MxConfig(activations="fp3"), "activations must be one of"),  # type: ignore[arg-type]
        (lambda: MxConfig(rule="up"), "rule must be one of floor, ceil, even, nvidia, got 'up'"),  # type: ignore[arg-type]
        (lambda: MxConfig("nvfp4", None, "ceil"), "rule has no effect without MX blocks, got 'ceil'"),
        (lambda: models.run("tiny", IDS, scheme="fp16+mxfp4"), "put the scheme of the KV cache last"),
        (lambda: models.run("tiny", IDS, scheme="mxfp4:blocks=16"), "unknown parameter 'blocks' of scheme mxfp4"),
    ],
)
def test_invalid_arguments_are_rejected(make: Callable[[], object], message: str) -> None:
    with pytest.raises(Refused, match=message):
        make()


def test_the_default_rule_is_that_of_the_specification() -> None:
    x = np.full((1, 32), 7.5, np.float32)
    assert MxFormat("e2m1").encode(x).decode()[0, 0] == 6.0
