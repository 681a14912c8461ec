"""Other answers to the decisions of mx_encoder, and faults that encoders of this kind have had."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.arith import Refused
from refemu.units import Config, Variant, choices
from refemu_mx.mx_encoder import MxEncoder


class OneScale(MxEncoder):
    """Encoder that gives a block of zeros the scale 1."""

    def block(self, x: Sequence[int]) -> tuple[int, tuple[int, ...], int]:
        """The right block but for its scale."""
        scale, codes, clipped = super().block(x)
        return (127 if all(word & 0x7FFFFFFF == 0 for word in x) else scale), codes, clipped


class Overflowing(MxEncoder):
    """Encoder that gives infinity, or NaN where there is none, beyond the largest element."""

    def code(self, m: int, e: int, negative: bool) -> tuple[int, bool]:
        """The code after the largest one."""
        if self.format.specials == "none":
            raise Refused(f"{self.name}: {self.element} has no code beyond the largest")
        code, clipped = super().code(m, e, negative)
        return code + int(clipped), clipped


def _infinite(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """An encoder that gives elements of a block that is not finite all ones."""
    bad = (inputs["x"] >> np.uint32(23) & np.uint32(0xFF) == 0xFF).any(axis=-1)
    largest = np.array((1 << {"e5m2": 8, "e4m3": 8, "int8": 8, "e2m1": 4}.get(config["element"], 6)) - 1)
    return {"codes": np.where(bad[..., None], largest.astype(result.codes.dtype), result.codes)}


def _lowest(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """An encoder that uses the code -128 where -127 saturated."""
    if config["element"] != "int8":
        raise Refused("mx_encoder: only integers have a code below the negative of the largest")
    negative = inputs["x"] >> np.uint32(31) == 1
    full = (result.codes == 0x81) & negative & result.clipped[..., None]
    return {"codes": np.where(full, np.uint8(0x80), result.codes)}


def _plus_zero(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """An encoder that has no negative zero."""
    if config["element"] == "int8":
        raise Refused("mx_encoder: integers have one zero")
    sign = 1 << ({"e5m2": 8, "e4m3": 8, "e2m1": 4}.get(config["element"], 6) - 1)
    return {"codes": np.where(result.codes == sign, np.uint8(0), result.codes)}


class FloatLogarithm(MxEncoder):
    """Encoder whose exponent is floor(log2(x)) in float32: just below a power of two the logarithm rounds up to it."""

    def parts(self, x: Sequence[int]) -> list[tuple[int, int]]:
        """The magnitude of a mantissa of ones is that of the next power of two."""
        return [(m + 1, e) if m & 0x7FFFFF == 0x7FFFFF else (m, e) for m, e in super().parts(x)]


class Signed(MxEncoder):
    """Encoder that compares with the sign."""

    def parts(self, x: Sequence[int]) -> list[tuple[int, int]]:
        """Magnitudes of the positive values; of all where there is none."""
        positive = [word for word in x if word >> 31 == 0]
        return super().parts(positive or x)


class OneShort(MxEncoder):
    """Encoder whose comparison ends a lane early."""

    def parts(self, x: Sequence[int]) -> list[tuple[int, int]]:
        """Magnitudes of all lanes but the last."""
        return super().parts(x[:-1])


class Flushing(MxEncoder):
    """Encoder that takes subnormal values as zeros."""

    def block(self, x: Sequence[int]) -> tuple[int, tuple[int, ...], int]:
        """The block of normal values."""
        return super().block([word if word >> 23 & 0xFF else word & 0x80000000 for word in x])


class HalfAway(MxEncoder):
    """Encoder that adds half a place before it cuts: ties go away from zero."""

    def code(self, m: int, e: int, negative: bool) -> tuple[int, bool]:
        """The code of a magnitude that is larger by less than the next float32."""
        return super().code((m << 1 | 1) if m else 0, e - 1, negative)


class NoSubnormals(MxEncoder):
    """Encoder that has no subnormal elements."""

    def code(self, m: int, e: int, negative: bool) -> tuple[int, bool]:
        """Zero below the smallest normal element."""
        if self.format.exp_bits == 0:
            raise Refused(f"{self.name}: integers have no subnormal numbers")
        code, clipped = super().code(m, e, negative)
        sign = code & 1 << (self.format.width - 1)
        return (code if code - sign >> self.format.man_bits else sign), clipped


VARIANTS = (
    *choices("D-mx-1", "rule", "floor", "ceil", "even", "nvidia"),
    Variant("D-mx-2", "a block of zeros has the scale 1", unit_class=OneScale),
    Variant("D-mx-3", "elements of a block that is not finite are all ones", answer=_infinite),
    Variant("D-mx-4", "beyond the largest is infinity or NaN", unit_class=Overflowing),
    Variant("D-mx-5", "-128 is used where -127 saturates", answer=_lowest),
    Variant("D-mx-6", "a negative value that rounds to zero is plus zero", answer=_plus_zero),
)
FAULTS = (
    Variant(
        "F-mx-1", "the exponent is a float32 logarithm, rounded up below a power of two", unit_class=FloatLogarithm
    ),
    Variant("F-mx-2", "the largest value is compared with its sign", unit_class=Signed),
    Variant("F-mx-3", "the last lane is left out of the largest", unit_class=OneShort),
    Variant("F-mx-4", "subnormal values are taken as zeros", unit_class=Flushing),
    Variant("F-mx-5", "ties go away from zero", unit_class=HalfAway),
    Variant("F-mx-6", "subnormal elements are flushed to zero", unit_class=NoSubnormals),
)
