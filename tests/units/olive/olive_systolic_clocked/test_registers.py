"""Ports of the clocked array: a lane for each line and element."""

import pytest

from refemu.units.olive.olive_systolic_clocked.registers import NOTHING, Operand, State, ports, registers


@pytest.mark.parametrize(("rows", "cols"), [(2, 6), (64, 64)])
def test_lanes_follow_the_array(rows: int, cols: int) -> None:
    lanes = {port.name: port.lanes for port in ports({"rows": rows, "cols": cols}).all}

    assert lanes["west"] == lanes["west_valid"] == lanes["west_held_integer"] == rows
    assert lanes["north"] == lanes["south"] == lanes["north_held_valid"] == cols
    assert lanes["acc"] == lanes["a_exponent"] == lanes["partial"] == rows * cols
    assert {name for name in lanes if name not in State.__dataclass_fields__} == set()


def test_operands_are_three_registers() -> None:
    fields = registers("a", [Operand(1, 4, -3), NOTHING])

    assert fields == {"a_valid": (1, 0), "a_exponent": (4, 0), "a_integer": (-3, 0)}
