"""Variants of a unit's decoders, and parts that the dot product units share."""

from dataclasses import replace
from typing import Any

from refemu.units.config import Config
from refemu.units.olive.ovp_decoder import variants as ovp_decoder
from refemu.units.variant import Variant, of_part

TEXTS = {
    "D-olive-1": "left elements are in the high halves of B",
    "D-olive-20": "an outlier's exponent beyond its port saturates",
}
#: variants of the decoders of the operands; the first is one of those of B alone
DECODERS: tuple[Variant, ...] = tuple(
    replace(each, says=TEXTS.get(each.decision, each.says))
    for each in ovp_decoder.VARIANTS
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
