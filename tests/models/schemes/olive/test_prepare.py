"""What the OliVe schemes search and choose equals plain Python: weights, inputs as they arrive, layers at 8 bits.

The model is small, and its weights are float32 values that fp16 does not hold.
"""

import dataclasses
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from refemu import models
from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.formats.olive.ovp import OVP_FLINT4, OVP_INT4, OVP_INT8
from refemu.models import schemes
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.schemes.olive.layers import lossiest
from tests.models import toy_encoder
from tests.models.held import Held, drawn
from tests.models.toy_decoder import LLAMA
from tests.oracles.olive import ovp

FORMATS = {"OVP_INT4": OVP_INT4, "OVP_FLINT4": OVP_FLINT4, "OVP_INT8": OVP_INT8}
RATIOS = {"low": 90, "high": 130, "step": 10}  #: four candidates instead of 88: the search has its own tests
IDS = [3, 1, 4, 15, 9, 2, 6, 5, 3, 5]
DECODER = Model(
    "toy",
    LLAMA,
    Held({name: draw.astype(np.float32) for name, draw in drawn(LLAMA.shapes, seed=3, divisor=3).items()}),
    "",
)
ENCODER = Model("toy-encoder", toy_encoder.CONFIG, Held(toy_encoder.values(toy_encoder.CONFIG)), "")
KINDS = pytest.mark.parametrize("model", [DECODER, ENCODER], ids=["decoder", "encoder"])


class Choice(NamedTuple):
    """Format, scales and mean error of a tensor."""

    format: Any
    scales: list[float]
    mse: float


def prepared(model: Model, text: str = "olive-4", backend: str = "jit") -> Any:
    ids: Any = [index % model.config.vocab for index in IDS]
    config = dataclasses.replace(schemes.parse(text), **RATIOS)  # type: ignore[type-var]
    return models.prepare(model, config, backend, ids)


def inputs(model: Model, runner: Any) -> dict[str, np.ndarray]:
    """What every linear layer reads while `runner` runs over the calibration tokens."""
    ids, seen, linear = [index % model.config.vocab for index in IDS], {}, runner.linear

    def watched(layer: int, names: Any, x: np.ndarray, watch: Any) -> Any:
        seen.update({f"blk.{layer}.{name}": x for name in names})
        return linear(layer, names, x, watch)

    runner.linear = watched
    if isinstance(model.config, EncoderConfig):
        models.encode(model, ids, runner)
    else:
        models.run(model, ids, runner)
    del runner.linear
    return seen


def chosen(rows: Any, bits: int = 4) -> Choice:
    """The paper's search in plain Python; one scale for each of `rows`."""
    names = ["OVP_INT4", "OVP_FLINT4"] if bits == 4 else ["OVP_INT8"]
    name, found = ovp.select(names, [np.ravel(row).tolist() for row in rows], **RATIOS)
    mse = ovp.ordered_sum([row.mse for row in found]) / len(found)
    return Choice(FORMATS[name], [row.scale for row in found], mse)


@cache
def weight_choice(model: Model, name: str, bits: int = 4) -> Choice:
    return chosen(model.tensor(name), bits)


def layers(found: Any) -> list[tuple[str, Any, Any]]:
    """Name, weight and frozen input of every layer in model order."""
    return [
        (name, weight, part.input)
        for part in found.parts()
        for name, weight in zip(part.names, part.weights, strict=True)
    ]


@KINDS
@pytest.mark.parametrize("text", ["olive-4", "olive-8"])
def test_weights_are_searched_as_stored_in_the_file(model: Model, text: str) -> None:
    """D-olive-23, D-olive-28, D-olive-29: on the float32 values, not on what fp16 holds of them."""
    bits = int(text[-1])
    for name, weight, _ in layers(prepared(model, text)):
        expected, rows = weight_choice(model, name, bits), model.tensor(name).tolist()
        kind = next(kind for kind, fmt in FORMATS.items() if fmt == expected.format)

        assert (weight.format, weight.scale.tolist(), weight.mse) == expected
        assert weight.grid().tolist() == [grid(kind, *row) for row in zip(rows, expected.scales, strict=True)]
    rounded = fp16.to_f16(model.tensor("blk.0.q")).astype(np.float32)
    assert chosen(rounded, bits).scales != weight_choice(model, "blk.0.q", bits).scales


def grid(kind: str, row: list[float], scale: float) -> list[int]:
    quotients = [ovp.f32(value / scale) for value in row]
    return [
        value for pair in zip(quotients[::2], quotients[1::2], strict=True) for value in ovp.quantized_pair(kind, *pair)
    ]


@KINDS
@pytest.mark.parametrize("calibration", ["sequential", "float"])
def test_inputs_are_searched_as_they_arrive(model: Model, calibration: str) -> None:
    """D-olive-31: after the layers quantized so far, or as in scheme `fp16`; D-olive-23: all tokens as one tensor."""
    found = prepared(model, f"olive-4:calibration={calibration}")
    arriving, plain = (inputs(model, runner) for runner in (found, models.prepare(model, "fp16")))
    read = arriving if calibration == "sequential" else plain

    for name, _, frozen in layers(found):
        assert (frozen.format, [float(frozen.scale)], frozen.mse) == chosen([read[name]])
    last = layers(found)[-1][0]
    assert chosen([arriving[last]]).scales != chosen([plain[last]]).scales  # so the two kinds differ
    assert all(chosen([x[:1]]).scales != chosen([x]).scales for x in read.values())  # and one token from all


@KINDS
@pytest.mark.parametrize("eight_bit", ["none", "down"])
def test_layers_of_largest_error_get_eight_bits(model: Model, eight_bit: str) -> None:
    """[olive §4.5], D-olive-41: of those at 4 bits the last two, then the largest sums of weight and input error."""
    text = f"olive-4:eight_bit={eight_bit}"
    found = prepared(model, text)
    narrow = [name for name, *_ in layers(found) if eight_bit == "none" or not name.endswith(eight_bit)]
    read = inputs(model, found)
    parts = {name: (weight_choice(model, name).mse, chosen([read[name]]).mse) for name in narrow}
    orders = [ranked(narrow, parts, *factors) for factors in ((1, 1), (1, 0), (0, 1), (-1, -1))]

    assert all(lossiest(found, count) == orders[0][:count] for count in range(2, len(narrow) + 1))
    assert orders[0] not in orders[1:]  # weight or input alone, and the least first, give other layers
    raised = {name for name, weight, _ in layers(prepared(model, f"{text},n_eight_bit=5")) if weight.format.width == 8}
    assert raised == set(orders[0][:5]) | {name for name, *_ in layers(found) if name not in narrow}


def ranked(names: list[str], errors: dict[str, tuple[float, float]], weight: int, arriving: int) -> list[str]:
    """The last two, then the others, each time the first with the largest error."""
    order, rest = names[-2:], names[:-2]
    while rest:
        order.append(max(rest, key=lambda name: weight * errors[name][0] + arriving * errors[name][1]))
        rest.remove(order[-1])
    return order


def test_too_many_eight_bit_layers_are_rejected() -> None:
    with pytest.raises(Refused, match="olive: n_eight_bit must be at most 12, the layers at 4 bits, got 13"):
        prepared(DECODER, "olive-4:eight_bit=down,n_eight_bit=13")
