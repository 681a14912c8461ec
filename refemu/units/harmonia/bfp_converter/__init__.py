"""The real-time converter of FP16 columns to block floating point [harmonia §IV-C]."""

from refemu.units.harmonia.bfp_converter.bfp_converter import UNIT, BfpConverter, Kind, run
from refemu.units.harmonia.bfp_converter.matrix import IDLE, Clock, Conversion, clocks, convert, port_values

__all__ = ["IDLE", "UNIT", "BfpConverter", "Clock", "Conversion", "Kind", "clocks", "convert", "port_values", "run"]
