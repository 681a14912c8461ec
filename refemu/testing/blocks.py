"""Strategies for what formats make: codebooks, and tensors of every block format from values at its boundaries."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from refemu import formats
from refemu.arith import fp16
from refemu.arith.checks import RefusedType
from refemu.formats import Affine, Bfp, Codebook, GroupInt, KMeans, Ovp
from refemu.testing.strategies import float16s, float32s

NEAR = (0, 1, 2, 3, 4, 5, 6, 7)  #: offsets around a boundary, in quarters of a grid step


def codebooks(bits: int) -> st.SearchStrategy[Codebook]:
    """Codebooks that encode: 2**bits fp16 values in [-1, 1], ascending, some of them equal."""
    return float16s(1 << bits).map(lambda values: Codebook(bits, _ascending(values)))


def _ascending(values: np.ndarray) -> np.ndarray:
    """fp16 words by value; a magnitude above 1 loses its exponent's high bits."""
    words = values.view(np.uint16)
    small = np.where((words & 0x7FFF) > 0x3C00, words & 0xBBFF, words)
    return small[fp16.order_key(small).argsort(kind="stable")]


@st.composite
def _grid_values(draw: st.DrawFn, fmt: Ovp, count: int) -> np.ndarray:
    """float32 in grid units, on and beside the largest normal value, the threshold and the largest outlier."""
    outlier = fmt.outlier
    ends = [0.0, float(fmt.normal.largest)] + (
        [fmt.boundary, float(outlier.smallest), float(outlier.largest)] if outlier else []
    )
    steps = draw(
        st.lists(st.tuples(st.sampled_from(ends), st.sampled_from(NEAR), st.booleans()), min_size=count, max_size=count)
    )
    return np.array([(end + (near - 3) / 4) * (-1 if negative else 1) for end, near, negative in steps], np.float32)


def tensors(fmt: Any, size: int = 8, rows: int = 1) -> st.SearchStrategy[Any]:
    """Tensors of a block format (OvpTensor, BfpTensor, GroupIntTensor, KMeansTensor, AffineTensor) over (rows, size).

    fmt: the format, or the name of a ready one. The values reach the format's boundaries; every tensor is what `encode`
    made. Refused: a format that makes no tensors.
    """
    made = formats.find(fmt) if isinstance(fmt, str) else fmt
    shape = (rows, size)
    if isinstance(made, Ovp):
        return _grid_values(made, rows * size).map(lambda x: made.encode(x.reshape(shape)))
    if isinstance(made, Bfp | KMeans | Affine):
        return float16s(shape).map(made.encode)
    if isinstance(made, GroupInt):
        return float32s(shape).map(lambda x: made.encode(np.clip(x, np.float32(-3e5), np.float32(3e5))))
    raise RefusedType(f"tensors: fmt must be a block format, such as OVP_INT4 or BFP8, got {fmt!r}")
