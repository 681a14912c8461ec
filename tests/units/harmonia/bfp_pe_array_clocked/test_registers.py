"""Control of the columns comes back from the registers of a State."""

from dataclasses import replace

import pytest

from refemu.units.harmonia.bfp_pe_array_clocked.bfp_pe_array_clocked import BfpPeArrayClocked
from refemu.units.harmonia.bfp_pe_array_clocked.registers import (
    Column,
    Entry,
    Weights,
    column_registers,
    columns_of,
)


@pytest.mark.parametrize("columns", [1, 3])
def test_columns_come_back(columns: int) -> None:
    weights = [Weights(tuple(range(c, c + 32)), (1,) * 32, (c,), (7 + c,)) for c in range(columns)]
    entries = [Entry(c % 3, 1, 0, 3, 5, 1) for c in range(columns)]
    control = [Column(1, 0, entries[c], 1, weights[c], c, entries[-c], weights[-c]) for c in range(columns)]
    state = replace(BfpPeArrayClocked(2, columns).state, **column_registers(control))

    assert columns_of(state, columns) == control
