"""Variants of the decisions of bfp_pe_array."""

from refemu.units.harmonia.bfp_pe_array import BfpPeArray
from refemu.units.harmonia.variants import accumulation
from refemu.units.variant import Variant

VARIANTS: tuple[Variant, ...] = (*accumulation.variants(BfpPeArray),)
UNOBSERVABLE: dict[str, str] = {
    "D-harmonia-22": "A row of a set is a whole tile, and its accumulators start from +0: whether the next tile's "
    "first columns work meanwhile changes the cycle of a result, not its bits.",
    "D-harmonia-44": "How far activations move shows in the counter of hops, and in bfp_pe_array_clocked at the port "
    "`arrived`; a sum does not depend on it.",
    "D-harmonia-36": "A device with a mode per column computes a 4-bit key in M8M4, one with a mode per group "
    "computes it shifted left by four in M8M8: the integer times its power of two is the same, so are all bits.",
}
