"""The vector unit of harmonia_core: rotary embedding, softmax of scores, activation. [harmonia §IV-A, Fig. 12]"""

import numpy as np

from refemu.arith import fp16, fp32, rotary, tables
from refemu.arith.orders import Sequential
from refemu.units.declaration import decides
from refemu.units.harmonia.harmonia_core.plan import Shape


@decides("D-harmonia-48")
def vector(shape: Shape, base: int, words: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Apply the vector unit to words of FP16 (..., rows, width): whole heads, rows of scores, or other values.

    positions: one for each row, (rows,) or (..., rows). base: base of the rotary angles. Returns unsigned words.
    """
    if shape.activation == "relu":
        return np.where(words >> 15 == 1, 0, words)
    if shape.activation != "none":
        return tables.table16(shape.activation)[words]
    x = fp16.to_f32(fp16.values(words))
    y = _softmax(shape.inner, x, positions) if shape.kind == "score" else _turned(shape, base, x, positions)
    return fp16.bits(fp16.to_f16(y))


@decides("D-harmonia-29")
def biased(words: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Add biases (..., columns) to words of FP16 (..., rows, columns), each sum rounded once."""
    x, y = (fp16.to_f32(fp16.values(part)) for part in (words, bias))
    return fp16.bits(fp16.to_f16(x + y[..., None, :]))


def _turned(shape: Shape, base: int, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The rotary embedding of every head."""
    head_dim = shape.head_dim
    some, place = np.unique(positions, return_inverse=True)
    count = x.shape[-1] // head_dim
    by_head = np.broadcast_to(place.reshape(positions.shape)[..., None], (*x.shape[:-1], count)).ravel()
    cos, sin = (table.astype(np.float32)[by_head] for table in rotary.rotary(some, head_dim, base))
    return fp32.rotate(x.reshape(-1, 1, head_dim), cos, sin, shape.rotation == "interleaved").reshape(x.shape)


def _softmax(inner: int, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Apply the softmax: the query at position p sees keys 0 to p; the other scores become +0."""
    if positions.ndim > 1:
        return np.stack([_softmax(inner, *part) for part in zip(x, positions, strict=True)])
    scale = np.float32(1 / np.sqrt(np.float64(inner)))
    shares = np.zeros_like(x)
    for r, position in enumerate(positions.tolist()):
        seen = np.s_[..., r, : position + 1]
        shares[seen] = fp32.softmax32(x[seen] * scale, Sequential())
    return shares
