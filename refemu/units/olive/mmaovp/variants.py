"""Variants of the decisions of mmaovp, and of the dot product units inside it."""

from typing import Any

from refemu.units.declaration import DeclaredState, constant
from refemu.units.olive.mmaovp import TYPES, MmaOvp
from refemu.units.olive.olive_edp import DotProductUnit
from refemu.units.olive.olive_edp import variants as olive_edp
from refemu.units.olive.variants.pairs import OTHER_OUTLIERS
from refemu.units.variant import Variant, choices


class SwappedBiases(MmaOvp):
    """The first of the two biases is that of B."""

    def _open(self, *inputs: Any) -> DeclaredState:
        a_pairs, b_pairs, bias_a, bias_b, c = inputs
        return super()._open(a_pairs, b_pairs, bias_b, bias_a, c)


def _with(kind: type[DotProductUnit]) -> type[MmaOvp]:
    class Exchanged(MmaOvp):
        @constant
        def _edp(self) -> DotProductUnit:
            return kind(TYPES[self.a_type], TYPES[self.b_type], self.overflow)

    return Exchanged


VARIANTS: tuple[Variant, ...] = (
    OTHER_OUTLIERS,
    Variant("D-olive-21", "the first bias is that of B", unit_class=SwappedBiases),
    *choices("D-olive-33", "overflow", "wrap", "saturate"),
    *(
        Variant(part.decision, part.says, unit_class=_with(part.unit_class))
        for part in olive_edp.VARIANTS
        if part.unit_class is not None and issubclass(part.unit_class, DotProductUnit)
    ),
)
