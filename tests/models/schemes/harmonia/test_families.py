"""Decoders with norms on q and k, soft caps, windows: what smoothing and the attention do there."""

import dataclasses

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.backend import NUMPY
from refemu.models.schemes import parse
from refemu.models.schemes.harmonia.layers import Harmonia
from refemu.models.schemes.harmonia.smoothing import Smoothing, ones, pairs
from refemu.models.schemes.scheme import silent

TEXT = list(b"Sir Walter Elliot, of Kellynch Hall")


def harmonia(name: str, factors: np.ndarray | None = None) -> Harmonia:
    model, config = models.load(name), parse("harmonia-kv8")
    given = ones(model.config) if factors is None else Smoothing({}, factors)  # type: ignore[arg-type]
    return Harmonia(model, config, NUMPY, silent, given)  # type: ignore[arg-type]


def test_gains_of_q_and_k_are_smoothed() -> None:
    """D-harmonia-57: by head, q divided, k multiplied, each rounded to fp16; W_Q and W_K stay."""
    sizes = models.load("tiny-qwen3").config
    factors = np.exp2(np.random.default_rng(2).integers(-3, 4, (2, 2, 8))).astype(np.float32)
    factors = np.concatenate([factors, factors], axis=2)  # pairs are half a head apart
    parts, plain = harmonia("tiny-qwen3", factors), harmonia("tiny-qwen3")
    x = np.random.default_rng(3).normal(size=(5, 4, 16)).astype(np.float16).astype(np.float32)

    for name, by_head in (("q", 1 / np.repeat(factors[1], 2, axis=0)), ("k", factors[1])):
        given = x[:, : len(by_head)]
        wanted = plain.norm(f"blk.1.{name}_norm", given) * by_head  # powers of two: exact, nothing is subnormal
        assert np.array_equal(parts.norm(f"blk.1.{name}_norm", given), wanted)
        assert not np.array_equal(wanted, given)
    group = (0, ("q", "k", "v"))
    assert np.array_equal(parts._linears[group].weight.code, plain._linears[group].weight.code)
    assert sizes == parts.model


def test_unrotated_channel_has_its_own_factor() -> None:
    sizes = dataclasses.replace(models.load("tiny-phi3").config, head_dim=6, rotary_dim=4)  # type: ignore[type-var]

    assert pairs(sizes).tolist() == [[0, 2], [1, 3], [4, 4], [5, 5]]  # type: ignore[arg-type]


def test_offsets_with_a_soft_cap_are_rejected() -> None:
    with pytest.raises(Refused, match=r"offsets of K shift all logits of a query, .* use online=false"):
        models.prepare("tiny-gemma2", "harmonia-kv4")


def test_a_folded_scale_is_the_models_own() -> None:
    """Gemma 2's logits are divided by the root of another number than the head width; so is W_Q where it holds that."""
    model, config = models.load("tiny-gemma2"), parse("harmonia-kv8:online=false,score_scale=fold")
    seen = {}

    class Watched(Harmonia):
        def _smooth(self, tensor: str, rows: np.ndarray) -> np.ndarray:
            seen[tensor] = super()._smooth(tensor, rows)
            return seen[tensor]

    Watched(model, config, NUMPY, silent, ones(model.config))  # type: ignore[arg-type]
    wanted = model.tensor("blk.0.q") * np.float32(1 / np.sqrt(24.0))

    assert np.array_equal(seen["blk.0.q"], wanted)


def test_window_changes_logits_after_it() -> None:
    model = models.load("tiny-mistral")
    wide = dataclasses.replace(model, config=dataclasses.replace(model.config, windows=()))  # type: ignore[type-var]
    within = {models.run(each, TEXT[:12], "harmonia-kv8").logits.tobytes() for each in (model, wide)}
    found, other = (models.run(each, TEXT, "harmonia-kv8").logits for each in (model, wide))

    assert len(within) == 1
    assert (found[12:] != other[12:]).any(axis=1).all()
