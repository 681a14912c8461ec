"""A set describes itself completely."""

import dataclasses
from enum import StrEnum

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.formats import FLINT4
from refemu.golden.make import build
from refemu.units.ports import Port, Ports
from refemu.units.unit import Cases
from tests.golden import fakes

GENERATOR = {"paper": {"function": "f", "seed": 0}}


class Rule(StrEnum):
    """An enum, which a user's unit may have as a parameter."""

    HALF_EVEN = "half_even"


def built(kind: str = "paper", unit: object = fakes.BLENDER, config: str = "wrap") -> tuple[dict, dict]:
    return build.build(unit, config, unit.cases(unit.configs[config], kind, 0), generator=GENERATOR)  # type: ignore[attr-defined]


def test_arrays_are_in_order_of_ports() -> None:
    manifest, arrays = built()

    assert list(arrays) == ["in.first", "in.second", "out.both", "out.ratio", "out.ratio.care", "out.odd", "flags"]
    assert list(arrays) == [entry["name"] for entry in manifest["arrays"]]


def test_array_entries_describe_their_ports() -> None:
    manifest, arrays = built()
    both = next(entry for entry in manifest["arrays"] if entry["name"] == "out.both")
    roles = [entry["role"] for entry in manifest["arrays"]]

    assert {key: both[key] for key in both if key != "sha256"} == {
        "name": "out.both",
        "role": "expected",
        "dtype": "u1",
        "shape": [2, 2],
        "bits": 5,
        "lanes": 2,
        "signed": True,
        "encoding": "int",
        "meaning": "sum and difference",
    }
    assert roles == ["stimulus", "stimulus", "expected", "expected", "mask", "expected", "flags"]
    for entry in manifest["arrays"]:
        assert (entry["dtype"], entry["shape"]) == (
            arrays[entry["name"]].dtype.str[1:],
            list(arrays[entry["name"]].shape),
        )


def test_cases_cover_the_rows() -> None:
    manifest, _ = built(unit=fakes.METER, config="w4")

    assert manifest["cases"] == [
        {
            "id": "paper/adds-and-clears",
            "first": 0,
            "cases": 2,
            "rows": 3,
            "kind": "paper",
            "why": "adds and clears",
        }
    ]
    assert (manifest["rows"], manifest["min_rows"], manifest["timing"], manifest["reset"]) == (
        6,
        6,
        "event",
        build.RESET,
    )


def test_first_case_detects_an_absent_device() -> None:
    """The fake's first case begins with an event of zeros, so rotation puts it after the second."""
    _, arrays = built(unit=fakes.METER, config="w4")

    assert arrays["in.add"].tolist() == [5, 1, 2, 0, 3, 7]
    assert arrays["st.total"].tolist() == [5, 0, 2, 0, 3, 10]


def test_decisions_and_sources_are_in_the_manifest() -> None:
    cases = Cases(
        "edge", "why", {"first": np.array([5]), "second": np.array([1])}, "D-fake-1", {"layer": 3, "peak": 0.5}
    )
    manifest, _ = build.build(fakes.BLENDER, "wrap", [cases], generator=GENERATOR)

    assert manifest["cases"] == [
        {
            "id": "edge/why",
            "first": 0,
            "cases": 1,
            "rows": 1,
            "kind": "edge",
            "why": "why",
            "decision": "D-fake-1",
            "source": {"layer": 3, "peak": "0x1.0000000000000p-1"},
        }
    ]


def test_mask_is_all_ones_in_other_blocks() -> None:
    half = dataclasses.replace(
        fakes.BLENDER,
        care=lambda config, inputs, result: {"out.ratio": np.zeros(2, bool)} if len(inputs["first"]) == 2 else {},
    )
    blocks = [
        *fakes.blend_cases(half.configs["wrap"], "paper", 0),
        Cases("edge", "why", {"first": np.array([5]), "second": np.array([1])}),
    ]
    _, arrays = build.build(half, "wrap", blocks, generator=GENERATOR)

    assert arrays["out.ratio.care"].tolist() == [0, 0, 0xFFFF]


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        pytest.param(
            Ports((Port("first", 4), Port("second", 4)), (Port("wire", 5),)),
            "a port name must not be a keyword of SystemVerilog, got 'wire'",
            id="keyword",
        ),
        pytest.param(
            Ports((Port("first", 4), Port("second", 4)), (Port("first", 5),)),
            "port names must differ, got 'first' twice",
            id="twice",
        ),
    ],
)
def test_port_names_are_checked(ports: Ports, message: str) -> None:
    with pytest.raises(Refused, match=f"blender: {message}"):
        built(unit=dataclasses.replace(fakes.BLENDER, ports=lambda config: ports))


def test_configuration_describes_formats_in_full() -> None:
    """A configuration may have only their name."""
    manifest, _ = built("edge", units.find("ovp_encoder"), "int8_repo")

    assert manifest["config"] == {
        "fmt": {
            "name": "OVP_INT8_REPO",
            "type": "Ovp",
            "normal": {"type": "IntFormat", "width": 8, "symmetric": True},
            "outlier": {"type": "AbFloat", "exp_bits": 2, "man_bits": 5, "bias": 2, "limit": "none"},
            "threshold": "none",
            "closed": True,
            "winner": "left",
            "rounding": "half_up",
            "pairing": "flat",
            "left": "low",
            "far": 411616,
        }
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("int4", "int4", id="a type of the unit's own"),
        pytest.param((2, 1), [2, 1], id="tuple"),
        pytest.param(None, "none", id="none"),
        pytest.param(FLINT4, {"type": "Flint", "width": 4}, id="format"),
        pytest.param("FLINT4", {"name": "FLINT4", "type": "Flint", "width": 4}, id="name of a format"),
        pytest.param(Rule("half_even"), "half_even", id="enum"),
    ],
)
def test_parameters_become_plain_values(value: object, expected: object) -> None:
    assert build.expanded(value) == expected
