"""Operand types of the units that take pairs, as the oracle of the decoder knows them: normal values and outliers."""

from typing import Any

from tests.oracles.olive import units

KINDS: dict[str, tuple[str, tuple[int, int]]] = {
    "int4": ("int4", (2, 1)),
    "flint4": ("flint4", (2, 1)),
    "int8": ("int8", (4, 3)),
    "int8_repo": ("int8", (2, 5)),
}  #: [olive §3.3, §4.5]; E2M5 in the published code (D-olive-14)


def decoded(word: Any, bias: int, kind: str) -> Any:
    """Exponents, integers and whether the pair is illegal, by the oracle."""
    normal, outlier = KINDS[kind]
    return units.ovp_decoder(int(word), bias, normal, outlier)
