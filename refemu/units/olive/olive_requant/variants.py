"""Variants of the decisions of olive_requant, and of the encoder inside it."""

import math

import numpy as np

from refemu.arith import fp16
from refemu.arith.fp16 import Fp16Mode
from refemu.arith.scalar32 import div32, f32, pattern16, value16
from refemu.units.olive.olive_requant import OliveRequant
from refemu.units.olive.ovp_encoder import variants as ovp_encoder
from refemu.units.variant import Variant, of_part, replaces, variants_of

DIRECT = "one rounding to fp16, from the exact product and the bias"
FRACTION = 24  #: significant bits of a float32, the hidden one included


def _rounds(mode: Fp16Mode) -> type[OliveRequant]:
    """A stage that rounds its words in another mode."""

    class Other(OliveRequant):
        def word(self, biased: float) -> int:
            return int(fp16.bits(fp16.to_f16(np.float32(biased), mode)))

    return Other


class Devices(OliveRequant):
    """Methods of other designs."""

    @replaces("converted", "D-olive-42", "a sum that float32 does not hold is truncated")
    def sum_truncated(self, acc: int) -> float:
        drop = max(abs(acc).bit_length() - FRACTION, 0)
        return math.copysign(abs(acc) >> drop << drop, acc)

    @replaces("converted", "D-olive-42", "the sum is not rounded to float32")
    def whole_sum(self, acc: int) -> float:
        return float(acc)

    @replaces("rescaled", "D-olive-42", "the sum times one scale, then times the other")
    def scale_by_scale(self, acc_f32: float, scale_a: float, scale_w: float) -> float:
        return f32(f32(acc_f32 * scale_a) * scale_w)

    @replaces("quotient", "D-olive-52", "an infinite output is encoded as 65504")
    def finite_pair(self, y: int, biased: float, scale_next: float) -> float:
        value = value16(y)
        return div32(math.copysign(fp16.MAX, value) if math.isinf(value) else value, scale_next)

    @replaces("limited", "D-olive-53", "a quotient beyond float32 is 0")
    def quotient_zero(self, quotient: float) -> float:
        return 0.0 if math.isinf(quotient) else quotient

    @replaces("quotient", "D-olive-54", "the pair is made of the float32 output")
    def from_float32(self, y: int, biased: float, scale_next: float) -> float:
        return div32(biased, scale_next)

    @replaces("rescaled", "D-olive-55", "the bias is added in a fused multiply-add")
    @replaces("rescaled", "D-olive-42", DIRECT)
    def fused(self, acc_f32: float, scale_a: float, scale_w: float) -> float:
        return acc_f32 * f32(scale_a * scale_w)

    @replaces("biased", "D-olive-42", DIRECT)
    def unrounded(self, scaled: float, bias: float) -> float:
        return scaled + bias

    @replaces("biased", "D-olive-55", "the bias is added to the fp16 word")
    def bias_behind(self, scaled: float, bias: float) -> float:
        return f32(value16(pattern16(scaled)) + bias)

    @replaces("biased", "D-olive-55", "no bias is +0")
    def bias_swallows_sign(self, scaled: float, bias: float) -> float:
        return super().biased(scaled, bias or 0.0)

    @replaces("quotient", "D-olive-25", "outputs are multiplied by the reciprocal of the scale")
    def times_reciprocal(self, y: int, biased: float, scale_next: float) -> float:
        return f32(value16(y) * div32(1.0, scale_next))

    @replaces("word", "D-arith-2", "outputs round half away from 0")
    def half_away(self, biased: float) -> int:
        word = super().word(biased)
        below = value16(word)
        if abs(below) >= abs(biased) or math.isinf(below):
            return word
        above = value16(word + 1)
        return word + 1 if abs(above) - abs(biased) == abs(biased) - abs(below) else word


VARIANTS: tuple[Variant, ...] = (
    *variants_of(Devices),
    Variant("D-olive-52", "an output beyond fp16 is 65504", unit_class=_rounds(Fp16Mode(overflow="saturate"))),
    Variant("D-arith-2", "outputs are truncated to fp16", unit_class=_rounds(Fp16Mode(rounding="truncate"))),
    Variant("D-arith-2", "subnormal outputs become 0", unit_class=_rounds(Fp16Mode(subnormals="flush"))),
    *(each for each in ovp_encoder.VARIANTS if each.unit_class is None),
    *of_part(OliveRequant, "encoder", ovp_encoder.VARIANTS),
)
UNOBSERVABLE = {
    **ovp_encoder.UNOBSERVABLE,
    "D-olive-56": "The port rejects scales and biases that have no result, so no row of a stimulus has them.",
}
