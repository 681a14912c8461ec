"""Mixes on the families of decoders: norms on q and k, other scales, soft caps, ALiBi, windows, rotary scalings."""

from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.models.backend import NUMPY
from refemu.models.builtin.tiny_decoders import CONFIGS
from refemu.models.schemes.harmonia import search
from refemu.models.schemes.harmonia.smoothing import Smoothing
from refemu.models.schemes.kllm.calibrate import Observer
from refemu.models.taps import Watch
from tests.models.schemes.mix.pairs import TEXT, few_logits, logits, part, prepared

NEW = [name for name in CONFIGS if name not in ("tiny-gpt2", "tiny-opt", "tiny-mixtral")]
SAME = ("olive-4+fp16", "fp16+leankv-k8v4", "kllm-a4+kllm-a4", "harmonia-kv8+harmonia-kv8")
PLAIN_SCORES = [name for name in NEW if name not in ("tiny-gemma2", "tiny-bloom")]


def written(name: str, model: str) -> str:
    """A part, with `online=false` where the soft cap of a model needs it."""
    capped = model == "tiny-gemma2" and name.startswith("harmonia")
    return f"{name}:online=false" if capped else part(name)


def text(mix: str, model: str) -> str:
    linear, attention = mix.split("+")
    first = part(linear) if linear.startswith("harmonia") else written(linear, model)  # offsets are the attention's
    return f"{first}+{written(attention, model)}"


@pytest.mark.parametrize("model", NEW)
@pytest.mark.parametrize("mix", SAME)
def test_a_mix_of_one_scheme_is_that_scheme(mix: str, model: str) -> None:
    if mix.endswith("leankv-k8v4") and model not in PLAIN_SCORES:
        with pytest.raises(Refused, match="attention over pages lacks "):
            prepared(text(mix, model), model=model)
        return
    single = written(mix.removeprefix("fp16+").partition("+")[0], model)
    short = slice(0, 12) if model == "tiny-mistral" else slice(None)  # LeanKV has no text beyond its window
    both = [prepared(scheme, model=model) for scheme in (text(mix, model), single)]
    found, wanted = (models.session(each).append(TEXT[short]).tobytes() for each in both)

    assert found == wanted
    if short == slice(None):
        assert logits(both[0]) == logits(both[1])


PAIRS = ("olive-4+kllm-a4", "kllm-a4+fp16", "fp16+kllm-a4")


@pytest.mark.long
@pytest.mark.parametrize("model", ["tiny-qwen3", "tiny-gemma2", "tiny-bloom"])
@pytest.mark.parametrize("mix", PAIRS)
def test_families_backends_agree(mix: str, model: str) -> None:
    found = few_logits(prepared(text(mix, model), model=model))

    assert np.isfinite(np.frombuffer(found, np.float32)).all()
    assert found == few_logits(prepared(text(mix, model), "numpy", model))


def test_norms_of_q_and_k_are_the_attentions() -> None:
    """D-mix-5: KLLM's attention has the scale in the gain of q's norm, once, with any linear layers."""
    x = np.random.default_rng(5).normal(size=(3, 4, 16)).astype(np.float16).astype(np.float32)
    alone = {name: prepared(part(name), model="tiny-qwen3") for name in ("fp16", "kllm-a4")}
    for mix, attention in (("fp16+kllm-a4", "kllm-a4"), ("kllm-a4+kllm-a4", "kllm-a4"), ("kllm-a4+fp16", "fp16")):
        mixed = prepared(text(mix, "tiny-qwen3"), model="tiny-qwen3")
        for name in ("q_norm", "k_norm"):
            wanted = alone[attention].norm(f"blk.1.{name}", x)
            assert mixed.norm(f"blk.1.{name}", x).tobytes() == wanted.tobytes()
        assert mixed.queries(1, x) is x
    assert alone["fp16"].norm("blk.1.q_norm", x).tobytes() != alone["kllm-a4"].norm("blk.1.q_norm", x).tobytes()
    weights = [
        (parts.linear_parts[0] if hasattr(parts, "linear_parts") else parts)
        .operands.group(0, "qkv")
        .weights[0]
        .tensor.scale
        for parts in (alone["kllm-a4"], prepared(text("kllm-a4+fp16", "tiny-qwen3"), model="tiny-qwen3"))
    ]
    assert weights[0].tobytes() == weights[1].tobytes()


def test_factors_of_harmonia_are_in_its_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linear parts do not change W_Q and W_K; calibrations after the attention see its norms (D-harmonia-57)."""
    monkeypatch.setattr(search, "obtain", lambda *_: Smoothing({}, np.full((2, 2, 16), 4, np.float32)))
    mixed: Any = models.prepare("tiny-qwen3", f"{part('kllm-a4')}+harmonia-kv8")
    plain, model = prepared("fp16", model="tiny-qwen3"), models.load("tiny-qwen3")
    x = np.random.default_rng(6).normal(size=(3, 4, 16)).astype(np.float16).astype(np.float32)

    assert mixed.linear_parts[0].sha256 == model.sha256
    assert np.array_equal(mixed.norm("blk.0.k_norm", x[:, :2]), plain.norm("blk.0.k_norm", x[:, :2]) * 4)
    assert np.array_equal(mixed.norm("blk.0.q_norm", x), plain.norm("blk.0.q_norm", x) / 4)


def test_calibration_after_an_attention_includes_its_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of KLLM's linear layers has k as the attention reads it, not as scheme `fp16` does."""
    seen = []

    class Behind:
        def norm(self, name: str, x: np.ndarray) -> np.ndarray:
            seen.append(name)
            return x

        def prompt_attention(self, layer: int, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
            return q.reshape(len(q), -1)

    observer = Observer(models.load("tiny-qwen3"), NUMPY, Behind())
    observer.block(1, np.ones((2, 64), np.float32))

    assert seen == ["blk.1.q_norm", "blk.1.k_norm"]


def test_queries_get_the_models_own_scale() -> None:
    """Gemma 2 divides logits by the root of another number than the head width."""
    mixed = prepared(text("fp16+kllm-a4", "tiny-gemma2"), model="tiny-gemma2")
    q = np.ones((1, 4, 32), np.float32)

    assert mixed.queries(0, q).tobytes() == fp16.round16(q * np.float32(1 / np.sqrt(24.0))).tobytes()


def test_offsets_with_a_soft_cap_are_rejected() -> None:
    """By the attention's part, as alone; a linear part has no offsets."""
    with pytest.raises(Refused, match=r"offsets of K shift all logits of a query, .* use online=false"):
        models.prepare("tiny-gemma2", "fp16+harmonia-kv4")
    assert prepared("harmonia-kv4+fp16", model="tiny-gemma2").head(np.ones((1, 64), np.float32), Watch()).size == 256


def test_pages_have_no_text_beyond_a_window() -> None:
    session = models.session(prepared("fp16+leankv-k8v4", model="tiny-mistral"))
    session.append(TEXT[:12])

    with pytest.raises(Refused, match="a text must have at most the 12 tokens of the model's window, got 13"):
        session.append(TEXT[12:13])
    assert len(session) == 12


def test_calibration_before_pages_has_the_models_window() -> None:
    """What no page holds yet is attended as scheme `fp16` does it (D-leankv-49)."""
    draws = [np.random.default_rng(seed).normal(size=(20, heads, 16)) for seed, heads in ((1, 4), (2, 2), (3, 2))]
    q, k, v = (draw.astype(np.float16).astype(np.float32) for draw in draws)
    paged, plain = (prepared(name, model="tiny-mistral") for name in ("leankv-k8v4", "fp16"))

    assert paged.prompt_attention(0, q, k, v).tobytes() == plain.prompt_attention(0, q, k, v).tobytes()
