"""Strategies for the results of formats: codebooks, and tensors of every block format from boundary values."""

from typing import TypeAlias

import numpy as np
from hypothesis import strategies as st

from refemu import formats
from refemu.arith import fp16
from refemu.arith.checks import RefusedType
from refemu.formats import (
    Affine,
    AffineTensor,
    Bfp,
    BfpTensor,
    Codebook,
    GroupInt,
    GroupIntTensor,
    KMeans,
    KMeansTensor,
    Ovp,
    OvpTensor,
)
from refemu.testing.strategies import float16s, float32s

Format: TypeAlias = Ovp | Bfp | GroupInt | KMeans | Affine  #: a block format with tensors
Tensor: TypeAlias = OvpTensor | BfpTensor | GroupIntTensor | KMeansTensor | AffineTensor
NEAR = (0, 1, 2, 3, 4, 5, 6, 7)  #: offsets around a boundary, in quarters of a grid step


def codebooks(bits: int) -> st.SearchStrategy[Codebook]:
    """Strategy for codebooks that encode: fp16 values in [-1, 1], ascending, some of them equal.

    Parameters
    ----------
    bits : int
        Width of an index, 1 to 4.

    Returns
    -------
    SearchStrategy of Codebook
        Codebooks of 2**bits entries.
    """
    return float16s(1 << bits).map(lambda values: Codebook(bits, _ascending(values)))


def _ascending(values: np.ndarray) -> np.ndarray:
    """fp16 words by value; a magnitude above 1 loses its exponent's high bits."""
    words = values.view(np.uint16)
    small = np.where((words & 0x7FFF) > 0x3C00, words & 0xBBFF, words)
    return small[fp16.order_key(small).argsort(kind="stable")]


@st.composite
def _grid_values(draw: st.DrawFn, fmt: Ovp, count: int) -> np.ndarray:
    """float32 in grid units, at and around the largest normal value, the threshold and the largest outlier."""
    outlier = fmt.outlier
    ends = [0.0, float(fmt.normal.largest)] + (
        [fmt.boundary, float(outlier.smallest), float(outlier.largest)] if outlier else []
    )
    steps = draw(
        st.lists(st.tuples(st.sampled_from(ends), st.sampled_from(NEAR), st.booleans()), min_size=count, max_size=count)
    )
    return np.array([(end + (near - 3) / 4) * (-1 if negative else 1) for end, near, negative in steps], np.float32)


def tensors(fmt: Format | str, size: int = 8, rows: int = 1) -> st.SearchStrategy[Tensor]:
    """Strategy for tensors of a block format, from values at the format's boundaries.

    Parameters
    ----------
    fmt : Ovp, Bfp, GroupInt, KMeans, Affine or str
        Format, or the name of a ready one.
    size, rows : int
        Shape (rows, size) of the values.

    Returns
    -------
    SearchStrategy of OvpTensor, BfpTensor, GroupIntTensor, KMeansTensor or AffineTensor
        Results of `encode`.

    Raises
    ------
    Refused
        An unknown name.
    RefusedType
        A format that has no tensors.
    """
    target = formats.find(fmt) if isinstance(fmt, str) else fmt
    shape = (rows, size)
    if isinstance(target, Ovp):
        return _grid_values(target, rows * size).map(lambda x: target.encode(x.reshape(shape)))
    if isinstance(target, Bfp | KMeans | Affine):
        return float16s(shape).map(target.encode)
    if isinstance(target, GroupInt):
        return float32s(shape).map(lambda x: target.encode(np.clip(x, np.float32(-3e5), np.float32(3e5))))
    raise RefusedType(f"tensors: fmt must be a block format, such as OVP_INT4 or BFP8, got {fmt!r}")
