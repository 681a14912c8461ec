"""The output-stationary systolic array of OliVe, cycle-accurate, and whole products on it."""

from refemu.units.olive.olive_systolic_clocked.olive_systolic_clocked import UNIT, OliveSystolicClocked, run
from refemu.units.olive.olive_systolic_clocked.product import Product, multiply, tile

__all__ = ["UNIT", "OliveSystolicClocked", "Product", "multiply", "run", "tile"]
