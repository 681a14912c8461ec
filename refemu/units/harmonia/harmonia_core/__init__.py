"""One matrix product through the whole accelerator: tile fetches, the array, FP16, vector unit, offsets, converter."""

from refemu.units.harmonia.harmonia_core.core import HarmoniaCore
from refemu.units.harmonia.harmonia_core.flow import Flow, Port, timed
from refemu.units.harmonia.harmonia_core.gemm import CODES, BType, Codes, Positions
from refemu.units.harmonia.harmonia_core.harmonia_core import UNIT, run
from refemu.units.harmonia.harmonia_core.plan import Activation, Bias, Kind, Rotation
from refemu.units.harmonia.harmonia_core.product import (
    BFP4,
    BFP8,
    FP16,
    INT4,
    Bits,
    Format,
    Moved,
    Product,
    moved,
    packed,
)
from refemu.units.harmonia.harmonia_core.schedule import Schedule, longest, scheduled
from refemu.units.harmonia.harmonia_core.timeline import PARTS, Event, Passes, Rates, Timeline, stepped

__all__ = [
    "BFP4",
    "BFP8",
    "CODES",
    "FP16",
    "INT4",
    "PARTS",
    "UNIT",
    "Activation",
    "BType",
    "Bias",
    "Bits",
    "Codes",
    "Event",
    "Flow",
    "Format",
    "HarmoniaCore",
    "Kind",
    "Moved",
    "Passes",
    "Port",
    "Positions",
    "Product",
    "Rates",
    "Rotation",
    "Schedule",
    "Timeline",
    "longest",
    "moved",
    "packed",
    "run",
    "scheduled",
    "stepped",
    "timed",
]
