"""The MX encoder: a block of 32 float32 values to one E8M0 scale and 32 element codes [ocp MX 1.0 §6.3]."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from refemu.arith import Refused
from refemu.units import AnyUnit, Changes, Config, Flag, Port, Ports, Unit, constant, decides
from refemu_mx.block_device import BlockDevice
from refemu_mx.elements import ELEMENTS, Element, ElementName

__all__ = [
    "BIAS",
    "BLOCK",
    "NAN",
    "RULES",
    "UNIT",
    "Magnitude",
    "MxEncoder",
    "Rule",
    "element_of",
    "magnitude32",
    "nearest",
    "quantize",
    "run",
    "scale_code",
]

Rule: TypeAlias = Literal["floor", "ceil", "even", "nvidia"]
RULES: tuple[Rule, ...] = ("floor", "ceil", "even", "nvidia")
BLOCK, BIAS, NAN = 32, 127, 255  #: elements of a block; of the scale: bias, and code of NaN
Magnitude: TypeAlias = tuple[int, int]  #: m * 2**e


class MxEncoder(BlockDevice):
    """Encoder of blocks."""

    name = "mx_encoder"
    events = ("encode",)
    element: ElementName = "e4m3"  #: element format
    rule: Rule = "floor"  #: rule of the scale (D-mx-1): "floor" of the specification, or another

    @constant
    def format(self) -> Element:
        """The element format."""
        return ELEMENTS[self.element]

    @constant
    def ports(self) -> Ports:
        """Ports in this configuration."""
        return Ports(
            inputs=(Port("x", 32, BLOCK, encoding="f32", payload=True, meaning="values of the block"),),
            outputs=(
                Port("scale", 8, meaning="E8M0 code, 255 for NaN"),
                Port("codes", self.format.width, BLOCK, meaning="element codes"),
                Port("clipped", 1, meaning="an element was beyond the largest"),
            ),
        )

    def encode(self, x: tuple[int, ...]) -> Changes:
        """A block of values is encoded."""
        return self.made(x)

    @decides("D-mx-3")
    def block(self, x: Sequence[int]) -> tuple[int, tuple[int, ...], int]:
        """Scale, codes and whether an element was clipped, of 32 float32 patterns."""
        if any(word >> 23 & 0xFF == 0xFF for word in x):  # D-mx-3
            return NAN, (0,) * BLOCK, 0
        scale = scale_code(self.format, self.rule, self.parts(x))
        parts = [(*magnitude32(word), word >> 31 == 1) for word in x]
        pairs = [self.code(m, e - scale + BIAS, negative) for m, e, negative in parts]
        return scale, tuple(code for code, _ in pairs), int(any(clip for _, clip in pairs))

    def parts(self, x: Sequence[int]) -> list[Magnitude]:
        """The magnitudes that the scale is made of."""
        return [magnitude32(word) for word in x]

    def code(self, m: int, e: int, negative: bool) -> tuple[int, bool]:
        """Code of one element, m * 2**e of the scale, and whether it was clipped."""
        return quantize(self.format, m, e, negative)


def element_of(name: str, unit: str) -> Element:
    """An element format by name. Refused: an unknown one."""
    if name not in ELEMENTS:
        raise Refused(f"{unit}: element must be one of {', '.join(ELEMENTS)}, got {name!r}")
    return ELEMENTS[name]


def magnitude32(word: int) -> Magnitude:
    """m and e of a finite float32 pattern."""
    field, fraction = word >> 23 & 0xFF, word & 0x7FFFFF
    return (fraction | 1 << 23, field - 150) if field else (fraction, -149)


@decides("D-mx-1", "D-mx-2")
def scale_code(fmt: Element, rule: Rule, parts: Sequence[Magnitude]) -> int:
    """The code of a block's scale; 0 for a block of zeros."""
    m, e = max(parts, key=lambda part: (part[0].bit_length() + part[1] if part[0] else -9999, _aligned(part)))
    if m == 0:
        return 0
    top = m.bit_length() - 1
    exponent = top + e - fmt.emax
    if rule == "ceil":
        exponent += int(m != 1 << top)
    elif rule == "even":
        shift = top - fmt.man_bits - 1
        halves = m >> shift if shift >= 0 else m << -shift
        exponent += int(halves + 1 >> 1 == 2 << fmt.man_bits)
    elif rule == "nvidia":
        largest = fmt.largest[0]
        shift = top - largest.bit_length() + 1
        exponent += int((m << max(-shift, 0)) > largest << max(shift, 0))
    return min(max(exponent + BIAS, 0), 254)


def _aligned(part: Magnitude) -> int:
    """m with its leading one in a fixed place, to compare two of one exponent."""
    return part[0] << (64 - part[0].bit_length())


@decides("D-mx-4", "D-mx-5", "D-mx-6")
def quantize(fmt: Element, m: int, e: int, negative: bool) -> tuple[int, bool]:
    """The nearest code of m * 2**e, ties to even, and whether it was beyond the largest."""
    top = m.bit_length() - 1 + e if m else fmt.emin  # zero is a subnormal number, whatever its e
    place = fmt.lsb if fmt.exp_bits == 0 else max(top, fmt.emin) - fmt.man_bits
    whole = nearest(m, e - place)
    code = (place - fmt.lsb << fmt.man_bits) + whole
    clipped = code > fmt.largest_code
    code = min(code, fmt.largest_code)
    if fmt.exp_bits == 0:  # D-mx-5: both signs end at the same magnitude
        return (-code if negative else code) & 0xFF, clipped
    return code | int(negative) << (fmt.width - 1), clipped  # D-mx-6


def nearest(m: int, shift: int) -> int:
    """The integer nearest to m * 2**shift, ties to even."""
    if shift >= 0:
        return m << shift
    whole, rest = m >> -shift, m & ((1 << -shift) - 1)
    half = 1 << (-shift - 1)
    return whole + int(rest > half or (rest == half and whole & 1 == 1))


UNIT: AnyUnit = Unit(
    unit_class=MxEncoder,
    paper="ocp MX 1.0 §6.3",
    meaning="a block of float32 values to a shared scale and element codes",
    configs={
        **{f"{name}": Config(element=name, rule="floor") for name in ELEMENTS},
        **{f"{name}_{rule}": Config(element=name, rule=rule) for name in ("e4m3", "e2m1") for rule in RULES[1:]},
    },
    flags={
        "CLIPPED": Flag(0, "an element is beyond the largest and saturates (D-mx-4)"),
        "NOT_FINITE": Flag(1, "a value is NaN or infinite (D-mx-3)"),
    },
)
run = UNIT.run
