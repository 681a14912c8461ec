"""One matrix product through the whole accelerator: tile fetches, the array, FP16, vector unit, offsets, converter."""

from refemu.units.harmonia.harmonia_core.core import HarmoniaCore
from refemu.units.harmonia.harmonia_core.gemm import CODES, BType, Codes, Positions
from refemu.units.harmonia.harmonia_core.harmonia_core import UNIT, run
from refemu.units.harmonia.harmonia_core.plan import Activation, Bias, Kind, Rotation
from refemu.units.harmonia.harmonia_core.schedule import Schedule, longest, scheduled
from refemu.units.harmonia.harmonia_core.timeline import PARTS, Event, Rates, Timeline, stepped

__all__ = [
    "CODES",
    "PARTS",
    "UNIT",
    "Activation",
    "BType",
    "Bias",
    "Codes",
    "Event",
    "HarmoniaCore",
    "Kind",
    "Positions",
    "Rates",
    "Rotation",
    "Schedule",
    "Timeline",
    "longest",
    "run",
    "scheduled",
    "stepped",
]
