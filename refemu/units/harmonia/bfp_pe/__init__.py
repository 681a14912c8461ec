"""The reconfigurable processing element [harmonia §IV-B]."""

from refemu.units.harmonia.bfp_pe.bfp_pe import (
    LANES,
    M8M4,
    M8M8,
    M8W4,
    MODES,
    NIBBLES,
    SLOTS,
    UNIT,
    Accumulator,
    BfpPe,
    SubPe,
    bfp_dot,
    bfp_dot_int,
    run,
)
from refemu.units.harmonia.bfp_pe.operands import operand, require_fields, seat
from refemu.units.harmonia.bfp_pe.passes import Pass, PassPe

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
