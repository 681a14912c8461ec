"""One field of an encoded tensor: the codes and how to read them."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Field:
    """Unsigned codes of any shape, `bits` bits each; NumPy takes a Field wherever it takes an array."""

    array: np.ndarray  #: unsigned integers, each in [0, 2**bits)
    bits: int  #: of one code
    signed: bool  #: the code stands for a signed value
    meaning: str  #: one line for people

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The codes, as `numpy.asarray(field)` sees them."""
        return np.array(self.array, dtype=dtype, copy=copy)
