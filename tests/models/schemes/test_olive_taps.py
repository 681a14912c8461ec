"""What the taps of an OliVe scheme are told: golden cases whose values the scheme really used."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models, units
from refemu.models import schemes
from refemu.units.unit import Cases

IDS = list(b"It is a truth. It is")


@cache
def prepared(scheme: str = "olive-4") -> Any:
    config = schemes.parse(scheme)
    if scheme.startswith("olive"):  # four candidates instead of 88: the search has its own tests
        config = dataclasses.replace(config, low=90, high=130, step=10)  # type: ignore[type-var]
    return models.prepare("tiny", config, calibration=list(b"a truth universally acknowledged" * 4))


def recorded(scheme: str, ids: list[int] = IDS) -> list[tuple[int, str, Cases]]:
    """Every call of the tap in one run."""
    calls: list[tuple[int, str, Cases]] = []
    models.run("tiny", ids, prepared(scheme), taps=lambda *call: calls.append(call))
    return calls


def named(scheme: str, tensor: str) -> Cases:
    """The one case of a tensor."""
    [case] = [case for _, _, case in recorded(scheme) if case.source["tensor"] == tensor]
    return case


def test_fp16_has_no_units() -> None:
    assert recorded("fp16") == []


@pytest.mark.parametrize("scheme", ["olive-4", "olive-8"])
def test_every_case_fits_the_ports_of_its_unit(scheme: str) -> None:
    for layer, name, case in recorded(scheme):
        unit = units.find(name)
        ports = unit.ports(unit.configs[case.config])
        assert (case.kind, case.source["layer"]) == ("model", layer)
        assert set(case.inputs) == {port.name for port in ports.inputs}
        assert len({array.shape for array in case.inputs.values()}) == 1
        for port in ports.inputs:
            low, high = (-(1 << port.bits - 1), (1 << port.bits - 1) - 1) if port.signed else (0, (1 << port.bits) - 1)
            assert case.inputs[port.name].min() >= low and case.inputs[port.name].max() <= high


@pytest.mark.parametrize("scheme", ["olive-4", "olive-8"])
def test_every_linear_input_is_tapped_once(scheme: str) -> None:
    """One encode serves q, k and v, and one gate and up."""
    inputs = [case.source for _, _, case in recorded(scheme) if case.source["tensor"].endswith(".input")]

    assert [f"blk.{layer}.{name}.input" for layer in range(3) for name in ("q", "o", "gate", "down")] == [
        source["tensor"] for source in inputs]
    assert {(source["first_token"], source["tokens"]) for source in inputs} == {(0, len(IDS))}
    assert [source["pairs_per_token"] for source in inputs[:4]] == [32, 32, 32, 48]
    assert inputs[0]["linears"] == ["blk.0.q", "blk.0.k", "blk.0.v"]


def test_decoded_pairs_are_the_inputs_that_were_multiplied() -> None:
    """Behind the decoder: value * scale is within the format's error of what arrived."""
    case, part = named("olive-4", "blk.0.down.input"), prepared().group(0, ("down",))[0]
    decoder = units.find("ovp_decoder")
    result = decoder.run(case.inputs["pair"], case.inputs["bias"], **decoder.configs[case.config])
    grid = (result.base_int.astype(np.int64) << result.exponent).reshape(len(IDS), -1)

    assert not result.illegal.any()
    assert np.array_equal(grid, part.fmt.decode(part.fmt.split(case.inputs["pair"])).reshape(grid.shape))
    assert np.abs(grid).max() > part.fmt.normal.largest  # the massive activation of the first block is there


def test_weight_row_holds_the_largest_outlier() -> None:
    case, part = named("olive-4", "blk.0.down.weight"), prepared().group(0, ("down",))[0]
    weight = part.weights[0]
    values = np.abs(weight.tensor.dequantize())
    outliers = np.where(np.abs(weight.grid()) > weight.format.normal.largest, values, 0)

    assert case.source["row"] == int(np.argmax(outliers.max(axis=1)))
    assert np.array_equal(weight.pairs()[case.source["row"]], case.inputs["pair"])


def test_dot_product_of_the_mac_is_the_largest_sum_of_the_layer() -> None:
    case, part = named("olive-4", "blk.1.up.output"), prepared().group(1, ("gate", "up"))[0]
    mac = units.find("olive_mac")
    acc = mac.run(**case.inputs, **mac.configs[case.config]).acc
    pairs = named("olive-4", "blk.1.gate.input").inputs["pair"].reshape(len(IDS), -1)
    x = part.fmt.decode(part.fmt.split(pairs)).reshape(len(IDS), -1)
    sums = x.astype(object) @ part.weights[1].grid().T.astype(object)

    assert case.inputs["load"].tolist() == [[1] + [0] * x.shape[1]]
    assert not case.inputs["acc_in"].any()
    assert acc[0, -1] == sums[case.source["token"], case.source["row"]]
    assert abs(int(acc[0, -1])) == np.abs(sums).max()


def test_weights_are_tapped_in_the_first_call_only() -> None:
    calls: list[Cases] = []
    session = models.session(prepared(), lambda layer, unit, case: calls.append(case))
    session.append(IDS[:4])
    first = len(calls)
    session.append(IDS[4:6])
    later = [case.source for case in calls[first:]]

    assert not [source for source in later if source["tensor"].endswith(".weight")]
    assert {source["first_token"] for source in later} == {4}
    assert {source["tokens"] for source in later} == {2}


def test_taps_change_no_bit() -> None:
    plain = models.run("tiny", IDS, prepared())
    tapped = models.run("tiny", IDS, prepared(), taps=lambda *call: None)

    assert plain.logits.tobytes() == tapped.logits.tobytes()
    assert plain.counters == tapped.counters


BASELINES = ["olive-4:outliers=false", "olive-8:preset=repo", "olive-4:overflow=saturate"]


@pytest.mark.parametrize("scheme", BASELINES)
def test_configurations_are_those_of_the_units(scheme: str) -> None:
    """Without outliers any outlier decoder will do; the published code's 8-bit outliers have a decoder of their own."""
    found = {(name, case.config) for _, name, case in recorded(scheme)}
    allowed = {"olive-4:outliers=false": {("ovp_decoder", "int4"), ("ovp_decoder", "flint4"), ("olive_mac", "wrap")},
               "olive-8:preset=repo": {("ovp_decoder", "int8_repo")},
               "olive-4:overflow=saturate": {("ovp_decoder", "int4"), ("ovp_decoder", "flint4"),
                                             ("olive_mac", "saturate")}}

    assert found and found <= allowed[scheme]
