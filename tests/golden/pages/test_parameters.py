"""Parameters and ports have a meaning each, and the values that they take."""

import dataclasses

import pytest

from refemu import formats, units
from refemu.formats import config_text
from refemu.golden.pages import decisions, parameters
from refemu.models.schemes import SCHEMES, registry


@pytest.mark.parametrize("name", SCHEMES)
def test_parameters_of_schemes(name: str) -> None:
    table = parameters.of_scheme(name)
    assert list(table) == [field.name for field in dataclasses.fields(SCHEMES[name])]  # type: ignore[arg-type]
    for key, each in table.items():
        assert each.meaning and each.values, key
        assert set(each.decisions) <= set(decisions.every()), key
        assert registry.parse(f"{name}:{key}={each.default}") == SCHEMES[name], key


@pytest.mark.parametrize("name", SCHEMES)
def test_listed_values_are_those_that_a_scheme_reads(name: str) -> None:
    """Each gives a configuration or is refused as a value beside the others, never as a word of its type."""
    for key, each in parameters.of_scheme(name).items():
        for value in each.choices:
            try:
                scheme = registry.parse(f"{name}:{key}={value}")
            except ValueError as error:
                alone = key != "act_bits"  # which has the weights' bits, or none (D-olive-41)
                assert not alone or f"{key} must be one of" not in str(error), (key, value)
            else:
                assert config_text.write(getattr(scheme, key)) == value


def test_parameters_of_formats() -> None:
    tables = {name: parameters.of_format(name) for name in (*formats.constants(), *formats.blocks())}
    wrong = [(name, key) for name in tables for key, each in tables[name].items() if not (each.meaning and each.values)]
    assert wrong == [] and len(tables) > 30


def test_parameters_and_ports_of_units() -> None:
    for unit in map(units.find, units.names()):
        for key, each in parameters.of_unit(unit.name).items():
            assert each.meaning and each.values, (unit.name, key)
            ready = {config for config, values in unit.configs.items() if key in values}
            assert ready == set(each.ready), (unit.name, key)
        for key, port in parameters.ports(unit.name).items():
            assert port.port in unit.ports(unit.configs[port.config]).all, (unit.name, key)


def test_one_of_each() -> None:
    window = parameters.of_scheme("harmonia-kv4")["prefill_window"]
    assert (window.choices, window.open, window.default) == (("query", "end"), (), "query")
    assert window.decisions == ("D-harmonia-19",)
    tokens = parameters.of_scheme("leankv")["score_queries"]
    assert tokens.values == "an integer, none"
    assert parameters.of_scheme("leankv")["align"].values == "a tuple of integers"
    assert parameters.of_unit("orizuru")["n"].default == "" and parameters.of_unit("orizuru")["n"].ready["n8"] == "8"
    assert parameters.ports("orizuru")["p"].direction == "register"
    assert parameters.of_format("BFP8")["mantissa_bits"].default == "8"
