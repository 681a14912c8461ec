"""Cases of the taps of an OliVe scheme: golden cases with values that the scheme used."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models, units
from refemu.models import schemes
from refemu.models.schemes.olive import taps
from refemu.models.schemes.olive.tap_sums import Pass
from refemu.models.taps import Watch
from refemu.units.unit import Cases
from tests.models.schemes.tap_cases import require_ports

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


def named(scheme: str, tensor: str, unit: str = "ovp_decoder") -> Cases:
    """The one case of a tensor at a unit."""
    [case] = [case for _, name, case in recorded(scheme) if (case.source["tensor"], name) == (tensor, unit)]
    return case


def test_fp16_has_no_units() -> None:
    assert recorded("fp16") == []


@pytest.mark.parametrize("scheme", ["olive-4", "olive-8"])
def test_every_case_fits_the_ports_of_its_unit(scheme: str) -> None:
    require_ports(recorded(scheme))


@pytest.mark.parametrize("scheme", ["olive-4", "olive-8"])
def test_every_linear_input_is_tapped_once(scheme: str) -> None:
    """One encode serves q, k and v, and one gate and up."""
    inputs = [
        case.source
        for _, unit, case in recorded(scheme)
        if unit == "ovp_decoder" and case.source["tensor"].endswith(".input")
    ]

    assert [f"blk.{layer}.{name}.input" for layer in range(3) for name in ("q", "o", "gate", "down")] == [
        source["tensor"] for source in inputs
    ]
    assert {(source["first_token"], source["tokens"]) for source in inputs} == {(0, len(IDS))}
    assert [source["pairs_per_token"] for source in inputs[:4]] == [32, 32, 32, 48]
    assert inputs[0]["linears"] == ["blk.0.q", "blk.0.k", "blk.0.v"]


def test_decoded_pairs_are_the_inputs_that_were_multiplied() -> None:
    """After the decoder: value * scale is within the format's error of the input."""
    case, part = named("olive-4", "blk.0.down.input"), prepared().group(0, ("down",))[0]
    decoder = units.find("ovp_decoder")
    result = decoder.run(case.inputs["pair"], case.inputs["bias"], **decoder.configs[case.config])
    grid = (result.base_int.astype(np.int64) << result.exponent).reshape(len(IDS), -1)

    assert not result.illegal.any()
    assert np.array_equal(grid, part.fmt.decode(part.fmt.split(case.inputs["pair"])).reshape(grid.shape))
    assert np.abs(grid).max() > part.fmt.normal.largest  # includes the massive activation of the first block


def test_weight_row_holds_the_largest_outlier() -> None:
    case, part = named("olive-4", "blk.0.down.weight"), prepared().group(0, ("down",))[0]
    weight = part.weights[0]
    values = np.abs(weight.tensor.dequantize())
    outliers = np.where(np.abs(weight.grid()) > weight.format.normal.largest, values, 0)

    assert case.source["row"] == int(np.argmax(outliers.max(axis=1)))
    assert np.array_equal(weight.pairs()[case.source["row"]], case.inputs["pair"])


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


@pytest.mark.parametrize("scheme", ["olive-4", "olive-8"])
def test_encoder_makes_the_pairs_of_the_decoder(scheme: str) -> None:
    values, pairs = (named(scheme, "blk.1.down.input", unit) for unit in ("ovp_encoder", "ovp_decoder"))
    encoder = units.find("ovp_encoder")

    assert np.array_equal(encoder.run(**values.inputs, **encoder.configs[values.config]).pair, pairs.inputs["pair"])
    assert {**pairs.source, "scale": values.source["scale"]} == values.source
    assert values.source["scale"] == prepared(scheme).group(1, ("down",))[0].input.scale


def test_quotient_beyond_float32_is_shown_as_largest() -> None:
    """The encoder takes finite values only; the code is the same, which is the largest either way."""
    part = prepared().group(1, ("down",))[0]
    x = np.zeros((1, 3), np.float32)
    x[0, :2] = np.finfo(np.float32).max, -1
    scale, part.input = part.input, dataclasses.replace(part.input, scale=np.float32(0.25))
    pairs = part.fmt.encode(x, part.input.scale).pairs()
    values = taps._values(Pass(part, x, pairs.reshape(1, -1), x, Watch()))
    part.input = scale

    assert values.view(np.float32).tolist() == [[float(np.finfo(np.float32).max), -4], [0, 0]]
    assert np.array_equal(units.find("ovp_encoder").run(values, fmt=part.fmt).pair, pairs.reshape(-1))


@pytest.mark.parametrize("scheme", ["olive-4", "olive-8"])
def test_codes_met_are_those_of_stream_each_once(scheme: str) -> None:
    calls = recorded(scheme)
    for tensor in ("blk.0.down.input", "blk.0.up.weight"):
        pairs = named(scheme, tensor)
        words = pairs.inputs["pair"].tolist()
        width = 4 if scheme == "olive-4" else 8
        identifier, mask = 1 << width - 1, (1 << width) - 1
        lanes = [
            (code, other)
            for word in words
            for code, other in ((word & mask, word >> width), (word >> width, word & mask))
            if code != identifier
        ]
        outliers = list(dict.fromkeys(code for code, other in lanes if other == identifier))
        normals = list(dict.fromkeys(code for code, other in lanes if other != identifier))
        found = {name: case for _, name, case in calls if case.source["tensor"] == tensor}

        assert found["outlier_decoder"].inputs["code"].tolist() == outliers
        assert set(found["outlier_decoder"].inputs["bias"].tolist()) == set(pairs.inputs["bias"].tolist())
        assert ("flint_decoder" in found) == (pairs.config == "flint4")
        if pairs.config == "flint4":
            assert found["flint_decoder"].inputs["code"].tolist() == normals


@pytest.mark.parametrize("scheme", ["olive-4", "olive-8", "olive-4:eight_bit=down"])
def test_units_that_scheme_declares_are_those_it_taps(scheme: str) -> None:
    assert set(schemes.taps(prepared(scheme).config)) == {name for _, name, _ in recorded(scheme)}


def test_weight_only_taps_nothing() -> None:
    assert schemes.taps(schemes.parse("olive-4:act_bits=none")) == () == schemes.taps(schemes.parse("fp16"))
    assert recorded("olive-4:act_bits=none") == []


@pytest.mark.parametrize("unit", schemes.taps(schemes.parse("olive-4")))
def test_tap_of_one_unit_sees_equal_cases(unit: str) -> None:
    class One:
        units = (unit,)

        def __init__(self) -> None:
            self.calls: list[Any] = []

        def __call__(self, *call: Any) -> None:
            self.calls.append(call)

    one = One()
    models.run("tiny", IDS, prepared(), taps=one)
    of_all = [(layer, case.why, dict(case.source)) for layer, name, case in recorded("olive-4") if name == unit]

    assert {unit} == {name for _, name, _ in one.calls}
    assert [(layer, case.why, dict(case.source)) for layer, _, case in one.calls] == of_all


DECODERS = {"outlier_decoder-e2m1", "flint_decoder-flint4", "ovp_decoder-int4", "ovp_decoder-flint4"}
KINDS = ("", "a=flint4,", "b=flint4,", "a=flint4,b=flint4,")
ARRAYS = tuple(f"olive_systolic-rows=4,cols=4,m=5,n=6{k}" for k in ("", ",k=96"))  # K of 64 is the constructor's
CLOCKED, GRID = "olive_systolic_clocked-int4_flint4", "olive_systolic_clocked-rows=4,cols=2"
OTHER_TYPES = ("", ",a=flint4", ",a=flint4,b=flint4")  #: than those of the ready clocked array
CONFIGURATIONS = {
    "olive-4:outliers=false": {
        CLOCKED,
        *(f"{GRID}{kinds}" for kinds in OTHER_TYPES),
        "ovp_decoder-int4",
        "ovp_decoder-flint4",
        "flint_decoder-flint4",
        "olive_mac-wrap",
        "olive_edp-int4_flint4",
        "olive_edp-flint4_flint4",
        "olive_edp-flint4_int4",
        "olive_edp-int4_int4",
        "mmaovp-i4_i4",
        "mmaovp-i4_f4",
        "mmaovp-f4_i4",
        "mmaovp-f4_f4",
        *(f"{array},{kinds}".rstrip(",") for array in ARRAYS for kinds in KINDS),
    },
    "olive-8:preset=repo": {
        f"{GRID},b=flint4,eight=int8_repo",
        "ovp_encoder-int8_repo",
        "ovp_decoder-int8_repo",
        "outlier_decoder-e2m5",
        "olive_pe8-wrap",
        "olive_edp-a=int8_repo,b=int8_repo",
        "mmaovp-a_type=ovpi8_repo,b_type=ovpi8_repo",
        *(f"{array},a=int8_repo,b=int8_repo" for array in ARRAYS),
    },
    "olive-4:overflow=saturate": {
        *(f"{GRID}{kinds},overflow=saturate" for kinds in (*OTHER_TYPES, ",b=flint4")),
        "ovp_encoder-int4",
        "ovp_encoder-flint4",
        "olive_mac-saturate",
        *(f"olive_edp-{kinds}overflow=saturate" for kinds in KINDS),
        *(f"mmaovp-{kinds}overflow=saturate".replace("=flint4", "_type=ovpf4") for kinds in KINDS),
        *(f"{array},{kinds}overflow=saturate" for array in ARRAYS for kinds in KINDS),
        *DECODERS,
    },
    "olive-8:overflow=saturate": {
        f"{GRID},b=flint4,overflow=saturate",
        "ovp_encoder-int8",
        "ovp_decoder-int8",
        "outlier_decoder-e4m3",
        "olive_pe8-saturate",
        "olive_edp-int8_int8_saturate",
        "mmaovp-i8_i8_saturate",
        *(f"{array},a=int8,b=int8,overflow=saturate" for array in ARRAYS),
    },
    "olive-8:outliers=false": {
        CLOCKED,
        "ovp_decoder-int8",
        "olive_pe8-wrap",
        "olive_edp-int8_int8",
        "mmaovp-i8_i8",
        *(f"{array},a=int8,b=int8" for array in ARRAYS),
    },
}


@pytest.mark.parametrize("scheme", CONFIGURATIONS)
def test_configurations_are_those_of_the_units(scheme: str) -> None:
    """Without outliers any outlier decoder will do."""
    found = {f"{name}-{case.config}" for _, name, case in recorded(scheme)}

    assert found and found <= CONFIGURATIONS[scheme]
    if scheme.startswith("olive-8"):
        assert found == CONFIGURATIONS[scheme]
