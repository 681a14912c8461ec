"""A mixed decoder: equal to single schemes where it is one, and to compositions by hand elsewhere."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith import fp16
from refemu.models.schemes.kllm import weights as kllm_weights
from refemu.models.taps import Watch
from tests.models.schemes.mix.pairs import PROMPT, TEXT, logits, part, prepared

SAME = {
    "fp16+fp16": "fp16",
    "fp16:acc=fp16,residual=fp32+fp16": "fp16:acc=fp16,residual=fp32",
    "olive-4+fp16": "olive-4",
    "olive-8+fp16": "olive-8",
    "olive-study+fp16": "olive-study",
    "fp16+leankv-k8v4": "leankv-k8v4",
    "fp16+leankv": "leankv",
    "harmonia-kv4+harmonia-kv4": "harmonia-kv4",
    "harmonia-kv8+harmonia-kv8": "harmonia-kv8",
    "kllm-a4+kllm-a4": "kllm-a4",
    "kllm-a3-s+kllm-a3-s": "kllm-a3-s",
}


def short(text: str) -> str:
    return "+".join(part(name) if ":" not in name else name for name in text.split("+"))


@pytest.mark.parametrize(("mix", "single"), SAME.items(), ids=list(SAME))
def test_a_mix_of_one_scheme_is_that_scheme(mix: str, single: str) -> None:
    """Bit for bit, through two parts that were prepared apart."""
    assert logits(prepared(short(mix))) == logits(prepared(short(single)))


@pytest.mark.parametrize("model", ["tiny-gpt2", "tiny-opt"])
@pytest.mark.parametrize("mix", ["olive-4+fp16", "fp16+leankv-k8v4", "kllm-a4+kllm-a4", "harmonia-kv8+harmonia-kv8"])
def test_mix_of_one_scheme_equals_it_elsewhere(mix: str, model: str) -> None:
    single = mix.removeprefix("fp16+").partition("+")[0]

    assert logits(prepared(short(mix), model=model)) == logits(prepared(short(single), model=model))


class Joined:
    """Linear layers of prepared schemes by block; all else is of `rest`. Composed by hand, without a mix."""

    def __init__(self, rest: Any, by_block: Mapping[int, Any]) -> None:
        self._rest, self._by_block = rest, by_block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rest, name)

    def _of(self, layer: int) -> Any:
        return self._by_block.get(layer, self._rest)

    def norm(self, name: str, x: np.ndarray) -> Any:
        return self._of(int(name.split(".")[1]) if "." in name else -1).norm(name, x)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Any:
        outputs = list(self._of(layer).linear(layer, names, x, watch))
        if names[0] == "q" and self._rest.config.scales_queries and not self._of(layer).config.scales_queries:
            outputs[0] = fp16.round16(outputs[0] * np.float32(0.25))
        return outputs

    def activation(self, layer: int, gate: np.ndarray, up: np.ndarray, watch: Watch) -> Any:
        return self._of(layer).activation(layer, gate, up, watch)


@cache
def by_itself(name: str) -> Any:
    """A single scheme whose queries hold no 1 / sqrt(head_dim), also where KLLM's would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kllm_weights, "attention_scale", lambda scale, head_dim: scale)
        return models.prepare("tiny", short(name))


MAPS: dict[str, tuple[str, dict[int, str]]] = {
    "harmonia-kv8@0;2+fp16+fp16": ("fp16", {0: "harmonia-kv8", 2: "harmonia-kv8"}),
    "fp16:acc=fp16@1+fp16+leankv-k8v4": ("leankv-k8v4", {1: "fp16:acc=fp16"}),
    "fp16+harmonia-kv8@1+leankv": ("leankv", {1: "harmonia-kv8"}),
    "harmonia-kv8@0+fp16:acc=fp16@2+fp16+fp16": ("fp16", {0: "harmonia-kv8", 2: "fp16:acc=fp16"}),
    "kllm-a4@1+fp16+fp16": ("fp16", {1: "kllm-a4"}),
    "kllm-a3@0;2+fp16+leankv-k8v4": ("leankv-k8v4", {0: "kllm-a3", 2: "kllm-a3"}),
    "fp16@0-1+kllm-a4+kllm-a4": ("kllm-a4", {0: "fp16", 1: "fp16"}),
}


def mapped(text: str) -> str:
    """The text with short calibrations, layers in place."""
    parts = []
    for piece in text.split("+"):
        name, _, layers = piece.partition("@")
        options = name.partition(":")[2]
        parts.append(f"{name.partition(':')[0]}@{layers}:{options}" if options else part(name, layers))
    return "+".join(parts)


@pytest.mark.parametrize(("mix", "by_hand"), MAPS.items(), ids=list(MAPS))
def test_layers_are_those_of_their_parts(mix: str, by_hand: tuple[str, dict[int, str]]) -> None:
    rest, by_block = by_hand
    joined = Joined(prepared(short(rest)), {layer: by_itself(name) for layer, name in by_block.items()})

    assert logits(prepared(mapped(mix))) == logits(joined)
    assert logits(joined) != logits(prepared(short(rest)))


def test_queries_get_the_root_of_the_head_once() -> None:
    """D-mix-3: only an attention that KLLM computes reads queries times 1 / sqrt(head_dim), and only from others."""
    rng = np.random.default_rng(3)
    q = fp16.round16(rng.standard_normal((5, 4, 16), np.float32))

    scaled = prepared(f"fp16+{part('kllm-a4')}")
    assert scaled.queries(0, q).tobytes() == (q * np.float32(0.25)).tobytes()
    for text in (f"{part('kllm-a4')}+{part('kllm-a4')}", f"{part('kllm-a4')}+fp16", "fp16+fp16"):
        assert prepared(text).queries(0, q) is q
    alone, apart = (prepared(text) for text in (part("kllm-a4"), f"{part('kllm-a4')}+fp16"))
    both = alone.operands, apart.linear_parts[0].operands
    ours, theirs = (parts.group(0, "qkv").weights[0].tensor for parts in both)
    assert ours.index.tobytes() == theirs.index.tobytes()
    assert ours.scales.tobytes() == (theirs.scales * np.float16(0.25)).tobytes()


def test_parts_outside_blocks_belong_to_unlayered_part() -> None:
    """D-mix-4: the head of the default part, even where it has no block left; so are the residual sums."""
    quantized = prepared("fp16@0-2+olive-4:skip=none,low=90,high=130,step=10,calibration_tokens=64+fp16")
    plain = prepared("olive-8@0-2:low=90,high=130,step=10,calibration_tokens=64+fp16:residual=fp32+fp16")
    x = np.ones((1, quantized.model.width), np.float32)

    assert [part.names for part in quantized.outer_part.parts()] == [("lm_head",)]
    assert quantized.head(x, Watch()).tobytes() != prepared("fp16").head(x, Watch()).tobytes()
    assert plain.head(x, Watch()).tobytes() == prepared("fp16").head(x, Watch()).tobytes()
    tiny = np.float32(2.0**-20)
    assert plain.add(x, x * tiny)[0, 0] == 1 + tiny
    assert quantized.add(x, x * tiny)[0, 0] == 1


def test_a_session_goes_back() -> None:
    """A rejected pass does not change the caches of the attention."""
    mixed = prepared(f"{part('olive-4')}+leankv-k8v4")
    session = models.session(mixed)
    session.append(TEXT[:PROMPT])
    mark, bits = session.mark(), session.storage_bits
    first = session.append(TEXT[PROMPT:])
    session.rewind(mark)

    assert session.storage_bits == bits > 0
    assert session.append(TEXT[PROMPT:]).tobytes() == first.tobytes()


def test_it_shows_its_text() -> None:
    assert repr(prepared("fp16+leankv-k8v4")) == "Mixed('tiny', Mix('fp16+leankv-k8v4'), backend='jit')"
