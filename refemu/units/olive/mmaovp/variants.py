"""Variants of the decisions of mmaovp, and of the dot product units inside it."""

from typing import Any

from refemu.units.declaration import DeclaredState
from refemu.units.olive.mmaovp import MmaOvp
from refemu.units.olive.olive_edp import variants as olive_edp
from refemu.units.olive.ovp_decoder.variants import OTHER_OUTLIERS
from refemu.units.variant import Variant, choices, of_part


class SwappedBiases(MmaOvp):
    """The first of the two biases is that of B."""

    def _open(self, *inputs: Any) -> DeclaredState:
        a_pairs, b_pairs, bias_a, bias_b, c = inputs
        return super()._open(a_pairs, b_pairs, bias_b, bias_a, c)


VARIANTS: tuple[Variant, ...] = (
    OTHER_OUTLIERS,
    Variant("D-olive-21", "the first bias is that of B", unit_class=SwappedBiases),
    *choices("D-olive-33", "overflow", "wrap", "saturate"),
    *of_part(MmaOvp, "_edp", olive_edp.VARIANTS),
)
