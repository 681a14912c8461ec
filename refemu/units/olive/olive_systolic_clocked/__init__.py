"""The output-stationary systolic array of OliVe with a clock, and whole products on it."""

from refemu.units.olive.olive_systolic_clocked.product import Product, multiply
from refemu.units.olive.olive_systolic_clocked.schedule import tile
from refemu.units.olive.olive_systolic_clocked.unit import UNIT, OliveSystolicClocked, run

__all__ = ["UNIT", "OliveSystolicClocked", "Product", "multiply", "run", "tile"]
