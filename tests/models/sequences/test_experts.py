"""A mixture of experts in a decoder against oracles, and what rejects it."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import runtime
from refemu.models.config import ModelConfig
from refemu.models.taps import Watch
from tests.oracles import experts as oracle

SIZES: dict[str, Any] = {
    "blocks": 1,
    "width": 8,
    "ffn": 4,
    "heads": 2,
    "kv_heads": 1,
    "head_dim": 4,
    "vocab": 16,
    "context": 8,
}


@pytest.mark.parametrize("backend", ["jit", "numpy"])
def test_mixture_is_the_oracles_sum_of_experts(backend: str) -> None:
    """D-arith-33. Each expert is computed alone, as a feed-forward half; the oracle routes and adds three of them.

    The sum of two would not show the order.
    """
    model = models.load("tiny-mixtral")
    model = dataclasses.replace(model, config=dataclasses.replace(model.config, experts_used=3))
    parts: Any = models.prepare(model, backend=backend)
    rng = np.random.default_rng(5)
    x = rng.standard_normal((6, 64)).astype(np.float16).astype(np.float32)
    found, seen = runtime.mixture(parts, 1, x, Watch()), set()
    router = parts.linear(1, ("router",), x, Watch())[0]
    outputs = [_expert(parts, number, x) for number in range(4)]
    for token in range(len(x)):
        weights = dict(oracle.route(router[token].tolist(), 3, True))
        seen.add(tuple(weights))
        chosen = {number: outputs[number][token].tolist() for number in weights}

        assert found[token].tolist() == oracle.combine(chosen, weights)
    assert len(seen) > 1


def _expert(parts: Any, number: int, x: np.ndarray) -> np.ndarray:
    gate, up = parts.linear(1, (f"expert.{number}.gate", f"expert.{number}.up"), x, Watch())
    out: np.ndarray = parts.linear(1, (f"expert.{number}.down",), parts.activation(1, gate, up, Watch()), Watch())[0]
    return out


@pytest.mark.parametrize("scheme", ["olive-4", "kllm-a4", "harmonia-kv8", "olive-8+leankv-k8v4"])
def test_schemes_without_experts_reject_mixtral_by_name(scheme: str) -> None:
    with pytest.raises(Refused, match="does not compute a mixture of experts, got tiny-mixtral"):
        models.prepare("tiny-mixtral", scheme)


@pytest.mark.parametrize(("used", "gated"), [(0, True), (3, True), (1, False)])
def test_config_rejects_invalid_experts(used: int, gated: bool) -> None:
    with pytest.raises(Refused, match=rf"experts need a gate, and experts_used in \[1, experts\], got {used} of 2"):
        ModelConfig(**SIZES, experts=2, experts_used=used, gated=gated)


def test_macs_count_the_experts_of_a_token() -> None:
    plain, mixed = ModelConfig(**SIZES), ModelConfig(**SIZES, experts=5, experts_used=2)

    assert mixed.macs(3) - plain.macs(3) == 3 * (3 * 8 * 4 + 5 * 8)
