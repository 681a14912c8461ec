"""The 8 x 16 output-stationary array of PEs, cycle-accurate, and whole products on it."""

from refemu.units.harmonia.bfp_pe_array_clocked.bfp_pe_array_clocked import UNIT, BfpPeArrayClocked, run
from refemu.units.harmonia.bfp_pe_array_clocked.product import Product, edges, multiply

__all__ = ["UNIT", "BfpPeArrayClocked", "Product", "edges", "multiply", "run"]
