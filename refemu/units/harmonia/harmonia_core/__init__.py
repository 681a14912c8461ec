"""One matrix product through the whole accelerator: fetched tiles, the array, FP16, vector unit, offsets, converter."""

from refemu.units.harmonia.harmonia_core.core import HarmoniaCore
from refemu.units.harmonia.harmonia_core.unit import UNIT, run

__all__ = ["UNIT", "HarmoniaCore", "run"]
