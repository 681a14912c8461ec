"""Other answers to the decisions of mx_dot."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.units import Alternative, Config, choices


def _infinity(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """A unit whose NaN is the negative one."""
    return {"sum": np.where(result.sum == 0x7FC00000, np.uint32(0xFFC00000), result.sum)}


ALTERNATIVES = (
    *choices("D-mx-8", "accumulate", "exact", "fp32"),
    Alternative("D-mx-9", "NaN has a sign", answer=_infinity),
)
