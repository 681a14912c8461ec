"""Variants of the decisions of olive_requant, and of the encoder inside it."""

import math

import numpy as np

from refemu.arith import fp16
from refemu.arith.fp16 import Fp16Mode
from refemu.arith.scalar32 import div32, f32, pattern16, value16
from refemu.units.olive.olive_requant import OliveRequant
from refemu.units.olive.ovp_encoder import variants as ovp_encoder
from refemu.units.variant import Variant, of_part, overriding

DIRECT = "one rounding to fp16, from the exact product and the bias"
FRACTION = 24  #: significant bits of a float32, the hidden one included


def _rounds(mode: Fp16Mode) -> type[OliveRequant]:
    """A stage that rounds its words in another mode."""

    class Other(OliveRequant):
        def word(self, biased: float) -> int:
            return int(fp16.bits(fp16.to_f16(np.float32(biased), mode)))

    return Other


def _sum_truncated(self: OliveRequant, acc: int) -> float:
    drop = max(abs(acc).bit_length() - FRACTION, 0)
    return math.copysign(abs(acc) >> drop << drop, acc)


def _finite_pair(self: OliveRequant, y: int, biased: float, scale_next: float) -> float:
    value = value16(y)
    return div32(math.copysign(fp16.MAX, value) if math.isinf(value) else value, scale_next)


def _fused(self: OliveRequant, acc_f32: float, scale_a: float, scale_w: float) -> float:
    return acc_f32 * f32(scale_a * scale_w)


def _half_away(old: OliveRequant, self: OliveRequant, biased: float) -> int:
    word = old.word(biased)
    below = value16(word)
    if abs(below) >= abs(biased) or math.isinf(below):
        return word
    above = value16(word + 1)
    return word + 1 if abs(above) - abs(biased) == abs(biased) - abs(below) else word


_device = overriding(OliveRequant)
VARIANTS: tuple[Variant, ...] = (
    _device("D-olive-42: a sum that float32 does not hold is truncated", converted=_sum_truncated),
    _device("D-olive-42: the sum is not rounded to float32", converted=lambda self, acc: float(acc)),
    _device(
        "D-olive-42: the sum times one scale, then times the other",
        rescaled=lambda self, acc_f32, scale_a, scale_w: f32(f32(acc_f32 * scale_a) * scale_w),
    ),
    _device("D-olive-52: an infinite output is encoded as 65504", quotient=_finite_pair),
    _device(
        "D-olive-53: a quotient beyond float32 is 0",
        limited=lambda self, quotient: 0.0 if math.isinf(quotient) else quotient,
    ),
    _device(
        "D-olive-54: the pair is made of the float32 output",
        quotient=lambda self, y, biased, scale_next: div32(biased, scale_next),
    ),
    _device(f"D-olive-42: {DIRECT}", rescaled=_fused, biased=lambda self, scaled, bias: scaled + bias),
    _device("D-olive-55: the bias is added in a fused multiply-add", rescaled=_fused),
    _device(
        "D-olive-55: the bias is added to the fp16 word",
        biased=lambda self, scaled, bias: f32(value16(pattern16(scaled)) + bias),
    ),
    _device("D-olive-55: no bias is +0", biased=lambda old, self, scaled, bias: old.biased(scaled, bias or 0.0)),
    _device(
        "D-olive-25: outputs are multiplied by the reciprocal of the scale",
        quotient=lambda self, y, biased, scale_next: f32(value16(y) * div32(1.0, scale_next)),
    ),
    _device("D-arith-2: outputs round half away from 0", word=_half_away),
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
