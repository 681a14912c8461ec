"""The OliVe schemes on encoders: linear layers with bias equal plain Python, calibration, mixed widths, errors."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models import text as texts
from refemu.models.encoder.config import LINEARS
from refemu.models.schemes.olive.config import OliveConfig
from refemu.models.schemes.olive.encoder import batch
from refemu.models.schemes.olive.layers import lossiest
from refemu.models.taps import Watch
from tests.oracles import fp16 as oracle16
from tests.oracles import sums
from tests.oracles.olive import ovp

CALIBRATION = list(b"It is a truth universally acknowledged, that a single man")
IDS = list(b"Sir Walter")
NAMES = [
    "olive-4",
    "olive-8",
    "olive-4:act_bits=none",
    "olive-4:outliers=false",
    "olive-4:preset=repo",
    "olive-4:calibration=float",
    "olive-4:eight_bit=down+blk.0.q",
    "olive-4:n_eight_bit=3",
    "olive-4:skip=down",
    "olive-8:overflow=saturate",
]


@cache
def prepared(text: str = "olive-4", backend: str = "jit") -> Any:
    """Four candidates instead of 88: the search has its own tests."""
    config = dataclasses.replace(schemes.parse(text), low=90, high=130, step=10)  # type: ignore[type-var]
    return models.prepare("tiny-encoder", config, backend=backend, calibration=CALIBRATION)


@pytest.mark.long
@pytest.mark.parametrize("text", NAMES)
def test_backends_agree_on_tiny_encoder(text: str) -> None:
    jit, numpy = (models.encode("tiny-encoder", IDS, prepared(text, backend)) for backend in ("jit", "numpy"))

    assert np.array_equal(jit.view(np.uint32), numpy.view(np.uint32))


def test_every_variant_gives_different_bits() -> None:
    """Except saturation, which nothing here reaches."""
    found = {models.encode("tiny-encoder", IDS, prepared(name)).tobytes() for name in NAMES}

    assert len(NAMES) - 1 == len(found)


@pytest.mark.parametrize("name", ["q", "k", "v", "o", "up", "down"])
@pytest.mark.parametrize("text", ["olive-4", "olive-8"])
def test_linear_layer_equals_plain_python(text: str, name: str) -> None:
    """[olive §4]: encode, integer products, fl32(fl32(acc) * fl32(s_a * s_w)), + bias in float32, fp16 (D-olive-42)."""
    [group] = [group for group in LINEARS if name in group]
    part = prepared(text).group(1, group)[0]
    weight = part.weights[group.index(name)]
    random = np.random.default_rng(3)
    x = fp16.to_f16(random.standard_normal((3, weight.tensor.shape[1])) * 4).astype(np.float32)
    y = prepared(text).linear(1, group, x, Watch())[group.index(name)]
    bias = models.load("tiny-encoder").tensor(f"blk.1.{name}.bias").tolist()

    assert [
        [linear(row, column, part, weight, n, bias[n]) for n, column in enumerate(weight.grid().tolist())]
        for row in x.tolist()
    ] == y.tolist()


def linear(x: list[float], w: list[int], part: Any, weight: Any, n: int, bias: float) -> float:
    kind = {"int4": "OVP_INT4", "flint4": "OVP_FLINT4", "int8": "OVP_INT8"}[part.fmt.normal.name]
    scale, grid = float(part.input.scale), []
    for left, right in zip(x[::2], x[1::2], strict=True):
        codes = ovp.encode_pair(kind, *(oracle16.f32(value / scale) for value in (left, right)))
        grid += list(ovp.decode_pair(kind, *codes) or ())
    acc = (sum(a * b for a, b in zip(grid, w, strict=True)) + (1 << 31)) % (1 << 32) - (1 << 31)
    y = oracle16.f32(oracle16.f32(acc) * oracle16.f32(scale * float(weight.scale[n])))
    return sums.f16(oracle16.f32(y + bias))


def test_every_linear_layer_of_every_block_is_quantized() -> None:
    """D-olive-32."""
    names = [name for part in prepared().parts() for name in part.names]

    assert names == [f"blk.{layer}.{name}" for layer in range(2) for name in ("q", "k", "v", "o", "up", "down")]


def test_weights_are_searched_by_row_inputs_by_tensor() -> None:
    """D-olive-23."""
    for part in prepared().parts():
        assert part.input.scale.shape == ()
        assert all(weight.scale.shape == (weight.tensor.shape[0],) for weight in part.weights)


def test_several_calibration_texts_form_one_tensor() -> None:
    """D-olive-31: two halves of a text are not the text, but the first inputs of block 0 precede all attention."""
    config = dataclasses.replace(prepared().config, low=90, high=130, step=10)
    one, two = (
        models.prepare("tiny-encoder", config, calibration=ids)
        for ids in (CALIBRATION[:20], [CALIBRATION[:10], CALIBRATION[10:20]])
    )  # type: ignore[list-item]

    assert (
        [float(part.input.scale) for part in one.parts()]  # type: ignore[attr-defined]
        != [float(part.input.scale) for part in two.parts()]
    )  # type: ignore[attr-defined]


def test_sequential_calibration_sees_quantized_layers() -> None:
    """D-olive-31: the first input is the same either way, later ones are not."""
    sequential, floating = (
        [float(part.input.scale) for part in prepared(text).parts()]
        for text in ("olive-4", "olive-4:calibration=float")
    )

    assert sequential[0] == floating[0]
    assert sequential != floating


def test_default_calibration_is_the_shipped_text() -> None:
    """D-olive-31: not the evaluation text."""
    model = models.load("tiny-encoder")

    assert batch(OliveConfig(calibration_tokens=16), model, None) == [list(texts.calibration().encode()[:16])]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([1, 2, 3], [[1, 2, 3]]),
        ([[1, 2], [3]], [[1, 2], [3]]),
        (np.array([1, 2]), [[1, 2]]),
        ([1] * 600, [[1] * 512]),
        ([[1] * 600, [2]], [[1] * 512, [2]]),
    ],
    ids=["one", "several", "array", "long", "long of two"],
)
def test_one_text_or_several_each_cut_to_context(given: Any, expected: list[list[int]]) -> None:
    assert expected == batch(OliveConfig(), models.load("tiny-encoder"), given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param([], "needs calibration tokens, got none", id="nothing"),
        pytest.param([[1, 2], []], "token ids must be a flat list with at least one", id="empty text"),
        pytest.param([300, 300], "token id", id="vocabulary"),
    ],
)
def test_invalid_calibration_is_rejected(given: Any, message: str) -> None:
    with pytest.raises(Refused, match=message):
        models.prepare("tiny-encoder", OliveConfig(low=100, high=101), calibration=given)


def test_n_eight_bit_takes_last_two_and_lossiest() -> None:
    chosen = lossiest(prepared(), 3)
    raised = [name for part in prepared("olive-4:n_eight_bit=3").parts() for name in part.names if part.fmt.width == 8]

    assert chosen[:2] == ["blk.1.up", "blk.1.down"]
    assert sorted(chosen) == sorted(raised)


def test_an_output_matrix_at_eight_bits_is_rejected() -> None:
    with pytest.raises(Refused, match="eight_bit names lm_head, and tiny-encoder is an encoder without one"):
        models.prepare("tiny-encoder", "olive-4:eight_bit=lm_head", calibration=CALIBRATION)


def test_repr_shows_model_scheme_and_backend() -> None:
    assert repr(prepared()) == f"OliveEncoder('tiny-encoder', {prepared().config!r}, backend='jit')"
