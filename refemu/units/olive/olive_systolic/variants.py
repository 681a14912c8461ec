"""Variants of the decisions of olive_systolic, and of the decoders on its borders."""

from refemu.units.olive.olive_systolic import OliveSystolic
from refemu.units.olive.ovp_decoder.variants import OTHER_OUTLIERS, of_decoders
from refemu.units.variant import Variant, choices

VARIANTS: tuple[Variant, ...] = (
    OTHER_OUTLIERS,
    *choices("D-olive-33", "overflow", "wrap", "saturate"),
    *of_decoders(OliveSystolic, "_decoders"),
)
UNOBSERVABLE = {
    "D-olive-38": "The ports show the product of an operation as a whole; the cycle in which a decoder works is in the "
    "counters only.",
    "D-olive-39": "The ports show the product of an operation as a whole; skew, compute and drain cycles are in the "
    "counters only.",
}
