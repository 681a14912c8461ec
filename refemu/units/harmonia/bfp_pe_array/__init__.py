"""The 8 x 16 output-stationary array of PEs, cycle by cycle: activations move across columns, weights are broadcast."""

from refemu.units.harmonia.bfp_pe import LANES
from refemu.units.harmonia.bfp_pe_array.bfp_pe_array import UNIT, BfpPeArray, run
from refemu.units.harmonia.bfp_pe_array.tiles import COLUMNS, ROWS, operands, tile

__all__ = ["COLUMNS", "LANES", "ROWS", "UNIT", "BfpPeArray", "operands", "run", "tile"]
