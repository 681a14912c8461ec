"""Decoders that a unit's decoders can be exchanged for, and parts that the dot product units share."""

from typing import Any

from refemu.units.olive.alternatives import ovp_decoder
from refemu.units.olive.ovp_decoder import OvpDecoder

#: decision, what the device does, class of its decoders
DECODERS: tuple[tuple[str, str, type[OvpDecoder]], ...] = (
    ("D-olive-1", "left elements are in the high halves of B", ovp_decoder.LeftHigh),
    ("D-olive-18", "an illegal pair is not flagged", ovp_decoder.NeverIllegal),
    ("D-olive-18", "two identifiers are flagged, one beside magnitude 0 is not", ovp_decoder.TwoIdentifiers),
    ("D-olive-20", "an outlier's exponent beyond its port saturates", ovp_decoder.Saturating),
)


def exchanged(decoders: Any, kind: type[OvpDecoder]) -> list[OvpDecoder]:
    """Decoders that are also of another class; with halves swapped those of the second operand only."""
    parts = [type(kind.__name__, (kind, type(each)), {})(each.normal, each.outlier) for each in decoders]
    return [decoders[0], parts[1]] if kind is ovp_decoder.LeftHigh else parts
