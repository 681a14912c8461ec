"""The NVFP4 encoder: 16 float32 values to one E4M3 scale and 16 E2M1 codes, under one float32 factor of the tensor.

[nvfp4] The factor is 448 * 6 divided by the largest magnitude of the tensor; who has the tensor computes it once.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from refemu.units import AnyUnit, Changes, Config, Flag, Port, Ports, Unit, constant, decides
from refemu_mx.block_device import BlockDevice
from refemu_mx.elements import E2M1, E4M3, Element
from refemu_mx.mx_encoder import magnitude32, quantize
from refemu_mx.nvfp4_encoder import cases

__all__ = ["UNIT", "Nvfp4Encoder", "Order", "run"]

Order: TypeAlias = Literal["reciprocal", "division"]
BLOCK, NAN = 16, 0x7F  #: elements of a block; E4M3 code of NaN


class Nvfp4Encoder(BlockDevice):
    """Encoder of blocks."""

    name = "nvfp4_encoder"
    events = ("encode",)
    order: Order = "reciprocal"  #: x * (factor / scale); "division": (x * factor) / scale (D-mx-10)

    @constant
    def ports(self) -> Ports:
        """Ports in any configuration."""
        return Ports(
            inputs=(
                Port("factor", 32, encoding="f32", most=0x7F800000, meaning="factor of the tensor, not negative"),
                Port("x", 32, BLOCK, encoding="f32", payload=True, meaning="values of the block"),
            ),
            outputs=(
                Port("scale", 8, meaning="E4M3 code, 0x7f for NaN"),
                Port("codes", 4, BLOCK, meaning="E2M1 codes"),
                Port("clipped", 1, meaning="the scale or an element was beyond the largest"),
            ),
        )

    def encode(self, factor: int, x: tuple[int, ...]) -> Changes:
        """A block of values is encoded."""
        return self.made(factor, x)

    @decides("D-mx-3", "D-mx-11")
    def block(self, factor: int, x: Sequence[int]) -> tuple[int, tuple[int, ...], int]:
        """Scale, codes and whether an element or the scale was clipped."""
        if any(word >> 23 & 0xFF == 0xFF for word in (factor, *x)):  # D-mx-3
            return NAN, (0,) * BLOCK, 0
        with np.errstate(over="ignore", under="ignore"):
            top = _float(self.largest(x))
            scale, over = self.rounded(E4M3, top / np.float32(6) * _float(factor))
            if scale == 0:  # D-mx-11
                return 0, tuple(word >> 31 << 3 for word in x), 0
            pairs = [self.rounded(E2M1, each) for each in self.scaled(factor, x, np.float32(E4M3.number(scale)))]
        return scale, tuple(code for code, _ in pairs), int(over or any(clip for _, clip in pairs))

    @decides("D-mx-10")
    def scaled(self, factor: int, x: Sequence[int], scale: np.float32) -> list[np.float32]:
        """Values in units of the scale, by float32 operations."""
        if self.order == "division":
            return [_float(word) * _float(factor) / scale for word in x]
        ratio = _float(factor) / scale
        return [_float(word) * ratio for word in x]

    def largest(self, x: Sequence[int]) -> int:
        """The largest magnitude, as a float32 pattern."""
        return max(word & 0x7FFFFFFF for word in x)

    def rounded(self, fmt: Element, value: np.float32) -> tuple[int, bool]:
        """The nearest code, ties to even, and whether it saturated; infinity does."""
        word = int(value.view(np.uint32))
        m, e = magnitude32(word) if word >> 23 & 0xFF != 0xFF else (1, 200)
        return quantize(fmt, m, e, word >> 31 == 1)


def _float(word: int) -> np.float32:
    return np.uint32(word).view(np.float32)


UNIT: AnyUnit = Unit(
    unit_class=Nvfp4Encoder,
    paper="nvfp4",
    meaning="a block of float32 values to an E4M3 scale and E2M1 codes",
    configs={"reciprocal": Config(order="reciprocal"), "division": Config(order="division")},
    cases=cases.cases,
    mark=cases.mark,
    flags={
        "CLIPPED": Flag(0, "the scale or an element is beyond the largest and saturates (D-mx-4)"),
        "NO_SCALE": Flag(1, "the scale rounds to zero (D-mx-11)"),
    },
)
run = UNIT.run
