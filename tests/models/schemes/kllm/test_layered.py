"""KLLM on decoders with LayerNorm, learned positions, biases and no gate: plain Python, prefill, decode, backends."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models, units
from refemu.arith.checks import Refused
from refemu.units.unit import Cases
from tests.models.schemes.kllm import plain as kllm_plain

CALIBRATION = [5, 3, 0, 12, 7, 7, 1, 9, 2, 11, 4, 8, 6, 10, 3, 5]
IDS = [1, 12, 4, 4]
TEXT = list(b"It is a truth universally acknowledged, that a single man in possession of a good fortune")
#: what differs, and the decision that it belongs to
SCHEMES = {
    "kllm-a4": "D-kllm-40",
    "kllm-a3-s": "D-kllm-30",
    "kllm-a4:preset=exact": "D-kllm-39",
    "kllm-a4:norm=fp16": "D-kllm-18",
    "kllm-a4:function_table=offline": "D-kllm-17",
    "kllm-a4:function_table=literal": "D-kllm-17",
}


@cache
def prepared(text: str, activation: str = "gelu_tanh") -> Any:
    return models.prepare(kllm_plain.layered(activation), text, calibration=CALIBRATION)


@cache
def tiny(name: str, text: str = "kllm-a4", backend: str = "jit") -> Any:
    return models.prepare(name, text, backend=backend, calibration=TEXT)


@pytest.mark.long
@pytest.mark.parametrize("text", SCHEMES)
def test_logits_equal_plain_python(text: str) -> None:
    """D-kllm-39, D-kllm-40: mean and deviation from counts, sums of the weights, biases after the products."""
    found = prepared(text)
    plain = kllm_plain.Plain(kllm_plain.layered(), found.config, found.calibration)
    wanted = np.array([plain.logits(token) for token in IDS], np.float32)

    assert models.session(found).append(IDS).view(np.uint32).tolist() == wanted.view(np.uint32).tolist()


@pytest.mark.parametrize("activation", ["gelu_erf", "relu"])
def test_functions_equal_plain_python(activation: str) -> None:
    found = prepared("kllm-a4", activation)
    plain = kllm_plain.Plain(kllm_plain.layered(activation), found.config, found.calibration)
    wanted = np.array([plain.logits(token) for token in IDS], np.float32)

    assert models.session(found).append(IDS).view(np.uint32).tolist() == wanted.view(np.uint32).tolist()


def test_every_variant_gives_other_logits() -> None:
    found = {models.session(prepared(text)).append(IDS).tobytes() for text in SCHEMES}

    assert len(found) == len(SCHEMES)


@pytest.mark.parametrize("text", ["kllm-a4", "kllm-a3-s", "kllm-a4:preset=exact", "kllm-a4:quantizer=rtn"])
@pytest.mark.parametrize("name", ["tiny-gpt2", "tiny-opt"])
def test_prefill_is_decode(name: str, text: str) -> None:
    ids = TEXT[:24]
    session = models.session(tiny(name, text))
    rows = [session.append(ids[:20]), *(session.append([token]) for token in ids[20:])]

    assert np.concatenate(rows).tobytes() == models.session(tiny(name, text)).append(ids).tobytes()


@pytest.mark.parametrize("name", ["tiny-gpt2", "tiny-opt"])
def test_logits_resemble_those_of_fp16(name: str) -> None:
    """Four bits are more than a rounding error, but the distance is well below that of another model."""
    ids = TEXT[:32]
    near, far = (models.session(found).append(ids) for found in (tiny(name), models.prepare(name, "fp16")))

    assert float(np.corrcoef(near.ravel(), far.ravel())[0, 1]) > 0.9


def test_layered_backends_agree() -> None:
    """The readable units and their compiled forms, with equal calibration, in one model."""
    models_of = (
        models.prepare(kllm_plain.layered(), "kllm-a4", backend=name, calibration=CALIBRATION)
        for name in ("jit", "numpy")
    )
    jit, plain = (models.session(found).append(IDS[:3]).tobytes() for found in models_of)

    assert jit == plain


def test_taps_show_layernorm_and_the_function() -> None:
    """A run of a model with LayerNorm shows the unit's configuration `layer` where its bits fit one."""
    calls: list[tuple[int, str, Cases]] = []
    models.run(
        "tiny-gpt2", TEXT[:24], tiny("tiny-gpt2", "kllm-a4:weight_bits=3"), taps=lambda *call: calls.append(call)
    )
    shown = {(unit, case.config) for _, unit, case in calls}

    assert [config for unit, config in shown if unit == "index_norm" and "layer" in config] and "index_product" not in {
        unit for unit, _ in shown
    }
    for _, name, case in calls:
        unit = units.find(name)
        unit.evaluate(unit.config(case.config), case.inputs)


def test_gains_on_activations_with_delayed_layernorm_are_rejected() -> None:
    """D-kllm-41."""
    with pytest.raises(Refused, match="gamma=activations delays an RMSNorm only, got tiny-opt with LayerNorm"):
        models.prepare("tiny-opt", "kllm-a4:gamma=activations", calibration=TEXT)
    found = models.prepare("tiny-opt", "kllm-a4:gamma=activations,norm=fp16", calibration=TEXT)
    assert {group.norm for group in found.operands.groups.values()} == {None}
