"""Other answers to the decisions of mx_dot, and faults."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.units import Config, Variant, choices
from refemu_mx.mx_dot import MxDot
from refemu_mx.mx_encoder import NAN


def _infinity(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """A unit whose NaN is the negative one."""
    return {"sum": np.where(result.sum == 0x7FC00000, np.uint32(0xFFC00000), result.sum)}


class NarrowExponent(MxDot):
    """Product whose sum of scales has eight bits and saturates."""

    def product(self, a_scale: int, a: Sequence[int], b_scale: int, b: Sequence[int]) -> int:
        """The product under scales that were cut."""
        if NAN in (a_scale, b_scale):
            return super().product(a_scale, a, b_scale, b)
        both = min(max(a_scale + b_scale - 127, 0), 254)
        return super().product(both, a, 127, b)


class Unsigned(MxDot):
    """Product that takes the sign of its first operand only."""

    def term(self, one: int, other: int) -> tuple[int, int]:
        """Product of an element and a magnitude."""
        m, e = super().term(one, other)
        return (-abs(m) if one >> (self.formats[0].width - 1) else abs(m)), e


def _flushed(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """A unit that flushes subnormal sums to zero."""
    subnormal = result.sum & np.uint32(0x7F800000) == 0
    return {"sum": np.where(subnormal, result.sum & np.uint32(0x80000000), result.sum)}


VARIANTS = (
    *choices("D-mx-8", "accumulate", "exact", "fp32"),
    Variant("D-mx-9", "NaN has a sign", answer=_infinity),
)
FAULTS = (
    Variant("F-mx-9", "the sum of the scales saturates at eight bits", unit_class=NarrowExponent),
    Variant("F-mx-10", "the sign of the second operand is lost", unit_class=Unsigned),
    Variant("F-mx-11", "subnormal sums are flushed to zero", answer=_flushed),
)
