"""One matrix product through the whole accelerator: tile fetches, the array, FP16, vector unit, offsets, converter."""

from refemu.units.harmonia.harmonia_core.core import HarmoniaCore
from refemu.units.harmonia.harmonia_core.gemm import CODES, BType, Codes, Positions
from refemu.units.harmonia.harmonia_core.harmonia_core import UNIT, run
from refemu.units.harmonia.harmonia_core.plan import HEADS, Activation, Bias, Kind, Rotation, Shape, group_edges
from refemu.units.harmonia.harmonia_core.schedule import Schedule, longest, scheduled
from refemu.units.harmonia.harmonia_core.timeline import PARTS, PASSES, Event, Passes, Rates, Timeline, Waits, stepped

__all__ = [
    "CODES",
    "HEADS",
    "PARTS",
    "PASSES",
    "UNIT",
    "Activation",
    "BType",
    "Bias",
    "Codes",
    "Event",
    "HarmoniaCore",
    "Kind",
    "Passes",
    "Positions",
    "Rates",
    "Rotation",
    "Schedule",
    "Shape",
    "Timeline",
    "Waits",
    "group_edges",
    "longest",
    "run",
    "scheduled",
    "stepped",
]
