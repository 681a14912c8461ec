"""One matrix product through the whole accelerator: fetched tiles, the array, FP16, vector unit, offsets, converter."""

from refemu.units.harmonia.harmonia_core.core import CODES, Codes, HarmoniaCore
from refemu.units.harmonia.harmonia_core.ports import COUNTERS
from refemu.units.harmonia.harmonia_core.timeline import Rates, Timeline
from refemu.units.harmonia.harmonia_core.unit import UNIT, run

__all__ = ["CODES", "COUNTERS", "UNIT", "Codes", "HarmoniaCore", "Rates", "Timeline", "run"]
