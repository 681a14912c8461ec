"""Each parameter and port has a meaning and its valid values."""

import dataclasses

import pytest

from refemu import formats, units
from refemu.formats import config_text
from refemu.golden.pages import decisions, parameters
from refemu.models.schemes import SCHEMES, registry


@pytest.mark.parametrize("name", SCHEMES)
def test_scheme_parameters_have_meanings(name: str) -> None:
    table = parameters.of_scheme(name)
    assert list(table) == [field.name for field in dataclasses.fields(SCHEMES[name])]  # type: ignore[arg-type]
    for key, each in table.items():
        assert each.meaning and each.values, key
        assert set(each.decisions) <= set(decisions.every()), key
        assert registry.parse(f"{name}:{key}={each.default}") == SCHEMES[name], key


@pytest.mark.parametrize("name", SCHEMES)
def test_listed_values_are_accepted_by_the_scheme(name: str) -> None:
    """Each gives a configuration, or an error about the combination, never one about its type."""
    for key, each in parameters.of_scheme(name).items():
        for value in each.choices:
            try:
                scheme = registry.parse(f"{name}:{key}={value}")
            except ValueError as error:
                alone = key != "act_bits"  # it equals the weights' bits, or is none (D-olive-41)
                assert not alone or f"{key} must be one of" not in str(error), (key, value)
            else:
                assert config_text.write(getattr(scheme, key)) == value


@pytest.mark.parametrize("name", units.names())
def test_listed_values_are_accepted_by_the_unit(name: str) -> None:
    """Each gives a configuration, or an error about the combination, never one about the value alone."""
    unit = units.find(name)
    for key, each in parameters.of_unit(name).items():
        for value in each.choices:
            for config in unit.configs:
                try:
                    unit.config(f"{config},{key}={value}")
                except ValueError as error:
                    assert f"{key} must be one of" not in str(error), (key, value)


def test_format_parameters_have_meanings() -> None:
    tables = {name: parameters.of_format(name) for name in (*formats.constants(), *formats.blocks())}
    wrong = [(name, key) for name in tables for key, each in tables[name].items() if not (each.meaning and each.values)]
    assert wrong == [] and len(tables) > 30


def test_unit_parameters_and_ports_have_meanings() -> None:
    for unit in map(units.find, units.names()):
        for key, each in parameters.of_unit(unit.name).items():
            assert each.meaning and each.values, (unit.name, key)
            ready = {config for config, values in unit.configs.items() if key in values}
            assert ready == set(each.ready), (unit.name, key)
        for key, port in parameters.ports(unit.name).items():
            assert port.port in unit.ports(unit.configs[port.config]).all, (unit.name, key)


def test_known_entries_have_fixed_text() -> None:
    window = parameters.of_scheme("harmonia-kv4")["prefill_window"]
    assert (window.choices, window.open, window.default) == (("query", "end"), (), "query")
    assert window.decisions == ("D-harmonia-19",)
    tokens = parameters.of_scheme("leankv")["score_queries"]
    assert tokens.values == "an integer, none"
    assert parameters.of_scheme("leankv")["align"].values == "a tuple of integers"
    assert parameters.of_unit("orizuru")["n"].default == "" and parameters.of_unit("orizuru")["n"].ready["n8"] == "8"
    assert parameters.ports("orizuru")["p"].direction == "register"
    assert parameters.of_format("BFP8")["mantissa_bits"].default == "8"
