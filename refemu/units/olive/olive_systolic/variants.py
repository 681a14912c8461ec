"""Variants of the decisions of olive_systolic, and of the decoders on its borders."""

from typing import Any

from refemu.units.olive.olive_systolic import OliveSystolic
from refemu.units.olive.ovp_decoder import OvpDecoder
from refemu.units.olive.variants.pairs import DECODERS, OTHER_OUTLIERS, exchanged
from refemu.units.variant import Variant, choices


def _with(kind: type[OvpDecoder]) -> type[OliveSystolic]:
    class Exchanged(OliveSystolic):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            self._decoders = exchanged(self._decoders, kind)

    return Exchanged


VARIANTS: tuple[Variant, ...] = (
    OTHER_OUTLIERS,
    *choices("D-olive-33", "overflow", "wrap", "saturate"),
    *(Variant(decision, says, unit_class=_with(kind)) for decision, says, kind in DECODERS),
)
UNOBSERVABLE = {
    "D-olive-38": "The ports show the product of an operation as a whole; the cycle in which a decoder works is in the "
    "counters only.",
    "D-olive-39": "The ports show the product of an operation as a whole; skew, compute and drain cycles are in the "
    "counters only.",
}
