"""What a type checker knows of refemu. pytest runs this module; `make lint` has mypy and pyright check it."""

# pyright: reportUnnecessaryTypeIgnoreComment=error

from collections.abc import Iterator
from typing import assert_type, get_args, get_type_hints

import numpy as np
import pytest

from refemu import formats
from refemu.arith.checks import Refused
from refemu.formats import OVP_INT4, Bfp, Ovp, OvpTensor
from refemu.units import find, names, orizuru
from refemu.units.declaration import DeclaredState


def test_formats_are_known_by_name() -> None:
    assert_type(formats.find("OVP_INT4"), Ovp)
    assert_type(formats.find("BFP8"), Bfp)
    assert formats.find("OVP_INT4") is OVP_INT4


def test_codes_and_tensors_are_known() -> None:
    tensor = OVP_INT4.encode(np.array([48.0, 0.0, 5.0, -3.0]))

    assert_type(tensor, OvpTensor)
    assert_type(tensor.pack(), bytes)
    assert_type(tensor.decode(), np.ndarray)
    assert_type(tensor.pairs(), np.ndarray)
    assert isinstance(tensor, OvpTensor) and isinstance(tensor.pack(), bytes)


def test_units_are_known_by_name() -> None:
    unit = find("orizuru")
    result = unit.run(np.arange(8, dtype=np.uint16), n=8, k=1)
    device = unit.unit_class(n=8)

    assert_type(result, orizuru.Result)
    assert_type(device.k, int)
    assert_type(device.step(tuple(range(8))).p, tuple[int, ...])
    assert_type(device.steps(range(8)), Iterator[DeclaredState])
    assert isinstance(device, orizuru.Orizuru)
    assert type(result) is unit.result and unit is orizuru.UNIT


def test_derived_results_are_known_field_by_field() -> None:
    result = find("ovp_encoder").run(np.zeros((1, 2), np.uint32), fmt="OVP_INT4")

    assert_type(result.pair, np.ndarray)
    assert_type(result.victims, int)


#: ports with a value for each of several requests, declared as the int of one request
SHAPES = {("layer_step", "prompt"), ("layer_step", "seen")}


@pytest.mark.parametrize("name", names())
def test_states_hold_what_they_declare(name: str) -> None:
    """A tuple of a vector, an int of a scalar, in every configuration."""
    unit = find(name)
    declared = get_type_hints(type(unit.unit_class(**next(iter(unit.configs.values()))).snapshot()))

    everywhere = set.intersection(*({port.name for port in unit.ports(c).all} for c in unit.configs.values()))
    for config in unit.configs.values():
        device = unit.unit_class(**config)
        for port in device.ports.all:
            hint, value = declared[port.name], getattr(device.snapshot(), port.name)
            if port.name not in everywhere and hint == int | None:
                hint = int  # None where a configuration lacks the port
            if (name, port.name) not in SHAPES:
                assert get_args(hint) in ((int, ...), (int,) * port.count) if port.shape else hint is int
            assert len(value) == port.lanes if port.shape else isinstance(value, int)


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(Refused, match="Bfp: rounding must be one of 'truncate', 'half_even'"):
        Bfp(rounding="trunk")  # type: ignore[arg-type]
    with pytest.raises(Refused, match="orizuru: min_leaf must be one of"):
        find("orizuru").run(np.zeros(8, np.uint16), n=8, min_leaf="trunk")  # type: ignore[arg-type]


def test_an_unknown_parameter_is_an_error() -> None:
    with pytest.raises(TypeError):
        find("orizuru").run(np.zeros(8, np.uint16), n=8, pops=1)  # type: ignore[call-arg]
