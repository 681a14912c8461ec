"""Words of fp16, and what a mode must make of an exact result."""

import itertools
from bisect import bisect_right
from fractions import Fraction

import numpy as np

from refemu.arith import fp16, prng
from refemu.arith.fp16 import Fp16Mode
from tests.oracles import fp16 as oracle

WORDS = np.arange(1 << 16, dtype=np.uint16)
FINITE = WORDS[WORDS >> 10 & 31 != 31]
VALUES = FINITE.view(np.float16)
MODES = [
    Fp16Mode(*choice) for choice in itertools.product(("half_even", "truncate"), ("inf", "saturate"), ("keep", "flush"))
]
#: zeros, ends of the subnormals, 2**-14 +- 1 ulp, ones, odd and even fractions, the largest, infinity, NaN; both signs
EDGES = [w | s for s in (0, 0x8000) for w in (
    0, 1, 2, 3, 0x1FF, 0x200, 0x3FE, 0x3FF, 0x400, 0x401, 0x7FE, 0x7FF, 0x800, 0x1400, 0x37FF, 0x3BFF, 0x3C00, 0x3C01,
    0x3C02, 0x3FFF, 0x4000, 0x4200, 0x6400, 0x6BFF, 0x7800, 0x7BFE, 0x7BFF, 0x7C00, 0x7E00)]  # fmt: skip
LADDER = [int(Fraction(oracle.to_float(u)) * 2**24) for u in range(0x7C00)]  # the finite magnitudes, in 2**-24


def words_of(x):
    """The words of fp16-valued float32, NaN canonical."""
    return fp16.bits(fp16.to_f16(x))


def random_words(label, count):
    return (prng.words(prng.stream(label, 0), 0, count) & np.uint64(0xFFFF)).astype(np.uint16)


def expected_magnitude(exact, ieee, mode):
    """Magnitude bits of a result: `exact` its magnitude where it is finite and not NaN, `ieee` the default answer."""
    if ieee > 0x7C00:
        return 0x7E00
    if exact is not None and mode.truncates:
        ieee = bisect_right(LADDER, exact * 2**24) - 1
    if mode.overflow == "saturate":
        ieee = min(ieee, 0x7BFF)
    return 0 if mode.flushes and ieee < 0x400 else ieee
