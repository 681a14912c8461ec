"""NumPy parameters are stored as Python's own: in units, results, formats, schemes, manifests."""

import inspect
import json
import re
import typing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from refemu import formats, units
from refemu.arith import orders
from refemu.arith.checks import Refused, RefusedType, plain, require_int
from refemu.formats import config_text
from refemu.golden.make import build
from refemu.models import schemes
from refemu.models.schemes.olive.config import OliveConfig
from refemu.units import parameters
from refemu.units.stimuli import random_inputs
from refemu.units.unit import Config, Unit

UNITS = [
    pytest.param(units.find(name), config, id=f"{name}-{config}")
    for name in units.names()
    for config in units.find(name).configs
]


def numpys(value: Any) -> Any:
    """`value` as NumPy's scalars."""
    kinds: dict[type, Any] = {bool: np.bool_, int: np.int64, float: np.float64, str: np.str_, tuple: tuple}
    kind = kinds.get(type(value), lambda same: same)
    return tuple(map(numpys, value)) if kind is tuple else kind(value)


def types(value: Any) -> Any:
    return (type(value), [types(one) for one in value]) if isinstance(value, tuple) else type(value)


@pytest.mark.parametrize(("unit", "name"), UNITS)
def test_units_keep_plain_parameters(unit: Unit, name: str) -> None:
    config = unit.configs[name]
    given = {key: numpys(value) for key, value in config.items()}

    assert dict(Config(**given)) == dict(config)
    assert [types(value) for value in Config(**given).values()] == [types(value) for value in config.values()]
    assert repr(unit.unit_class(**given)) == repr(unit.unit_class(**config))


@pytest.mark.parametrize("name", ["index_counter", "ovp_decoder", "weighted_sum", "olive_mac"])
def test_results_hold_plain_counters(name: str) -> None:
    """`equals` compares types too."""
    unit = units.find(name)
    config = next(iter(unit.configs.values()))
    given = {key: numpys(value) for key, value in config.items()}
    inputs = random_inputs(name, unit.ports(config).inputs, (2, 3) if unit.timing == "event" else (3,), 0)
    inputs = dict(unit.legal(config, inputs)) if unit.legal else inputs
    want = unit.evaluate(config, inputs)

    for run in (unit.run, unit.run_compiled):
        assert run(**inputs, **given).equals(want)
    assert unit.evaluate(given, inputs).equals(want)


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (lambda: formats.IntFormat(np.uint8(4), symmetric=np.True_), formats.INT4),
        (lambda: formats.AbFloat(*map(np.int64, (2, 1, 2))), formats.E2M1_BIAS2),
        (lambda: formats.Bfp(mantissa_bits=np.int64(8)), formats.Bfp(mantissa_bits=8)),
        (lambda: formats.TopK(percent=np.float32(0.5)), formats.TopK(percent=0.5)),
        (lambda: formats.TopK(k=np.int32(3)), formats.TopK(k=3)),
        (lambda: OliveConfig(weight_bits=np.int64(8), act_bits=np.int8(8)), schemes.SCHEMES["olive-8"]),
        (lambda: orders.Tree(np.int64(8)), orders.Tree(8)),
    ],
)
def test_formats_and_schemes_keep_plain_parameters(made: Any, want: Any) -> None:
    assert repr(made()) == repr(want) and made() == want


def test_manifests_hold_plain_values() -> None:
    """As bytes of JSON, which accepts only Python's own types."""
    unit = units.find("index_counter")
    config = unit.configs["example"]
    numpys_unit = replace(unit, configs={"example": Config(**{key: numpys(value) for key, value in config.items()})})
    blocks = list(unit.cases(config, "paper", 0))
    made = [json.dumps(build.build(each, "example", blocks, generator={})[0]) for each in (unit, numpys_unit)]
    scheme = OliveConfig(weight_bits=np.int64(8), act_bits=np.int8(8))

    assert made[0] == made[1]
    assert json.dumps(schemes.parameters(scheme)) == json.dumps(schemes.parameters(schemes.SCHEMES["olive-8"]))


def test_axis_may_be_numpys() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    encoded = formats.OVP_INT4.encode(x, axis=np.int64(0))

    assert np.array_equal(encoded.code, formats.OVP_INT4.encode(x, axis=0).code) and type(encoded.axis) is int


@pytest.mark.parametrize("value", [True, np.True_, 4.0, np.float32(4), "4", None, np.array([4])])
def test_non_integer_is_rejected(value: Any) -> None:
    with pytest.raises(RefusedType, match="thing: n must be an int, got"):
        require_int(value, 0, 8, "thing", "n")
    with pytest.raises(RefusedType, match="width must be an int, got"):
        formats.IntFormat(value)


def test_out_of_range_integer_error_hides_numpy() -> None:
    with pytest.raises(Refused, match=r"IntFormat: width must be in \[2, 16\], got 17$"):
        formats.IntFormat(np.int64(17))


def test_only_scalars_are_changed() -> None:
    array = np.ones(2, np.float32)

    assert plain(array) is array and plain("x") == "x" and plain(None) is None
    assert types(plain((np.int8(1), (np.float16(0.5), array[0])))) == types((1, (0.5, 1.0)))


# Configurations by text


def changes(unit: Unit, base: str) -> list[str]:
    """The configuration `base` with one parameter changed, for every parameter and some values."""
    hints = typing.get_type_hints(unit.unit_class.__init__)
    texts = []
    for name, each in inspect.signature(unit.unit_class).parameters.items():
        value = unit.configs[base].get(name, each.default)
        options = list(config_text._options(hints[name]))
        tried = [option for option in options if isinstance(option, str)] + [True, False] * (bool in options)
        tried += [value + 1, value * 2] if type(value) is int and int in options else []
        texts += [f"{base},{name}={config_text.write(other)}" for other in tried if other != value]
    return texts


@pytest.mark.parametrize("name", units.names())
def test_configurations_round_trip_with_distinct_set_names(name: str) -> None:
    unit, names = units.find(name), {}
    for base in unit.configs:
        assert unit.config(base) is unit.configs[base] and parameters.set_name(unit, base) == f"{name}-{base}"
        for text in changes(unit, base):
            try:
                config = unit.config(text)
            except (Refused, RefusedType):
                continue  # out of range
            again = parameters.text(unit, config)
            assert unit.config(again) == config
            assert names.setdefault(parameters.set_name(unit, again), again) == again
    assert all(re.fullmatch(r"[a-z0-9_]+-[a-z0-9_-]+", each) for each in names)


def test_sizes_from_outside() -> None:
    unit, text = units.choose("orizuru:n=4096,k=21")

    assert text == "n=4096,k=21" and parameters.set_name(unit, text) == "orizuru-n4096-k21"
    assert unit.config(text)["min_leaf"] == "not_max"
    assert units.choose("orizuru:n8,k=1")[1] == "n=8"
    assert units.choose("orizuru:n=8,k=2")[1] == "n8" == units.choose("orizuru", "n=8,k=2")[1]
    assert units.configurations("orizuru:n8")[1] == ["n8"] and len(units.configurations("orizuru")[1]) > 3


def test_set_name_of_non_word_value_has_digest() -> None:
    unit = units.find("kllm_chip")
    names = {parameters.set_name(unit, f"sizes={text}") for text in ("2+2+4+2", "2+2+4+4", "22+4+2+2")}

    assert len(names) == 3 and all(re.fullmatch("kllm_chip-sizes-x[0-9a-f]{12}", each) for each in names)


@pytest.mark.parametrize(
    ("spec", "config", "message"),
    [
        ("orizuru:", None, "a configuration must follow the colon"),
        ("orizuru:n9", None, "unknown configuration 'n9' of orizuru"),
        ("orizuru:m=3", None, "unknown parameter 'm' of orizuru"),
        ("orizuru:k=3", None, "orizuru: parameter n must be given"),
        ("orizuru:n=8,k=99", None, r"k must be in \[0, 8\], got 99"),
        ("orizuru:n=eight", None, "orizuru: n must be an int"),
        ("orizuru:n8", "n64", "configuration must be given once, got n8 and n64"),
        ("orizuro:n8", None, "unknown unit 'orizuro'; did you mean 'orizuru'"),
    ],
)
def test_configurations_reject(spec: str, config: str | None, message: str) -> None:
    with pytest.raises((Refused, RefusedType), match=message):
        units.choose(spec, config)
