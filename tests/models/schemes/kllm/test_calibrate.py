"""The calibration run: what is trained on what, against the oracle's training; windows, several configurations."""

import dataclasses
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.models import schemes
from refemu.models.backend import find
from refemu.models.schemes.kllm import calibrate
from refemu.models.schemes.kllm import weights as kllm_weights
from refemu.models.schemes.kllm.calibrate import Observer, Seen
from refemu.models.schemes.kllm.calibration import Calibration
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.kllm.tensors import INPUTS
from tests.models.schemes.kllm import plain as kllm_plain
from tests.oracles import fp16
from tests.oracles.kllm import formats

IDS = [5, 3, 0, 12, 7, 7, 1, 9, 2, 11, 4, 8]
SMALL = KllmConfig(calibration_tokens=8)


def calibrated(config: KllmConfig = SMALL, ids: list[int] = IDS) -> Calibration:
    return calibrate.calibrate(kllm_plain.small(), [config], find("jit"), ids)[0]


@cache
def read() -> dict[str, np.ndarray]:
    """What the linear layers read under scheme `fp16`, window by window."""
    found: dict[str, list[np.ndarray]] = {}
    prepared: Any = models.prepare(kllm_plain.small(), "fp16")
    compute = prepared.linear

    def linear(layer: int, names: Any, x: np.ndarray, watch: Any) -> Any:
        found.setdefault(f"{layer}.{names[0]}", []).append(x)
        return compute(layer, names, x, watch)

    prepared.linear = linear
    for window in (IDS[:8], IDS[8:]):
        models.session(prepared).append(window)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def trained(x: np.ndarray, k: int, weights: np.ndarray | None = None, bits: int = 4) -> list[int]:
    """The oracle's codebook of rows of x, each divided by its largest inlier."""
    samples: list[int] = []
    heavy: list[float] = []
    for row, rest in zip(x.astype(np.float16), x if weights is None else weights, strict=True):
        words = row.view(np.uint16).tolist()
        mask = formats.top_mask(words, k)
        scale = formats.scale_of([word for word, m in zip(words, mask, strict=True) if not m])
        samples += [formats.positive_zero(fp16.div(word, scale)) for word, m in zip(words, mask, strict=True) if not m]
        heavy += [float(w) for w, m in zip(rest, mask, strict=True) if not m]
    return formats.train(samples, None if weights is None else heavy, bits=bits).codebook


def test_activations_are_trained_as_they_are_quantized() -> None:
    """D-kllm-18, D-kllm-24: x itself before a norm, one outlier on each side of a token."""
    embedded = kllm_plain.small().tensor("embed")[IDS]

    assert calibrated().codebook["blk.0.attn_in"].tolist() == trained(embedded, 1)
    assert calibrated().codebook["blk.1.o_in"].tolist() == trained(read()["1.o"], 1)
    assert calibrated().codebook["blk.1.down_in"].tolist() == trained(read()["1.down"], 1)


def test_other_places_of_norm_train_on_other_values() -> None:
    """D-kllm-18."""
    gain = kllm_plain.small().tensor("blk.0.attn_norm").astype(np.float16)
    embedded = kllm_plain.small().tensor("embed")[IDS].astype(np.float16)
    gained = calibrated(dataclasses.replace(SMALL, gamma="activations"))
    behind = calibrated(dataclasses.replace(SMALL, norm="fp16"))

    assert gained.codebook["blk.0.attn_in"].tolist() == trained(embedded * gain, 1)
    assert behind.codebook["blk.1.ffn_in"].tolist() == trained(read()["1.gate"], 1)


@pytest.mark.parametrize(
    ("text", "name", "reads"),
    [("kllm-a4", "o", "1.o"), ("kllm-a4:norm=fp16", "up", "1.gate"), ("kllm-a4:weight_bits=2", "down", "1.down")],
)
def test_weights_are_trained_by_moment_of_their_inputs(text: str, name: str, reads: str) -> None:
    """D-kllm-29: w = h_k * s_n ** 2, h summed token by token in float64; no outliers."""
    config = dataclasses.replace(schemes.parse(text), calibration_tokens=8)  # type: ignore[type-var]
    weight = kllm_plain.small().tensor(f"blk.1.{name}").astype(np.float16)
    moment = np.zeros(weight.shape[1])
    for row in read()[reads].astype(np.float64):
        moment = moment + row * row
    scale = np.abs(weight).max(axis=1).astype(np.float64)
    found = calibrated(config)  # type: ignore[arg-type]

    assert found.moment[f"blk.1.w{name}"].tobytes() == moment.tobytes()
    bits = 2 if "weight_bits" in text else 4
    assert found.codebook[f"blk.1.w{name}"].tolist() == trained(weight, 0, moment * (scale * scale)[:, None], bits)


def test_folded_weights_meet_the_quotient_without_the_gain() -> None:
    """D-kllm-29: what multiplies the stored weight."""
    embedded = kllm_plain.small().tensor("embed")[IDS].astype(np.float16).astype(np.float32)
    quotient = find("numpy").rmsnorm(embedded, np.ones(9, np.float32), kllm_plain.small().config.rms_eps)  # type: ignore[union-attr]

    assert np.allclose(calibrated().moment["blk.0.wq"], (quotient.astype(np.float64) ** 2).sum(axis=0), rtol=1e-12)
    assert calibrated().moment["blk.0.wk"].tobytes() == calibrated().moment["blk.0.wq"].tobytes()


def test_limits_are_those_of_the_windows() -> None:
    """D-kllm-30."""
    tokens = read()["1.down"].astype(np.float16).view(np.uint16).tolist()

    assert tuple(calibrated().limits["blk.1.down_in"].tolist()) == formats.thresholds(tokens, "1")
    pooled = calibrated(dataclasses.replace(SMALL, static_statistic="pooled"))
    assert tuple(pooled.limits["blk.1.down_in"].tolist()) == formats.thresholds(tokens, "1", "pooled")


def test_column_norms_weigh_activations() -> None:
    """D-kllm-29: squares of the weights that read an input, summed output by output; 1 where none does."""
    found = calibrated(dataclasses.replace(SMALL, act_sensitivity="column_norm"))
    down = kllm_plain.small().tensor("blk.1.down").astype(np.float16).astype(np.float64)
    norm = np.zeros(down.shape[1])
    for row in down:
        norm = norm + row * row
    x = read()["1.down"]

    assert found.codebook["blk.1.down_in"].tolist() == trained(x, 1, np.broadcast_to(norm, x.shape))
    assert found.codebook["blk.1.q"].tobytes() == calibrated().codebook["blk.1.q"].tobytes()
    assert calibrate.column_norm([], 3).tolist() == [1, 1, 1]


def test_user_weights_take_the_place_of_proxies(tmp_path: Path) -> None:
    """D-kllm-29: Fisher information, for instance, of weights and of activations."""
    path, model = tmp_path / "fisher.npz", kllm_plain.small()
    random = np.random.default_rng(2)
    arrays = {"blk.1.wdown": random.random((9, 11)), "blk.1.down_in": random.random(11)}
    np.savez(path, **arrays)  # type: ignore[arg-type]
    found, x = calibrated(dataclasses.replace(SMALL, sensitivity=str(path))), read()["1.down"]
    weight = model.tensor("blk.1.down").astype(np.float16)

    assert found.codebook["blk.1.wdown"].tolist() == trained(weight, 0, arrays["blk.1.wdown"])
    assert found.codebook["blk.1.down_in"].tolist() == trained(x, 1, np.broadcast_to(arrays["blk.1.down_in"], x.shape))
    assert found.description["sensitivity_sha256"] != calibrated().description["sensitivity_sha256"]


def test_joint_calibrations_equal_separate_ones() -> None:
    texts = [
        "kllm-a4",
        "kllm-a3",
        "kllm-a4:outlier_percent=30",
        "kllm-a4:norm=fp16",
        "kllm-a4:gamma=activations",
        "kllm-a4:weight_sensitivity=none",
        "kllm-a4:act_sensitivity=column_norm",
        "kllm-a4:kv_outliers=false",
    ]
    configs: Any = [dataclasses.replace(schemes.parse(text), calibration_tokens=8) for text in texts]  # type: ignore[type-var]
    together = calibrate.calibrate(kllm_plain.small(), configs, find("jit"), IDS)

    assert [one.to_bytes() for one in together] == [calibrated(config).to_bytes() for config in configs]
    assert len({one.to_bytes() for one in together}) == len(texts)


def test_backends_train_the_same() -> None:
    readable = calibrate.calibrate(kllm_plain.small(), [SMALL], find("numpy"), IDS)[0]

    assert readable.to_bytes() == calibrated().to_bytes()


def test_windows() -> None:
    model = kllm_plain.small()
    config = KllmConfig(calibration_tokens=5, calibration_windows=2)

    assert calibrate.cut(model, config, list(range(12))) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert [len(one) for one in calibrate.cut(model, KllmConfig(), [1] * 40)] == [16, 16, 8]  # the context
    text = calibrate.cut(models.load("tiny"), KllmConfig(), None)
    assert [len(one) for one in text] == [2048] * 8 + [18341 - 8 * 2048]


def test_observed_activations_change_no_bit() -> None:
    model = kllm_plain.small()
    watching, plain = Observer(model, find("jit")), models.prepare(model, "fp16")
    x = watching.embed(np.array(IDS))
    for layer in range(2):
        x = watching.block(layer, x)
        seen = watching.take()

    assert plain.head(plain.norm("norm", x), None).tobytes() == models.session(plain).append(IDS).tobytes()  # type: ignore[arg-type]
    assert {f"read.{name}" for name in INPUTS.values()} < set(seen)
    assert repr(Seen({"q": x})) == "Seen(q)"


def test_stored_weights_are_made_once() -> None:
    seen, made = Seen({}), []
    for _ in range(2):
        seen.once(("stored",), lambda: made.append(kllm_weights.NORMS))

    assert len(made) == 1


def test_centroids_of_tiny_are_pinned() -> None:
    """D-kllm-28, D-kllm-29: every bit of every codebook, whatever the machine."""
    text = list(b"It is a truth universally acknowledged, that a single man")
    found = calibrate.calibrate(models.load("tiny"), [KllmConfig()], find("jit"), text)[0]
    words = b"".join(name.encode() + found.codebook[name].astype("<u2").tobytes() for name in sorted(found.codebook))

    assert hashlib.sha256(words).hexdigest() == "c80b77ae1860e29ce5729383f753b7b333a20992dd98f645e0fc02e2a45b2128"
