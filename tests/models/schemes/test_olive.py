"""The OliVe schemes: linear layers equal a plain-Python one, calibration, mixed widths, baselines, overflow."""

import dataclasses
import hashlib
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.formats.ovp import OVP_INT8
from refemu.models import schemes
from refemu.models import text as texts
from refemu.models.backend import NUMPY, Jit
from refemu.models.schemes.olive import OliveConfig, lossiest
from refemu.models.schemes.olive_linear import Candidates, Input, Part, Weight, quantize
from refemu.models.taps import Watch
from tests.oracles import fp16 as oracle16
from tests.oracles import ovp as oracle
from tests.oracles import sums

CALIBRATION = list(b"It is a truth universally acknowledged, that a single man")
IDS = list(b"Sir Walter")
TEXTS = ["olive-4", "olive-8", "olive-4:act_bits=none", "olive-8:act_bits=none", "olive-4:outliers=false",
         "olive-4:outliers=false,types=int", "olive-4:preset=repo", "olive-8:preset=repo", "olive-4:calibration=float",
         "olive-4:eight_bit=down+blk.0.q", "olive-4:n_eight_bit=3", "olive-4:skip=", "olive-4:skip=down+lm_head",
         "olive-8:overflow=saturate"]


@cache
def prepared(text: str = "olive-4", backend: str = "jit") -> Any:
    """Four candidates instead of 88: the search has its own tests."""
    config = dataclasses.replace(schemes.parse(text), low=90, high=130, step=10)  # type: ignore[type-var]
    return models.prepare("tiny", config, backend=backend, calibration=CALIBRATION)


@pytest.mark.parametrize("text", TEXTS)
def test_backends_agree_on_tiny(text: str) -> None:
    jit, numpy = (models.run("tiny", IDS, prepared(text, backend)) for backend in ("jit", "numpy"))

    assert np.array_equal(jit.logits.view(np.uint32), numpy.logits.view(np.uint32))
    assert jit.counters == numpy.counters


def test_every_variant_gives_other_logits() -> None:
    """But for saturation, which nothing in `tiny` reaches."""
    found = {models.run("tiny", IDS, prepared(name)).logits.tobytes() for name in TEXTS}

    assert len(TEXTS) - 1 == len(found)


@pytest.mark.parametrize(("text", "name"), [
    ("olive-4", "q"), ("olive-4", "down"), ("olive-8", "down"), ("olive-4:preset=repo", "o"),
    ("olive-8:preset=repo", "up")])
def test_linear_layer_equals_plain_python(text: str, name: str) -> None:
    """[olive §4]: encode, integer products, 32 bits, fl32(fl32(acc) * fl32(s_a * s_w)), fp16 (D-olive-42)."""
    [group] = [group for group in (("q", "k", "v"), ("o",), ("gate", "up"), ("down",)) if name in group]
    part = prepared(text).group(0, group)[0]
    weight = part.weights[group.index(name)]
    x = fp16.to_f16(np.random.default_rng(3).standard_normal((3, weight.tensor.shape[1])) * 4).astype(np.float32)
    y = prepared(text).linear(0, group, x, Watch())[group.index(name)]

    assert [[linear(row, column, part, weight, n) for n, column in enumerate(weight.grid().tolist())]
            for row in x.tolist()] == y.tolist()


def linear(x: list[float], w: list[int], part: Part, weight: Weight, n: int) -> float:
    assert part.input is not None
    kind = {"int4": "OVP_INT4", "flint4": "OVP_FLINT4", "int8": "OVP_INT8"}[part.fmt.normal.name]
    kind += "_REPO" if part.fmt.pairing == "flat" else ""
    scale, grid = float(part.input.scale), []
    for left, right in zip(x[::2], x[1::2], strict=True):
        codes = oracle.encode_pair(kind, *(oracle16.f32(value / scale) for value in (left, right)))
        grid += list(oracle.decode_pair(kind, *codes))
    acc = (sum(a * b for a, b in zip(grid, w, strict=True)) + (1 << 31)) % (1 << 32) - (1 << 31)
    rescale = oracle16.f32(scale * float(weight.scale[n]))
    return sums.f16(oracle16.f32(oracle16.f32(acc) * rescale))


def test_weights_are_searched_by_row_and_inputs_as_one_tensor() -> None:
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
    """D-olive-31: frozen, so that a decode step and a prompt meet the same scale."""
    before = [float(part.input.scale) for part in prepared().parts()]
    models.run("tiny", IDS, prepared())
    other = models.prepare("tiny", prepared().config, calibration=CALIBRATION[::-1])

    assert before == [float(part.input.scale) for part in prepared().parts()]
    assert before != [float(part.input.scale) for part in other.parts()]


def test_sequential_calibration_sees_quantized_layers() -> None:
    """D-olive-31: the first input is the same either way, later ones are not."""
    sequential, floating = ([float(part.input.scale) for part in prepared(text).parts()]
                            for text in ("olive-4", "olive-4:calibration=float"))

    assert sequential[0] == floating[0]
    assert sequential != floating


def test_default_calibration_is_the_shipped_text() -> None:
    config = OliveConfig(calibration_tokens=16)
    model = models.load("tiny")
    default, given = (models.prepare(model, config, calibration=ids) for ids in
                      (None, model.tokenizer.encode(texts.calibration())[:16]))

    assert ([float(part.input.scale) for part in default.parts()]
            == [float(part.input.scale) for part in given.parts()])


def test_layers_of_another_width_encode_the_input_again() -> None:
    """D-olive-41: both operands of a layer have one width."""
    wide, narrow = prepared("olive-4:eight_bit=down+blk.0.q").group(0, ("q", "k", "v"))

    assert (wide.names, wide.fmt.width, wide.weights[0].format.width) == (("blk.0.q",), 8, 8)
    assert (narrow.names, narrow.fmt.width, narrow.weights[0].format.width) == (("blk.0.k", "blk.0.v"), 4, 4)


@pytest.mark.parametrize(("count", "layers"), [(1, 2), (2, 2), (4, 4)])
def test_n_eight_bit_takes_the_last_two_and_the_lossiest(count: int, layers: int) -> None:
    chosen = lossiest(prepared(), count)

    assert layers == len(chosen)
    assert chosen[:2] == ["blk.2.up", "blk.2.down"]


def test_n_eight_bit_layers_are_the_ones_raised() -> None:
    chosen = lossiest(prepared(), 3)
    raised = [name for part in prepared("olive-4:n_eight_bit=3").parts() for name in part.names if part.fmt.width == 8]

    assert sorted(chosen) == sorted(raised)


def overflowing(overflow: str, backend: Any) -> tuple[list[float], dict[str, int]]:
    """Two outlier products of one sign that reach 2**31, then one that comes back; scales 1."""
    weight = Weight("w", OVP_INT8, OVP_INT8.encode(np.array([[1 << 15, 0, 1 << 15, 0] + [0] * 4 + [-(1 << 15), 0]]),
                                                   np.ones(1, np.float32)), np.ones(1, np.float32), 0.0)
    part = Part(0, ["w"], [weight], Candidates((OVP_INT8,), "sigma", 75, 250, 2), overflow, backend)
    x, watch = np.array([[1 << 15, 0, 1 << 15, 0] + [0] * 4 + [1 << 15, 0]], np.float32), Watch()
    part.set_input(Input(OVP_INT8, np.float32(1), 0.0))
    first = part(x * np.array([1] * 8 + [0] * 2, np.float32), watch)
    return [float(first[0, 0]), float(part(x, watch)[0, 0])], watch.counters


@pytest.mark.parametrize("backend", [NUMPY, Jit()], ids=repr)
def test_sums_beyond_32_bits_wrap_or_saturate(backend: Any) -> None:
    """D-olive-33. Saturation follows the dot-product unit: 8 products at a time."""
    wrapped, counters = overflowing("wrap", backend)
    saturated, same = overflowing("saturate", backend)

    assert wrapped == [-(2.0**31), 2.0**30]
    assert saturated == [2.0**31, 2.0**30]  # fl32(2**31 - 1), then 2**31 - 1 - 2**30 rounded
    assert {"overflowed_outputs": 1} == counters == same


def test_progress_is_told_for_weights_and_inputs() -> None:
    told: list[tuple[str, int, int]] = []
    models.prepare("tiny", prepared().config, calibration=CALIBRATION, progress=lambda *step: told.append(step))

    assert told == [("weights", done, 3) for done in range(4)] + [("inputs", done, 12) for done in range(1, 13)]


@pytest.mark.parametrize(("config", "calibration", "message"), [
    pytest.param(OliveConfig(), [], "olive: act_bits needs calibration tokens, got none", id="no calibration"),
    pytest.param(OliveConfig(eight_bit=("blk.3.q",)), CALIBRATION, "unknown linear layer 'blk.3.q'; did you mean 'blk",
                 id="name"),
    pytest.param(OliveConfig(skip=("head",)), CALIBRATION, "unknown linear layer 'head'", id="skip"),
])
def test_refuses(config: OliveConfig, calibration: list[int], message: str) -> None:
    with pytest.raises(Refused, match=message):
        models.prepare("tiny", config, backend="numpy", calibration=calibration)


def test_refuses_flat_pairs_across_rows() -> None:
    choice = Candidates(OliveConfig(preset="repo").formats(4), "mean_sigma", 75, 250, 2)
    with pytest.raises(Refused, match=r"blk\.0\.q: pairs of preset repo need an even number of inputs, got 5"):
        quantize("blk.0.q", np.ones((2, 5), np.float32), choice, NUMPY)


PINNED: dict[str, str] = {}  # scheme -> sha256 of the logits on `tiny`


@pytest.mark.parametrize("text", PINNED)
def test_logits_of_tiny_are_pinned(text: str) -> None:
    """Changes only with a decision; a release that changes it says so first."""
    prepared = models.prepare("tiny", text, calibration=CALIBRATION)
    logits = models.run("tiny", list(b"She was now nine-and-twenty"), prepared).logits

    assert PINNED[text] == hashlib.sha256(logits.astype("<f4").tobytes()).hexdigest()


def test_repr_shows_model_scheme_and_backend() -> None:
    assert repr(prepared()) == f"Olive('tiny', {prepared().config!r}, backend='jit')"
    assert repr(prepared().group(1, ("gate", "up"))[0]) == "Part(blk.1.gate, blk.1.up)"
