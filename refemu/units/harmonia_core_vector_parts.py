"""The vector unit of harmonia_core: rotary embedding, softmax of scores, activation. [harmonia §IV-A, Fig. 12]"""

import numpy as np

from refemu.arith import fp16, fp32, rotary, tables
from refemu.arith.orders import Sequential
from refemu.units.harmonia_core_parts import Shape


def vector(shape: Shape, base: int, words: np.ndarray, position: int) -> np.ndarray:
    """The vector unit on words of FP16, rows from `position` on: whole heads, whole rows of scores, or anything.

    base: of the rotary angles.
    """
    x = fp16.to_f32(fp16.values(words))
    if shape.kind in ("q", "k"):
        cos, sin = rotary.rotary(position + np.arange(len(words)), shape.head_dim, base)
        heads = x.reshape(len(words), -1, shape.head_dim)
        turned = fp32.rotate(heads, cos.astype(np.float32), sin.astype(np.float32), False)
        return fp16.bits(fp16.to_f16(turned)).reshape(words.shape)
    if shape.kind == "score":
        return _softmax(shape.inner, x, position)
    if shape.activation == "relu":
        return np.where(words >> 15 == 1, 0, words)
    return tables.table16(shape.activation)[words]


def _softmax(inner: int, x: np.ndarray, position: int) -> np.ndarray:
    """Query r sees keys 0 to position + r; what it does not see is +0."""
    scale = np.float32(1 / np.sqrt(np.float64(inner)))
    found = np.zeros(x.shape, np.uint16)
    for r in range(len(x)):
        seen = x[r, :position + r + 1] * scale
        found[r, :len(seen)] = fp16.bits(fp16.to_f16(fp32.softmax32(seen, Sequential())))
    return found
