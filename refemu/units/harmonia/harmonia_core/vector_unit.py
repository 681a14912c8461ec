"""The vector unit of harmonia_core: rotary embedding, softmax of scores, activation. [harmonia §IV-A, Fig. 12]"""

import numpy as np

from refemu.arith import fp16, fp32, rotary, tables
from refemu.arith.orders import Sequential
from refemu.units.harmonia.harmonia_core.plan import Shape


def vector(shape: Shape, base: int, words: np.ndarray, position: int) -> np.ndarray:
    """The vector unit on words of FP16 (..., rows, width): whole heads, whole rows of scores, or anything.

    position: of the first row of every matrix. base: of the rotary angles. Returns words of any unsigned dtype.
    """
    if shape.activation == "relu":
        return np.where(words >> 15 == 1, 0, words)
    if shape.activation != "none":
        return tables.table16(shape.activation)[words]
    x = fp16.to_f32(fp16.values(words))
    return fp16.bits(
        fp16.to_f16(_softmax(shape.inner, x, position) if shape.kind == "score" else _turned(shape, base, x, position))
    )


def _turned(shape: Shape, base: int, x: np.ndarray, position: int) -> np.ndarray:
    """The rotary embedding of every head."""
    rows, head_dim = x.shape[-2], shape.head_dim
    heads = x.reshape(-1, x.shape[-1] // head_dim, head_dim)
    cos, sin = (
        np.tile(table.astype(np.float32), (len(heads) // rows, 1))
        for table in rotary.rotary(position + np.arange(rows), head_dim, base)
    )
    return fp32.rotate(heads, cos, sin, shape.rotation == "interleaved").reshape(x.shape)


def _softmax(inner: int, x: np.ndarray, position: int) -> np.ndarray:
    """Query r sees keys 0 to position + r; what it does not see is +0."""
    scale = np.float32(1 / np.sqrt(np.float64(inner)))
    shares = np.zeros_like(x)
    for r in range(x.shape[-2]):
        seen = np.s_[..., r, : position + r + 1]
        shares[seen] = fp32.softmax32(x[seen] * scale, Sequential())
    return shares
