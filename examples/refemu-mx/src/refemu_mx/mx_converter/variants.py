"""Other answers to the decisions of mx_converter, and a fault."""

from collections.abc import Sequence

from refemu.arith import Refused
from refemu.units import Variant, choices
from refemu_mx.mx_converter import MxConverter, magnitude


class Dropping(MxConverter):
    """Converter that takes elements that are not numbers as zeros."""

    def block(self, scale_in: int, codes_in: Sequence[int]) -> tuple[int, tuple[int, ...], int]:
        """The block without NaN and infinity."""
        source, _ = self.formats
        if source.specials == "none":
            raise Refused(f"{self.name}: {self.source} has numbers only")
        return super().block(scale_in, tuple(0 if magnitude(source, code) is None else code for code in codes_in))


class OneScale(MxConverter):
    """Converter that gives a block of zeros the scale 1."""

    def block(self, scale_in: int, codes_in: Sequence[int]) -> tuple[int, tuple[int, ...], int]:
        """The right block but for its scale."""
        scale, codes, clipped = super().block(scale_in, codes_in)
        zero = all(magnitude(self.formats[0], code) in ((0, self.formats[0].lsb),) for code in codes_in)
        return (127 if zero and scale != 255 else scale), codes, clipped


class OverFloat32(MxConverter):
    """Converter through float32, in which values from 2**128 on are infinite."""

    def block(self, scale_in: int, codes_in: Sequence[int]) -> tuple[int, tuple[int, ...], int]:
        """The block, with the scale of NaN where a value overflows."""
        parts = [magnitude(self.formats[0], code) or (0, 0) for code in codes_in]
        overflows = any(m.bit_length() + e + scale_in - 127 > 128 for m, e in parts if m)
        return super().block(255 if overflows else scale_in, codes_in)


VARIANTS = (
    *choices("D-mx-1", "rule", "floor", "ceil", "even", "nvidia"),
    Variant("D-mx-2", "a block of zeros has the scale 1", unit_class=OneScale),
    Variant("D-mx-7", "NaN and infinity are taken as zeros", unit_class=Dropping),
)
FAULTS = (Variant("F-mx-12", "values pass through float32", unit_class=OverFloat32),)
