"""Other answers to the decisions of nvfp4_encoder, and faults."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.units import Config, Variant, choices
from refemu_mx.elements import E4M3, Element
from refemu_mx.nvfp4_encoder import Nvfp4Encoder


def _smallest(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """An encoder that stores the smallest scale instead of zero."""
    return {"scale": np.where(result.scale == 0, np.uint8(1), result.scale)}


def _plus_zero(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """An encoder that has no negative zero."""
    return {"codes": np.where(result.codes == 8, np.uint8(0), result.codes)}


def _zero(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """An encoder that gives a block that is not finite the scale zero."""
    return {"scale": np.where(result.scale == 0x7F, np.uint8(0), result.scale)}


class ScaleUp(Nvfp4Encoder):
    """Encoder that rounds scales up, so that no element is beyond the largest."""

    def rounded(self, fmt: Element, value: np.float32) -> tuple[int, bool]:
        """The next code where a scale was rounded down."""
        code, over = super().rounded(fmt, value)
        down = fmt is E4M3 and code < fmt.largest_code and fmt.number(code) < float(value)
        return code + int(down), over


class FixedFactor(Nvfp4Encoder):
    """Encoder that leaves out the factor of the tensor where it scales the elements."""

    def scaled(self, factor: int, x: Sequence[int], scale: np.float32) -> list[np.float32]:
        """Values in units of the scale alone."""
        return super().scaled(0x3F800000, x, scale)


class OneShort(Nvfp4Encoder):
    """Encoder whose comparison ends a lane early."""

    def largest(self, x: Sequence[int]) -> int:
        """The largest magnitude of all lanes but the last."""
        return super().largest(x[:-1])


VARIANTS = (
    *choices("D-mx-10", "order", "reciprocal", "division"),
    Variant("D-mx-11", "the smallest scale stands for zero", answer=_smallest),
    Variant("D-mx-6", "a negative value that rounds to zero is plus zero", answer=_plus_zero),
    Variant("D-mx-3", "a block that is not finite has the scale zero", answer=_zero),
)
UNOBSERVABLE = {"D-mx-4": "E2M1 has no code beyond the largest"}
FAULTS = (
    Variant("F-mx-3", "the last lane is left out of the largest", unit_class=OneShort),
    Variant("F-mx-7", "scales are rounded up", unit_class=ScaleUp),
    Variant("F-mx-8", "the factor is left out of the elements", unit_class=FixedFactor),
)
