"""The reconfigurable processing element [harmonia §IV-B]."""

from refemu.formats.harmonia.bfp_dot import bfp_dot, bfp_dot_int
from refemu.units.harmonia.bfp_accumulator import M8M4, M8M8, M8W4, MODES, Accumulator
from refemu.units.harmonia.bfp_pe.bfp_pe import UNIT, BfpPe, run
from refemu.units.harmonia.bfp_pe.operands import NIBBLES, SLOTS, operand, require_fields, seat
from refemu.units.harmonia.bfp_pe.passes import Pass, PassPe
from refemu.units.harmonia.sub_pe import LANES, SubPe

__all__ = [
    "LANES",
    "M8M4",
    "M8M8",
    "M8W4",
    "MODES",
    "NIBBLES",
    "SLOTS",
    "UNIT",
    "Accumulator",
    "BfpPe",
    "Pass",
    "PassPe",
    "SubPe",
    "bfp_dot",
    "bfp_dot_int",
    "operand",
    "require_fields",
    "run",
    "seat",
]
