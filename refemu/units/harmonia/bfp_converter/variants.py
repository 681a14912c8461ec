"""Variants of the decisions of bfp_converter."""

from refemu.units.declaration import Changes
from refemu.units.harmonia.bfp_converter import BfpConverter
from refemu.units.harmonia.variants import alignment
from refemu.units.ports import Lanes
from refemu.units.variant import Variant


class FromOne(BfpConverter):
    """Shared exponents are at least 1."""

    def align(self, *inputs: int | Lanes) -> Changes:
        """Put out a column."""
        changes = super().align(*inputs)
        lanes = enumerate(changes["exponent"])
        some = tuple(max(field, changes["out_valid"] >> lane & 1) for lane, field in lanes)
        return {**changes, "exponent": some}


VARIANTS: tuple[Variant, ...] = (
    *alignment.variants(BfpConverter, lambda device: device.aligner),
    Variant("D-harmonia-3", "a group of zeros and subnormals has exponent 1", unit_class=FromOne),
)
UNOBSERVABLE: dict[str, str] = {
    "D-harmonia-5": "Both ready configurations reject field 31 in a valid lane, so no row has an infinity or a NaN "
    "that another policy would convert.",
}
