"""The MX dot product: two blocks of 32 elements and their scales to one float32 [ocp MX 1.0 §6.2]."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from refemu.units import AnyUnit, Changes, Combinational, Config, Flag, Port, Ports, Unit, constant, decides
from refemu_mx.elements import ELEMENTS, Element, ElementName
from refemu_mx.mx_converter import magnitude
from refemu_mx.mx_dot import cases
from refemu_mx.mx_encoder import BIAS, BLOCK, NAN, nearest

__all__ = ["PAIRS", "UNIT", "MxDot", "Sum", "run", "word32"]

Sum: TypeAlias = Literal["exact", "fp32"]
NAN32, INFINITY32 = 0x7FC00000, 0x7F800000


class MxDot(Combinational):
    """Dot product of two blocks; one event is one product."""

    name = "mx_dot"
    events = ("multiply",)
    counters = {"products": "dot products computed"}
    a: ElementName = "e4m3"  #: element format of the first operand
    b: ElementName = "e4m3"  #: of the second
    accumulate: Sum = "exact"  #: one rounding at the end; "fp32": a float32 addition per lane, lane 0 first (D-mx-8)

    @constant
    def formats(self) -> tuple[Element, Element]:
        """Both element formats."""
        return ELEMENTS[self.a], ELEMENTS[self.b]

    @constant
    def ports(self) -> Ports:
        """Ports in this configuration."""
        return Ports(
            inputs=(
                Port("a_scale", 8, meaning="E8M0 code, 255 for NaN"),
                Port("a_codes", self.formats[0].width, BLOCK, meaning="element codes"),
                Port("b_scale", 8, meaning="E8M0 code, 255 for NaN"),
                Port("b_codes", self.formats[1].width, BLOCK, meaning="element codes"),
            ),
            outputs=(Port("sum", 32, encoding="f32", meaning="dot product"),),
        )

    def multiply(self, a_scale: int, a_codes: tuple[int, ...], b_scale: int, b_codes: tuple[int, ...]) -> Changes:
        """Two blocks are multiplied."""
        return {"sum": self.product(a_scale, a_codes, b_scale, b_codes), "products": 1}

    def product(self, a_scale: int, a: Sequence[int], b_scale: int, b: Sequence[int]) -> int:
        """The float32 pattern of a dot product."""
        if NAN in (a_scale, b_scale):
            return NAN32
        special = self.special(a, b)
        if special is not None:
            return special
        exponent = a_scale + b_scale - 2 * BIAS
        if self.accumulate == "fp32":
            total = self.in_order(a, b)
            m, denominator = abs(total).as_integer_ratio()
            return word32(-m if total < 0 else m, exponent + 1 - denominator.bit_length())
        place = self.formats[0].lsb + self.formats[1].lsb
        whole = 0
        for one, other in zip(a, b, strict=True):
            m, e = self.term(one, other)
            whole += m << (e - place)
        return word32(whole, exponent + place)

    @decides("D-mx-9")
    def special(self, a: Sequence[int], b: Sequence[int]) -> int | None:
        """NaN or infinity where an operand holds one, else None."""
        values = [[fmt.number(code) for code in codes] for fmt, codes in zip(self.formats, (a, b), strict=True)]
        terms = [one * other for one, other in zip(*values, strict=True)]
        signs = {term > 0 for term in terms if term in (np.inf, -np.inf)}
        if any(term != term for term in terms) or len(signs) == 2:
            return NAN32
        return None if not signs else INFINITY32 | (0 if signs == {True} else 1 << 31)

    def in_order(self, a: Sequence[int], b: Sequence[int]) -> float:
        """The sum of exact products, a float32 addition per lane, lane 0 first."""
        total = np.float32(0)
        for one, other in zip(a, b, strict=True):
            m, e = self.term(one, other)
            total = np.float32(total + np.float32(np.ldexp(float(m), e)))
        return float(total)

    def term(self, one: int, other: int) -> tuple[int, int]:
        """Product of two finite elements, as a signed integer times a power of two."""
        m, e, sign = 1, 0, 0
        for fmt, code in zip(self.formats, (one, other), strict=True):
            part = magnitude(fmt, code)
            assert part is not None, "special elements are handled before"
            m, e, sign = m * part[0], e + part[1], sign ^ code >> (fmt.width - 1)
        return (-m if sign else m), e


def word32(m: int, e: int) -> int:
    """The float32 pattern nearest to m * 2**e, ties to even; beyond the largest it is infinity."""
    size = abs(m)
    place = max(size.bit_length() - 1 + e if size else -126, -126) - 23
    code = (place + 149 << 23) + nearest(size, e - place)
    return min(code, INFINITY32) | int(m < 0) << 31


PAIRS: tuple[tuple[ElementName, ElementName], ...] = (
    ("e4m3", "e4m3"),
    ("e5m2", "e5m2"),
    ("e2m1", "e2m1"),
    ("e2m3", "e3m2"),
    ("int8", "e4m3"),
)
UNIT: AnyUnit = Unit(
    unit_class=MxDot,
    paper="ocp MX 1.0 §6.2",
    meaning="the dot product of two blocks",
    configs={
        **{f"{a}_{b}": Config(a=a, b=b, accumulate="exact") for a, b in PAIRS},
        "e5m2_e5m2_fp32": Config(a="e5m2", b="e5m2", accumulate="fp32"),
    },
    cases=cases.cases,
    mark=cases.mark,
    flags={"NOT_FINITE": Flag(0, "the sum is NaN or infinite (D-mx-9)")},
)
run = UNIT.run
