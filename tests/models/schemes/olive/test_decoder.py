"""The OliVe schemes: linear layers equal a plain-Python one, calibration, mixed widths, baselines, overflow."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models import text as texts
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.models.schemes.olive.config import OliveConfig
from refemu.models.schemes.olive.layers import lossiest
from tests.models.held import Held, drawn

CALIBRATION = list(b"It is a truth universally acknowledged, that a single man")
IDS = list(b"Sir Walter")
TEXTS = [
    "olive-4",
    "olive-8",
    "olive-4:act_bits=none",
    "olive-8:act_bits=none",
    "olive-4:outliers=false",
    "olive-4:outliers=false,types=int",
    "olive-4:preset=repo",
    "olive-8:preset=repo",
    "olive-4:calibration=float",
    "olive-4:eight_bit=down+blk.0.q",
    "olive-4:n_eight_bit=3",
    "olive-4:skip=",
    "olive-4:skip=down+lm_head",
    "olive-8:overflow=saturate",
]


@cache
def prepared(text: str = "olive-4", backend: str = "jit") -> Any:
    """Four candidates instead of 88: the search has its own tests."""
    config = dataclasses.replace(schemes.parse(text), low=90, high=130, step=10)  # type: ignore[type-var]
    return models.prepare("tiny", config, backend=backend, calibration=CALIBRATION)


#: every part of these is in another of the texts
SLOW = {"olive-4:outliers=false", "olive-8:preset=repo", "olive-4:skip=", "olive-4:n_eight_bit=3"}


@pytest.mark.long
@pytest.mark.parametrize(
    "text", [pytest.param(each, marks=pytest.mark.slow) if each in SLOW else each for each in TEXTS]
)
def test_backends_agree_on_tiny(text: str) -> None:
    jit, numpy = (models.run("tiny", IDS, prepared(text, backend)) for backend in ("jit", "numpy"))

    assert np.array_equal(jit.logits.view(np.uint32), numpy.logits.view(np.uint32))
    assert jit.counters == numpy.counters


def test_backends_agree_at_row_sums_of_2_24() -> None:
    """A row whose mean is far above its sigma: at three sigma nearly all of it is outliers of 2**15."""
    config = ModelConfig(blocks=1, width=1024, ffn=64, heads=4, kv_heads=1, head_dim=16, vocab=256, context=64)
    weights = {name: draw.astype(np.float32) for name, draw in drawn(config.shapes, seed=0, divisor=32).items()}
    weights["blk.0.v"][0] = 1 + weights["blk.0.v"][0] / 256
    model = Model("one", config, Held(weights), "")
    jit, numpy = (
        models.prepare(model, "olive-8:low=100,high=101", backend, [5, 6, 7, 8]) for backend in ("jit", "numpy")
    )
    sums = [
        int(np.abs(weight.grid()).sum(axis=1).max())
        for part in jit.parts()  # type: ignore[attr-defined]
        for weight in part.weights
    ]

    assert sums[2] == 1 << 24 and max(sums[:2] + sums[3:]) < 1 << 20
    assert models.run(model, IDS, jit).logits.tobytes() == models.run(model, IDS, numpy).logits.tobytes()


def test_every_variant_gives_other_logits() -> None:
    """Except saturation, which nothing in `tiny` reaches."""
    found = {models.run("tiny", IDS, prepared(name)).logits.tobytes() for name in TEXTS}

    assert len(TEXTS) - 1 == len(found)


def test_weights_are_searched_by_row_inputs_by_tensor() -> None:
    """D-olive-23."""
    for part in prepared().parts():
        assert part.input is not None
        assert part.input.scale.shape == ()
        for weight in part.weights:
            assert weight.scale.shape == (weight.tensor.shape[0],)


def test_head_embedding_and_norms_stay_fp16() -> None:
    """D-olive-32: linear layers only, not the head."""
    assert len(prepared().parts()) == 3 * 4
    assert len(prepared("olive-4:skip=").parts()) == 3 * 4 + 1
    assert len(prepared("olive-4:skip=down+lm_head").parts()) == 3 * 3


def test_scales_come_from_the_calibration_tokens_only() -> None:
    """D-olive-31: frozen, so a decode step and a prompt use the same scale."""
    before = [float(part.input.scale) for part in prepared().parts()]
    models.run("tiny", IDS, prepared())
    other = models.prepare("tiny", prepared().config, calibration=CALIBRATION[::-1])

    assert before == [float(part.input.scale) for part in prepared().parts()]
    assert before != [float(part.input.scale) for part in other.parts()]


def test_sequential_calibration_sees_quantized_layers() -> None:
    """D-olive-31: the first input is the same either way, later ones are not."""
    sequential, floating = (
        [float(part.input.scale) for part in prepared(text).parts()]
        for text in ("olive-4", "olive-4:calibration=float")
    )

    assert sequential[0] == floating[0]
    assert sequential != floating


def test_default_calibration_is_the_shipped_text() -> None:
    config = OliveConfig(calibration_tokens=16)
    model = models.load("tiny")
    default, given = (
        models.prepare(model, config, calibration=ids)
        for ids in (None, model.tokenizer.encode(texts.calibration())[:16])
    )

    assert [float(part.input.scale) for part in default.parts()] == [float(part.input.scale) for part in given.parts()]


def test_layers_of_another_width_encode_the_input_again() -> None:
    """D-olive-41: both operands of a layer have one width."""
    wide, narrow = prepared("olive-4:eight_bit=down+blk.0.q").group(0, ("q", "k", "v"))

    assert (wide.names, wide.fmt.width, wide.weights[0].format.width) == (("blk.0.q",), 8, 8)
    assert (narrow.names, narrow.fmt.width, narrow.weights[0].format.width) == (("blk.0.k", "blk.0.v"), 4, 4)


@pytest.mark.parametrize(("count", "layers"), [(1, 2), (2, 2), (4, 4)])
def test_n_eight_bit_takes_last_two_and_lossiest(count: int, layers: int) -> None:
    chosen = lossiest(prepared(), count)

    assert layers == len(chosen)
    assert chosen[:2] == ["blk.2.up", "blk.2.down"]


def test_n_eight_bit_layers_are_the_ones_raised() -> None:
    chosen = lossiest(prepared(), 3)
    raised = [name for part in prepared("olive-4:n_eight_bit=3").parts() for name in part.names if part.fmt.width == 8]

    assert sorted(chosen) == sorted(raised)


def test_an_output_matrix_at_eight_bits() -> None:
    """It needs a `skip` without it, and counts among the last two layers."""
    [*_, head] = prepared("olive-4:eight_bit=lm_head,skip=none").parts()

    assert (head.names, head.fmt.width) == (("lm_head",), 8)
    assert lossiest(prepared("olive-4:skip=none"), 2) == ["blk.2.down", "lm_head"]


def test_progress_covers_weights_and_inputs() -> None:
    told: list[tuple[str, int, int]] = []
    models.prepare("tiny", prepared().config, calibration=CALIBRATION, progress=lambda *step: told.append(step))

    assert told == [("weights", done, 3) for done in range(4)] + [("inputs", done, 12) for done in range(1, 13)]


@pytest.mark.parametrize(
    ("config", "calibration", "message"),
    [
        pytest.param(OliveConfig(), [], "olive: act_bits needs calibration tokens, got none", id="no calibration"),
        pytest.param(
            OliveConfig(eight_bit=("blk.3.q",)),
            CALIBRATION,
            "unknown linear layer 'blk.3.q'; did you mean 'blk",
            id="name",
        ),
        pytest.param(
            OliveConfig(eight_bit=("lm_head",)),
            CALIBRATION,
            "eight_bit names lm_head, which skip=lm_head computes",
            id="head beside the default",
        ),
        pytest.param(OliveConfig(skip=("head",)), CALIBRATION, "unknown linear layer 'head'", id="skip"),
    ],
)
def test_invalid_calibration_is_rejected(config: OliveConfig, calibration: list[int], message: str) -> None:
    with pytest.raises(Refused, match=message):
        models.prepare("tiny", config, backend="numpy", calibration=calibration)


def test_repr_shows_model_scheme_and_backend() -> None:
    assert repr(prepared()) == f"Olive('tiny', {prepared().config!r}, backend='jit')"
