"""Other answers to the decisions of bfp_aligner."""

from refemu.units.alternative import Alternative, choices
from refemu.units.harmonia.bfp_aligner import BfpAligner
from refemu.units.harmonia.variants import alignment

ALTERNATIVES: tuple[Alternative, ...] = (
    *alignment.alternatives(BfpAligner, lambda device: device),
    Alternative("D-harmonia-2", "a rounded magnitude that carries out wraps", variant=alignment.Wrapping),
    *choices("D-harmonia-2", "rounding", "truncate"),
    *choices("D-harmonia-5", "special", "error", "hw", "saturate"),
)
