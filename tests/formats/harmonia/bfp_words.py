"""fp16 words for tests of block floating point: all finite ones, the hard ones, all under one exponent."""

import numpy as np
from hypothesis import strategies as st

FINITE = np.array([word for word in range(1 << 16) if word & 0x7C00 != 0x7C00], np.uint16)
EDGE = [0, 1, 2, 0x3FF, 0x400, 0x401, 0x7FF, 0x3BFF, 0x3C00, 0x3C04, 0x3C0C, 0x3FFF, 0x7BFF]
words = st.one_of(
    st.sampled_from([word | sign for word in EDGE for sign in (0, 0x8000)]), st.sampled_from(FINITE.tolist())
)


def within(exponent: int) -> np.ndarray:
    """Where the field of a finite word is not above `exponent`."""
    return np.less_equal(FINITE >> 10 & 31, exponent)


def under(exponent: int) -> np.ndarray:
    """Every finite word whose field is not above `exponent`, with one that has this field."""
    low = FINITE[within(exponent)]
    return np.stack([low, np.full_like(low, exponent << 10)], axis=1)
