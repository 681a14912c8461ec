"""The 8 x 16 output-stationary array of PEs, cycle by cycle: activations move across columns, weights are broadcast."""

from refemu.units.harmonia.bfp_pe_array.bfp_pe_array import (
    COLUMNS,
    LANES,
    ROWS,
    UNIT,
    BfpPeArray,
    run,
    tile,
)
from refemu.units.harmonia.bfp_pe_array.tiles import operands

__all__ = ["COLUMNS", "LANES", "ROWS", "UNIT", "BfpPeArray", "operands", "run", "tile"]
