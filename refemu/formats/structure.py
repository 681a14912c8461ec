"""Stored fields of a block format, for people: [harmonia §II-B], [harmonia §IV-B], [leankv §4].

Formats are imported when asked for: the package imports this module, whose function has its name, at once.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from refemu.formats.leankv.affine import Affine
    from refemu.formats.presets import Block


class Part(NamedTuple):
    """One stored field."""

    field: str
    bits: int
    per: str  #: what has one such field
    meaning: str


def structure(fmt: "Block") -> list[Part]:
    """List the stored fields of a block format.

    Parameters
    ----------
    fmt : Bfp, GroupInt or HeteroKV
        Format.

    Returns
    -------
    list of Part
        Fields in the order in which the format stores them.
    """
    from refemu.formats.groupint import GroupInt
    from refemu.formats.harmonia.bfp import Bfp

    if isinstance(fmt, Bfp):
        return [
            Part("exponent", 5, f"group of {fmt.group}", "largest fp16 exponent field of the group, bias 15"),
            Part("sign", 1, "element", "1 = negative"),
            Part("mantissa", fmt.mantissa_bits, "element", "magnitude; top bit weighs 2^(max(exponent, 1) - 15)"),
        ]
    if isinstance(fmt, GroupInt):
        group = f"group of {fmt.group}" if fmt.group else "row"
        zero = [Part("zero", fmt.bits, group, "code of 0")] if fmt.zero_point else []
        return [
            Part("code", fmt.bits, "element", "unsigned" if fmt.zero_point else "two's complement"),
            Part("scale", 16, group, "fp16 factor"),
            *zero,
        ]
    return [
        *_vector("key", fmt.key()),
        *_vector("value", fmt.value()),
        Part("score", 32, "token", "fp32, accumulated significance"),
        Part("position", 32, "token", "int32"),
    ]


def _vector(name: str, fmt: "Affine") -> list[Part]:
    from refemu.formats.leankv.affine import META_BITS

    if fmt.bits == 16:
        return [Part(name, 16, "feature", "fp16")]
    group = f"{name}" if fmt.groups == 1 else f"{fmt.groups}th part of a {name}"
    return [
        Part(f"{name} code", fmt.bits, "feature", f"round((x - min) / scale), 0 to {(1 << fmt.bits) - 1}"),
        Part(f"{name} scale", META_BITS[fmt.meta], group, f"{fmt.meta} of (max - min) / {(1 << fmt.bits) - 1}"),
        Part(f"{name} zero", META_BITS[fmt.meta], group, f"{fmt.meta} of -min"),
    ]
