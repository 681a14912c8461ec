"""Variants of the decisions of ovp_decoder, and of units with decoders."""

from dataclasses import replace
from typing import Any

from refemu.arith.checks import Refused
from refemu.units import Changes, Config
from refemu.units.olive.ovp_decoder import OUTLIERS, OvpDecoder
from refemu.units.variant import Variant, of_part, overriding


def _other_format(config: Config) -> Config:
    known = OUTLIERS[config["normal"]]
    other = [outlier for outlier in known if outlier != tuple(config["outlier"])]
    if not other:
        raise Refused(f"ovp_decoder: {config['normal']} has one outlier format")
    return Config(**{**config, "outlier": other[0]})


def _narrow(config: Config, inputs: Any, result: Any) -> Any:
    """Exponents of 8-bit pairs in 4 bits."""
    if config["normal"] != "int8":
        raise Refused("ovp_decoder: exponents of 4-bit pairs have 4 bits")
    return {"exponent": result.exponent & 15}


def _left_high(old: OvpDecoder, self: OvpDecoder, pair: int, bias: int) -> Changes:
    low, high = pair & ((1 << self.width) - 1), pair >> self.width
    return old.decode(low << self.width | high, bias)


def _other_flint(old: OvpDecoder, self: OvpDecoder, code: int, partner: int, bias: int) -> tuple[int, int]:
    exponent, integer = old.lane(code, partner, bias)
    other = {(0, 4): (1, 2), (0, 6): (1, 3), (2, 2): (3, 1)}.get((exponent, abs(integer)))
    if self.normal != "flint4" or other is None or self.holds_outlier(code, partner):
        return exponent, integer
    return other[0], -other[1] if integer < 0 else other[1]


def _saturating(old: OvpDecoder, self: OvpDecoder, code: int, partner: int, bias: int) -> tuple[int, int]:
    exponent, integer = old.lane(code, partner, bias)
    exact = bias + ((code >> self.outlier[1]) & ((1 << self.outlier[0]) - 1))
    largest = (1 << self.exponent_bits) - 1
    return (min(exact, largest), integer) if self.holds_outlier(code, partner) else (exponent, integer)


_device = overriding(OvpDecoder)
VARIANTS: tuple[Variant, ...] = (
    _device("D-olive-1: the left element is in the high half", decode=_left_high),
    _device("D-olive-16: 4, 6 and 8 of flint4 are <1, 2>, <1, 3> and <3, 1>", lane=_other_flint),
    _device("D-olive-18: an illegal pair is not flagged", is_illegal=lambda self, left, right: 0),
    _device(
        "D-olive-18: two identifiers are flagged, one next to magnitude 0 is not",
        is_illegal=lambda self, left, right: int(left == right == self.identifier),
    ),
    _device(
        "D-olive-19: the reserved code has exponent 0",
        holds_outlier=lambda old, self, code, partner: old.holds_outlier(code, partner) and code != 0,
    ),
    _device(
        "D-olive-19: a victim has the bias as its exponent",
        lane=lambda old, self, code, partner, bias: (
            (bias, 0) if code == self.identifier else old.lane(code, partner, bias)
        ),
    ),
    _device("D-olive-20: an exponent beyond the port saturates", lane=_saturating),
    Variant("D-olive-14", "8-bit outliers have the other format, E4M3 for E2M5 or back", apply=_other_format),
    Variant("D-olive-20", "exponents of 8-bit pairs have 4 bits", answer=_narrow),
)
TEXTS = {
    "D-olive-1": "left elements are in the high halves of B",
    "D-olive-20": "an outlier's exponent beyond its port saturates",
}
#: variants of the decoders of the operands; the first is one of those of B alone
DECODERS: tuple[Variant, ...] = tuple(
    replace(each, says=TEXTS.get(each.decision, each.says))
    for each in VARIANTS
    if each.unit_class and each.decision in ("D-olive-18", *TEXTS)
)


def of_decoders(unit_class: type[Any], part: str) -> tuple[Variant, ...]:
    """Variants of the decoders of a unit: those of A, then those of B."""
    return *of_part(unit_class, part, DECODERS[:1], first=1), *of_part(unit_class, part, DECODERS[1:])


def other_outliers(config: Config) -> Config:
    """8-bit operands with the outliers of the other preset: E2M5 for E4M3, or back."""
    return Config(**{name: _other(value) for name, value in config.items()})


def _other(value: Any) -> Any:
    """The other operand type, if the value of a parameter is an 8-bit type."""
    if not isinstance(value, str) or ("i8" not in value and "int8" not in value):
        return value
    return value.removesuffix("_repo") if value.endswith("_repo") else f"{value}_repo"


#: for every unit whose decoders have the types of the operands
OTHER_OUTLIERS = Variant("D-olive-14", "8-bit outliers have the other format, E2M5 for E4M3", other_outliers)
