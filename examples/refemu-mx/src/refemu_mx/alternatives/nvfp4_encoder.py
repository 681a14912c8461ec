"""Other answers to the decisions of nvfp4_encoder."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.units import Alternative, Config, choices


def _smallest(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """An encoder that stores the smallest scale instead of zero."""
    return {"scale": np.where(result.scale == 0, np.uint8(1), result.scale)}


def _plus_zero(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """An encoder that has no negative zero."""
    return {"codes": np.where(result.codes == 8, np.uint8(0), result.codes)}


def _zero(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """An encoder that gives a block that is not finite the scale zero."""
    return {"scale": np.where(result.scale == 0x7F, np.uint8(0), result.scale)}


ALTERNATIVES = (
    *choices("D-mx-10", "order", "reciprocal", "division"),
    Alternative("D-mx-11", "the smallest scale stands for zero", answer=_smallest),
    Alternative("D-mx-6", "a negative value that rounds to zero is plus zero", answer=_plus_zero),
    Alternative("D-mx-3", "a block that is not finite has the scale zero", answer=_zero),
)
UNOBSERVABLE = {"D-mx-4": "E2M1 has no code beyond the largest"}
