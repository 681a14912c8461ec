"""Fields of a State beside its ports: which they are, and that each says what it is."""

from refemu import units
from refemu.golden.pages import state


def test_kinds_and_totals() -> None:
    table = state.of_unit("page_manager")
    assert table["event"].kind == "event" and table["slots"].kind == "inner" and table["slots"].total == ""
    assert (table["allocated"].kind, table["allocated"].total) == ("counter", "sum")
    assert table["step_pages"].total == "largest"
    assert not set(table) & {port.name for port in units.find("page_manager").ready_ports[0].all}


def test_a_field_that_only_some_configurations_have_as_a_port() -> None:
    unit = units.find("fp16_mac")
    assert "rm" in state.of_unit("fp16_mac")
    for name, config in unit.configs.items():
        shown = {field.name for field in state.of_config(unit, config)}
        assert not shown & {port.name for port in unit.ports(config).all}, name


def test_what_a_row_is() -> None:
    assert state.timing(units.find("orizuru")).startswith("combinational: a row is one call")
    assert state.timing(units.find("orizuru_clocked")).startswith("event: a row is one step")
