"""The real-time converter of FP16 columns to block floating point [harmonia §IV-C]."""

from refemu.units.harmonia.bfp_converter.bfp_converter import UNIT, BfpConverter, run
from refemu.units.harmonia.bfp_converter.columns import IDLE, Clock, clocks, port_values
from refemu.units.harmonia.bfp_converter.matrix import Conversion, convert
from refemu.units.harmonia.bfp_converter.registers import Kind

__all__ = ["IDLE", "UNIT", "BfpConverter", "Clock", "Conversion", "Kind", "clocks", "convert", "port_values", "run"]
