"""Variants of the decisions of outlier_decoder."""

from refemu.arith.checks import Refused
from refemu.units import Changes, Config, Variant
from refemu.units.olive.outlier_decoder import UNIT, OutlierDecoder
from refemu.units.variant import overriding

_OTHER = {(4, 3): (2, 5), (2, 5): (4, 3)}


def _other_format(config: Config) -> Config:
    sizes = config["exp_bits"], config["man_bits"]
    if sizes not in _OTHER:
        raise Refused("outlier_decoder: codes of 4 bits have one format")
    exp_bits, man_bits = _OTHER[sizes]
    bits = UNIT.ports(config).outputs[0].bits
    return Config(**{**config, "exp_bits": exp_bits, "man_bits": man_bits, "exponent_bits": bits})


def _zero_of_reserved(old: OutlierDecoder, self: OutlierDecoder, code: int, bias: int) -> Changes:
    changes = old.decode(code, bias)
    return changes if changes["base_int"] else {**changes, "exponent": 0}


def _saturating(old: OutlierDecoder, self: OutlierDecoder, code: int, bias: int) -> Changes:
    exact = bias + ((code >> self.man_bits) & ((1 << self.exp_bits) - 1))
    return {**old.decode(code, bias), "exponent": min(exact, (1 << self.shift_bits) - 1)}


_device = overriding(OutlierDecoder)
VARIANTS: tuple[Variant, ...] = (
    Variant("D-olive-14", "8-bit outliers have the other format, E4M3 for E2M5 or back", apply=_other_format),
    _device("D-olive-19: the reserved code has exponent 0", decode=_zero_of_reserved),
    _device("D-olive-20: an exponent beyond the port saturates", decode=_saturating),
)
