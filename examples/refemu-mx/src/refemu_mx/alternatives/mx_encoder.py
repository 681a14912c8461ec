"""Other answers to the decisions of mx_encoder."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.arith import Refused
from refemu.units import Alternative, Config, choices
from refemu_mx.mx_encoder import MxEncoder


class OneScale(MxEncoder):
    """Encoder that gives a block of zeros the scale 1."""

    def block(self, x: tuple[int, ...]) -> tuple[int, tuple[int, ...], int]:  # type: ignore[override]
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


ALTERNATIVES = (
    *choices("D-mx-1", "rule", "floor", "ceil", "even", "nvidia"),
    Alternative("D-mx-2", "a block of zeros has the scale 1", variant=OneScale),
    Alternative("D-mx-3", "elements of a block that is not finite are all ones", answer=_infinite),
    Alternative("D-mx-4", "beyond the largest stands infinity or NaN", variant=Overflowing),
    Alternative("D-mx-5", "-128 is used where -127 saturates", answer=_lowest),
    Alternative("D-mx-6", "a negative value that rounds to zero is plus zero", answer=_plus_zero),
)
