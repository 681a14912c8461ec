"""Preparation of a mix: order of calibrations, changes of weights, errors."""

from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes, text
from refemu.models.schemes.harmonia.smoothing import spread
from refemu.models.schemes.kllm.calibrate import calibrate
from refemu.models.schemes.olive import steps
from refemu.models.schemes.olive.layers import candidates
from refemu.models.taps import Watch
from tests.models.schemes.mix.pairs import SHORT, logits, part, prepared

OLIVE = SHORT["olive-4"]


def inputs(parts: Any, ids: list[int]) -> dict[tuple[int, str], np.ndarray]:
    """What the linear layers of a finished mix read of a text."""
    read: dict[tuple[int, str], np.ndarray] = {}
    linear = parts.linear

    def look(layer: int, names: Any, x: np.ndarray, watch: Watch) -> Any:
        read[layer, names[0]] = x
        return linear(layer, names, x, watch)

    parts.linear = look
    try:
        models.session(parts).append(ids, last=True)
    finally:
        del parts.linear
    return read


def calibration(count: int = 64) -> list[int]:
    return list(models.load("tiny").tokenizer.encode(text.calibration())[:count])


@pytest.mark.parametrize("attention", ["harmonia-kv4", part("kllm-a3"), "leankv-k8v4"])
def test_parts_calibrate_one_after_the_other(attention: str) -> None:
    """D-mix-1: an input of OliVe is frozen after everything before it in the finished mix."""
    mixed = prepared(f"olive-8@1:{OLIVE}+olive-4:{OLIVE}+{attention}")
    alone = prepared(f"olive-4:{OLIVE}")
    read = inputs(mixed, calibration())
    scales, differing = [], 0
    for layer, olive in mixed.linear_parts.items():
        choice = candidates(olive.config, olive.config.weight_bits)
        for names in mixed.model.groups:
            (frozen,) = olive.group(layer, names)
            fmt, search = steps.select(
                mixed.backend, read[layer, names[0]], choice.formats, per="tensor", **choice.options()
            )
            scales.append((frozen.input.format, frozen.input.scale) == (fmt, np.float32(search.scale)))
            differing += frozen.input.scale != alone.group(layer, names)[0].input.scale

    assert len(scales) == 12 and all(scales)
    assert differing > 4  # the block at 8 bits, and later ones


def test_attention_calibrates_first_and_as_it_does_alone() -> None:
    """D-mix-1: with linear layers in FP16, whatever these become."""
    alone = prepared(part("kllm-a4")).calibration
    found = prepared(f"olive-4:{OLIVE}+{part('kllm-a4')}").attention_part.calibration

    assert sorted(found.codebook) == [f"blk.{layer}.{name}" for layer in range(3) for name in "kqv"]
    for name, words in found.codebook.items():
        assert words.tobytes() == alone.codebook[name].tobytes()
    smoothing = prepared(f"olive-4:{OLIVE}+harmonia-kv4").attention_part.smoothing
    assert smoothing.s.tobytes() == prepared("harmonia-kv4").smoothing.s.tobytes()


def test_codebooks_are_trained_after_another_attention() -> None:
    """D-mix-1: KLLM's inputs follow Harmonia's attention; its own leaves them as in scheme `fp16`."""
    alone = prepared(part("kllm-a4")).calibration
    own = prepared(f"{part('kllm-a4')}+{part('kllm-a3')}").outer_part.calibration
    behind = prepared(f"{part('kllm-a4')}+harmonia-kv8").outer_part.calibration

    assert all(words.tobytes() == alone.codebook[name].tobytes() for name, words in own.codebook.items())
    same = {name for name, words in behind.codebook.items() if words.tobytes() == alone.codebook[name].tobytes()}
    assert {"blk.0.attn_in", "blk.0.wq"} <= same
    assert "blk.0.o_in" not in same and "blk.1.ffn_in" not in same


def test_widths_by_layer_equal_olives_own_option() -> None:
    """Two parts of OliVe, and one whose `eight_bit` names the same layers: one run calibrates either, by block."""
    names = "+".join(f"blk.{layer}.{name}" for layer in (0, 2) for name in ("q", "k", "v", "o", "gate", "up", "down"))

    assert logits(prepared(f"olive-8@0;2:{OLIVE}+olive-4:{OLIVE}+fp16")) == logits(
        prepared(f"olive-4:{OLIVE},eight_bit={names}")
    )


def test_layers_widened_by_error_equal_single_scheme() -> None:
    """All inputs are frozen again after the wider layers."""
    single = f"olive-4:{OLIVE},n_eight_bit=3"
    mixed = prepared(f"{single}+fp16")
    halved = prepared(f"olive-4@0:{OLIVE},n_eight_bit=2+olive-4:{OLIVE}+fp16")

    assert logits(mixed) == logits(prepared(single))
    widths = [
        [weight.format.width for part in halved.linear_parts[layer].parts() for weight in part.weights]
        for layer in (0, 1)
    ]
    assert widths[0].count(8) == 2 and set(widths[1]) == {4}
    read = inputs(halved, calibration())
    (last,) = halved.linear_parts[2].group(2, ("down",))
    choice = candidates(halved.outer_part.config, 4)
    fmt, search = steps.select(halved.backend, read[2, "down"], choice.formats, per="tensor", **choice.options())
    assert (last.input.format, last.input.scale) == (fmt, np.float32(search.scale))


def test_float_calibration_reads_scheme_fp16() -> None:
    """Its inputs are the same whatever the attention."""
    paged, plain = (prepared(f"olive-4:{OLIVE},calibration=float+{name}") for name in (part("kllm-a3"), "fp16"))

    for layer in range(3):
        for names in paged.model.groups:
            left, right = (mixed.linear_parts[layer].group(layer, names)[0].input for mixed in (paged, plain))
            assert (left.format, left.scale) == (right.format, right.scale)


def test_linear_parts_get_weights_with_the_attentions_factors() -> None:
    """D-mix-2: Harmonia's factors are in the W_Q and W_K that OliVe quantizes, and in nothing else."""
    mixed, plain = (prepared(f"olive-4:{OLIVE}+{name}") for name in ("harmonia-kv4", "fp16"))
    factors, model = mixed.attention_part.smoothing.s, models.load("tiny")
    (part,) = mixed.linear_parts[1].group(1, ("q", "k", "v"))
    choice = candidates(mixed.outer_part.config, 4)
    sizes: Any = model.config
    rows = {
        "blk.1.q": model.tensor("blk.1.q") / spread(factors[1], sizes.heads).reshape(-1, 1),
        "blk.1.k": model.tensor("blk.1.k") * factors[1].reshape(-1, 1),
        "blk.1.v": model.tensor("blk.1.v"),
    }

    assert (factors != 1).any()
    for weight in part.weights:
        fmt, search = steps.select(mixed.backend, rows[weight.name], choice.formats, per="row", **choice.options())
        assert (weight.format, weight.scale.tobytes()) == (fmt, search.scale.tobytes())
    (other,) = plain.linear_parts[1].group(1, ("q", "k", "v"))
    same = [
        left.scale.tobytes() == right.scale.tobytes() for left, right in zip(part.weights, other.weights, strict=True)
    ]
    assert same == [False, False, True]


def test_calibration_of_one_scheme_is_rejected_for_all() -> None:
    config: Any = schemes.parse(part("kllm-a4"))
    (found,) = calibrate(models.load("tiny"), [config], prepared("fp16").backend, None)

    with pytest.raises(Refused, match="mix: calibration must be token ids for all parts, got Calibration"):
        models.prepare("tiny", f"{part('kllm-a4')}+fp16", calibration=found)  # type: ignore[arg-type]


def test_stored_calibration_serves_part_with_same_weights(tmp_path: Any) -> None:
    """KLLM's codebooks of W_Q and W_K without Harmonia's factors are not those of weights with them."""
    prepared(part("kllm-a4")).calibration.save(tmp_path / "a4.npz")
    stored = f"{part('kllm-a4')},calibration={tmp_path}/a4.npz"

    assert logits(prepared(f"{stored}+fp16")) == logits(prepared(f"{part('kllm-a4')}+fp16"))
    with pytest.raises(Refused, match="weights_sha256 must be"):
        models.prepare("tiny", f"{stored}+harmonia-kv4")


def test_token_ids_calibrate_every_part() -> None:
    ids = list(b"It is a truth universally acknowledged, that a single man")
    mixed: Any = models.prepare("tiny", f"{part('kllm-a4')}+{part('kllm-a4')}", calibration=ids)
    alone: Any = models.prepare("tiny", part("kllm-a4"), calibration=ids)

    for half, name in ((mixed.outer_part, "blk.1.attn_in"), (mixed.attention_part, "blk.1.v")):
        assert half.calibration.codebook[name].tobytes() == alone.calibration.codebook[name].tobytes()
        assert half.calibration.description["tokens_sha256"] == alone.calibration.description["tokens_sha256"]


def test_missing_layers_and_encoders_are_rejected() -> None:
    with pytest.raises(
        Refused, match=r"mix olive-8@0-3\+fp16\+fp16: part 1, 'olive-8@0-3': layer must be in \[0, 2\], got 3"
    ):
        models.prepare("tiny", "olive-8@0-3+fp16+fp16")
    with pytest.raises(Refused, match="Mix computes decoders, and tiny-encoder is an encoder"):
        models.prepare("tiny-encoder", "olive-8+fp16")
