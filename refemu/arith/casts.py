"""The cast to float16: the only `astype(np.float16)` of the package, below every rounding to fp16."""

import numpy as np


def narrow(x: np.ndarray) -> np.ndarray:
    """float16 nearest to float32 or float64 `x`, ties to even, in one rounding from either width: the cast itself.

    All other conversions to fp16 use `fp16.round16`, `round16_of_f64` and `to_f16`.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.asarray(x).astype(np.float16)
