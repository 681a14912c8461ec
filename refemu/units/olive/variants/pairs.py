"""Variants of a unit's decoders, and parts that the dot product units share."""

from typing import Any

from refemu.units.config import Config
from refemu.units.olive.ovp_decoder import OvpDecoder
from refemu.units.olive.ovp_decoder import variants as ovp_decoder
from refemu.units.variant import Variant

#: decision, what the device does, class of its decoders
DECODERS: tuple[tuple[str, str, type[OvpDecoder]], ...] = (
    ("D-olive-1", "left elements are in the high halves of B", ovp_decoder.LeftHigh),
    ("D-olive-18", "an illegal pair is not flagged", ovp_decoder.NeverIllegal),
    ("D-olive-18", "two identifiers are flagged, one next to magnitude 0 is not", ovp_decoder.TwoIdentifiers),
    ("D-olive-20", "an outlier's exponent beyond its port saturates", ovp_decoder.Saturating),
)


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


def exchanged(decoders: Any, kind: type[OvpDecoder]) -> list[OvpDecoder]:
    """Decoders that are also of another class; with halves swapped those of the second operand only."""
    parts = [type(kind.__name__, (kind, type(each)), {})(each.normal, each.outlier) for each in decoders]
    return [decoders[0], parts[1]] if kind is ovp_decoder.LeftHigh else parts
