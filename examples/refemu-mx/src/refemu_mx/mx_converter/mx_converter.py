"""The MX converter: a block of one element format to a block of another, rounded once [ocp MX 1.0 §6.3].

A block is decoded to integers times powers of two, never to float32, so no element is rounded twice and none overflows.
"""

from collections.abc import Sequence

from refemu.units import AnyUnit, Changes, Config, Flag, Port, Ports, Unit, constant, decides
from refemu_mx.block_device import BlockDevice
from refemu_mx.elements import ELEMENTS, Element, ElementName
from refemu_mx.mx_converter import cases
from refemu_mx.mx_encoder import BIAS, BLOCK, NAN, Magnitude, Rule, quantize, scale_code

__all__ = ["PAIRS", "UNIT", "MxConverter", "magnitude", "run"]


class MxConverter(BlockDevice):
    """Converter of blocks."""

    name = "mx_converter"
    events = ("convert",)
    source: ElementName = "e4m3"  #: element format of the block
    target: ElementName = "e2m1"  #: element format that it gets
    rule: Rule = "floor"  #: rule of the new scale, as of mx_encoder (D-mx-1)

    @constant
    def formats(self) -> tuple[Element, Element]:
        """Both element formats."""
        return ELEMENTS[self.source], ELEMENTS[self.target]

    @constant
    def ports(self) -> Ports:
        """Ports in this configuration."""
        return Ports(
            inputs=(
                Port("scale_in", 8, meaning="E8M0 code, 255 for NaN"),
                Port("codes_in", self.formats[0].width, BLOCK, meaning="element codes"),
            ),
            outputs=(
                Port("scale", 8, meaning="E8M0 code, 255 for NaN"),
                Port("codes", self.formats[1].width, BLOCK, meaning="element codes"),
                Port("clipped", 1, meaning="an element was beyond the largest"),
            ),
        )

    def convert(self, scale_in: int, codes_in: tuple[int, ...]) -> Changes:
        """A block gets other elements."""
        return self.made(scale_in, codes_in)

    @decides("D-mx-7")
    def block(self, scale_in: int, codes_in: Sequence[int]) -> tuple[int, tuple[int, ...], int]:
        """Scale, codes and whether an element was clipped."""
        source, target = self.formats
        parts = [part for code in codes_in if (part := magnitude(source, code)) is not None]
        if scale_in == NAN or len(parts) < BLOCK:  # D-mx-7
            return NAN, (0,) * BLOCK, 0
        sizes = [(m, e + scale_in - BIAS) for m, e in parts]
        scale = scale_code(target, self.rule, sizes)
        pairs = [
            quantize(target, m, e - scale + BIAS, code >> (source.width - 1) == 1)
            for (m, e), code in zip(sizes, codes_in, strict=True)
        ]
        return scale, tuple(code for code, _ in pairs), int(any(clip for _, clip in pairs))


def magnitude(fmt: Element, code: int) -> Magnitude | None:
    """m and e of an element code without its sign; None of NaN and infinity."""
    sign = code >> (fmt.width - 1)
    if fmt.exp_bits == 0:
        return abs(code - (sign << fmt.width)), fmt.lsb
    size = code & ((1 << (fmt.width - 1)) - 1)
    return None if size > fmt.largest_code else fmt.magnitude(size)


PAIRS: tuple[tuple[ElementName, ElementName], ...] = (
    ("e4m3", "e2m1"),
    ("e5m2", "e4m3"),
    ("e4m3", "e2m3"),
    ("int8", "e2m1"),
    ("e2m1", "e5m2"),
)
UNIT: AnyUnit = Unit(
    unit_class=MxConverter,
    paper="ocp MX 1.0 §6.3",
    meaning="a block of one element format to a block of another, rounded once",
    configs={
        **{f"{one}_{other}": Config(source=one, target=other, rule="floor") for one, other in PAIRS},
        "e4m3_e2m1_nvidia": Config(source="e4m3", target="e2m1", rule="nvidia"),
    },
    cases=cases.cases,
    mark=cases.mark,
    flags={"CLIPPED": Flag(0, "an element is beyond the largest and saturates (D-mx-4)")},
)
run = UNIT.run
