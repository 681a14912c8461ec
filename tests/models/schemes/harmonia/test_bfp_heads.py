"""The kernel that reads packed rows, interpreted and compiled, against NumPy."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refemu.formats.harmonia.bfp_fields import fields_of, pack_rows
from refemu.models.schemes.harmonia.compiled.bfp_heads import packed_rows


def drawn(shape: tuple[int, ...], bits: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << bits, shape).astype(np.uint16)


@settings(deadline=None, max_examples=40)
@given(
    depth=st.integers(1, 70),
    low=st.integers(1, 8),
    more=st.integers(0, 7),
    fallen=st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted),
    compiled=st.booleans(),
)
@example(depth=64, low=4, more=4, fallen=[3, 6], compiled=True)
@example(depth=7, low=4, more=4, fallen=[3, 6], compiled=False)
def test_the_kernel_reads_signed_integers(depth: int, low: int, more: int, fallen: list[int], compiled: bool) -> None:
    """Upper and lower bits, tokens without lower ones in between, one head of two, a part of the tokens."""
    start, stop = fallen
    sign, mantissa = drawn((9, 2, depth), 1, 1), drawn((9, 2, depth), low + more, 2)
    mantissa[start:stop] = mantissa[start:stop] >> more << more
    upper = np.concatenate([pack_rows(sign, 1), pack_rows(mantissa >> more, low)], axis=-1)
    rest = np.delete(pack_rows(mantissa, more), np.s_[start:stop], axis=0)
    fields = [np.array(fields_of(depth, bits), np.int64).reshape(-1, 4) for bits in (low, more)]
    fields[0] += [0, -(-depth // 8), 0, more]
    out = np.full((7, depth), np.nan, np.float32)
    run = packed_rows if compiled else getattr(packed_rows, "py_func", packed_rows)
    run(2, 9, 1, (upper, rest, (start, stop)), tuple(fields), out)

    assert np.array_equal(out, np.where(sign, -1.0, 1.0)[2:, 1] * mantissa[2:, 1])
