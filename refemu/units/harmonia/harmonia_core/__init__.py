"""One matrix product through the whole accelerator: fetched tiles, the array, FP16, vector unit, offsets, converter."""

from refemu.units.harmonia.harmonia_core.unit import UNIT, HarmoniaCore, run

__all__ = ["UNIT", "HarmoniaCore", "run"]
