"""What a type checker knows of refemu. pytest runs this module; `make lint` has mypy and pyright check it."""

# pyright: reportUnnecessaryTypeIgnoreComment=error

import importlib
import inspect
from collections.abc import Iterable, Iterator
from typing import Any, assert_type, get_args, get_type_hints

import numpy as np
import pytest

from refemu import formats
from refemu.arith.checks import Refused
from refemu.formats import OVP_INT4, Bfp, Ovp, OvpTensor
from refemu.units import PAPERS, find, names, orizuru
from refemu.units.declared import DeclaredState

PACKAGES = [f"refemu.{name}" for name in ("arith", "formats", "units", "models", "golden", "testing")]
UNITS = [f"refemu.units.{paper}.{name}" for name, paper in PAPERS.items()]
#: what public names may leave open, and why
OPEN = {
    **dict.fromkeys(
        (
            "Stepped",
            "Sequential.admitted",
            "Sequential.steps",
            "HarmoniaCoreClocked.accept",
            "HarmoniaCoreClocked.admitted",
        ),
        "every unit has inputs and registers of its own",
    ),
    "Config.__init__": "parameters of any unit",
    "Pages.of": "constants of a UnifiedPage by name, which checks them",
    "Prepared.attention": "a scheme reads the cache that it made",
    "PageManagerMachine": "a device is any object with the methods of the golden manager",
}


def left_open(modules: Iterable[object]) -> set[str]:
    """The public functions and methods of modules with a parameter or a result that is `Any`."""
    exported = {name: getattr(module, name) for module in modules for name in getattr(module, "__all__", ())}
    methods = {
        f"{name}.{place}": getattr(method, "__func__", getattr(method, "fget", method))
        for name, each in exported.items()
        if inspect.isclass(each)
        for place, method in vars(each).items()
        if place == "__init__" or not place.startswith("_")
    }
    functions = {name: each for name, each in (exported | methods).items() if inspect.isfunction(each)}
    return {name for name, each in functions.items() if {Any, "Any"} & set(inspect.get_annotations(each).values())}


def test_no_public_signature_says_any() -> None:
    names = left_open(map(importlib.import_module, [*PACKAGES, *UNITS])) - {"run"}  # `run` is a RunFunction

    assert {name for name in names if name not in OPEN and name.split(".")[0] not in OPEN} == set()
    assert {place for place in OPEN if not any(name.startswith(place) for name in names)} == set()


def test_a_signature_that_says_any_is_seen() -> None:
    class Planted:
        __all__ = ("Record", "function", "typed")

        @staticmethod
        def function(x: Any) -> int:
            return int(x)

        @staticmethod
        def typed(x: int) -> int:
            return x

        class Record:
            def method(self) -> Any: ...

    assert left_open([Planted]) == {"Record.method", "function"}


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
