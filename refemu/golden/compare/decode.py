"""A code in hex, in bits split into fields, and as a value in the port's format."""

from dataclasses import dataclass

import numpy as np

from refemu import formats
from refemu.arith.checks import Refused
from refemu.golden.files import fields
from refemu.units.ports import Port

_SPLIT = {"f16": (1, 5, 10), "f32": (1, 8, 23)}
_FLOAT = {"f16": np.float16, "f32": np.float32}


@dataclass(frozen=True)
class Value:
    """Code at a port as hex, as bits and decoded."""

    hex: str  #: hexadecimal digits
    bits: str  #: most significant first, fields apart
    decoded: str  #: value for people


def value(code: int, port: Port, unknown: int = 0) -> Value:
    """`code` of one lane of `port`; bits of `unknown` were x or z."""
    bits = f"{code:0{port.bits}b}"
    if unknown:
        shown = "".join("x" if mark == "1" else bit for bit, mark in zip(bits, f"{unknown:0{port.bits}b}", strict=True))
        return Value(_hex_with_x(code, port.bits, unknown), _grouped(shown), "unknown")
    described = _described(code, port)
    return Value(f"0x{code:0{-(-port.bits // 4)}x}", _split(bits, port, described), described)


def _hex_with_x(code: int, bits: int, unknown: int) -> str:
    digits = range(-(-bits // 4) - 1, -1, -1)
    return "0x" + "".join("x" if unknown >> 4 * at & 15 else f"{code >> 4 * at & 15:x}" for at in digits)


def _described(code: int, port: Port) -> str:
    """The value of a number, or the description of a code by the port's format."""
    if port.kind in _FLOAT:
        return str(np.array(code, fields.dtype_of(port.bits)).view(_FLOAT[port.kind]))
    fmt = None if port.kind in ("uint", "int") else formats.constants().get(port.kind.upper())
    if fmt is None:
        return str(fields.decode(np.array(code, fields.dtype_of(port.bits)), port).item())
    try:
        return fmt.describe(code)
    except Refused as refusal:  # a code that the format lacks
        return str(refusal)


def _split(bits: str, port: Port, described: str) -> str:
    """Bits with spaces between the fields of a float or of a format that shows them, else between nibbles."""
    if port.kind in _SPLIT:
        sign, exponent, _ = _SPLIT[port.kind]
        return f"{bits[:sign]} {bits[sign : sign + exponent]} {bits[sign + exponent :]}"
    name = described.partition("=")[0].strip()
    return name if name.replace(" ", "") == bits else _grouped(bits)


def _grouped(bits: str) -> str:
    head = len(bits) % 4
    return " ".join(part for part in (bits[:head], *(bits[at : at + 4] for at in range(head, len(bits), 4))) if part)
