"""Other answers to the decisions of bfp_converter."""

from typing import Any

from refemu.units.alternative import Alternative
from refemu.units.harmonia.alternatives import alignment
from refemu.units.harmonia.bfp_converter import BfpConverter
from refemu.units.harmonia.bfp_converter.registers import Bank


class FromOne(BfpConverter):
    """Shared exponents are at least 1."""

    def _align(self, bank: Bank) -> tuple[dict[str, Any], int]:
        outputs, count = super()._align(bank)
        mask = outputs["out_valid"]
        some = tuple(max(field, mask >> lane & 1) for lane, field in enumerate(outputs["exponent"]))
        return {**outputs, "exponent": some}, count


ALTERNATIVES: tuple[Alternative, ...] = (
    *alignment.alternatives(BfpConverter, lambda device: device.aligner),
    Alternative("D-harmonia-3", "a group of zeros and subnormals has exponent 1", variant=FromOne),
)
UNOBSERVABLE: dict[str, str] = {
    "D-harmonia-5": "Both ready configurations refuse field 31 in a valid lane, so no row holds an infinity or a NaN "
    "that another policy would convert.",
}
