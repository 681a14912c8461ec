"""Raw arrays for C and CUDA: C order, little-endian, no header; one file per array."""

from collections.abc import Mapping

import numpy as np


def files(arrays: Mapping[str, np.ndarray]) -> dict[str, bytes]:
    """`<array>.bin` -> bytes."""
    return {
        f"{name}.bin": np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        for name, array in arrays.items()
    }
