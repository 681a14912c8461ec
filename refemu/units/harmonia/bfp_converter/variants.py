"""Variants of the decisions of bfp_converter."""

from refemu.units import Changes, Lanes
from refemu.units.harmonia.bfp_converter import BfpConverter
from refemu.units.harmonia.variants import alignment
from refemu.units.variant import Variant, overriding


def _from_one(old: BfpConverter, self: BfpConverter, *inputs: int | Lanes) -> Changes:
    changes = old.align(*inputs)
    lanes = enumerate(changes["exponent"])
    return {**changes, "exponent": tuple(max(field, changes["out_valid"] >> lane & 1) for lane, field in lanes)}


VARIANTS: tuple[Variant, ...] = (
    *alignment.variants(BfpConverter),
    overriding(BfpConverter)("D-harmonia-3: a group of zeros and subnormals has exponent 1", align=_from_one),
)
UNOBSERVABLE: dict[str, str] = {
    "D-harmonia-5": "Both ready configurations reject field 31 in a valid lane, so no row has an infinity or a NaN "
    "that another policy would convert."
}
