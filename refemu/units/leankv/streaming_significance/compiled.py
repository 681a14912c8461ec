"""Compiled form of streaming_significance over whole prompts, by NumPy: all queries and heads of a tile at once.

Paper: [leankv §7.4].
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.fp32 import exp32
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.leankv.significance import compiled as significance
from refemu.units.leankv.streaming_significance import UNIT, StreamingSignificance


@compiled_run(UNIT)
def run(device: StreamingSignificance, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Run all prompts."""
    n, heads = device.tokens, device.heads
    logits = np.ascontiguousarray(inputs[0]).astype(np.uint32, copy=False).view(np.float32).reshape(-1, n, heads, n)
    visible = np.tril(np.ones((n, n), np.bool_))[:, None]
    with np.errstate(all="ignore"):
        top, norm, exps, products, adds = _normalized(device, logits, visible)
        p = exp32(logits - top[..., None]) / norm[..., None]
        sums = np.zeros((len(logits), device.sums, n), np.float32)
        significance.add_rows(device, sums, np.where(visible, p, np.float32(0)), 0)
        result = significance.finish(device, sums)
    rows = np.arange(n)
    counted = rows[rows >= n - min(device.score_queries or n, n)] + device.include_self
    again = int(counted.sum(dtype=np.int64)) * heads * len(logits)
    for port, output in zip(device.ports.outputs + device.ports.state[:4], outputs, strict=False):
        output[...] = getattr(result, port.name).reshape(output.shape)
    for output, values in zip(outputs[-3:-1], (top, norm), strict=True):
        output[...] = values.view(np.uint32).reshape(output.shape)
    outputs[-1][...] = device.passes
    additions, divisions = int(result.adds) + adds, int(result.divisions) + again
    return [additions, int(result.comparisons), divisions, exps + again, products]


def _normalized(
    device: StreamingSignificance, logits: np.ndarray, visible: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int, int, int]:
    """Maxima and sums (D, N, G) of exponentials; counts of exponentials, products and additions."""
    online, shape = device.rescale == "online", logits.shape[:-1]
    top, norm = np.full(shape, -np.inf, np.float32), np.zeros(shape, np.float32)
    masked = np.where(visible, logits, np.float32(-np.inf))
    if not online:
        top = masked.max(axis=-1)
    exps = products = adds = 0
    for first in range(0, device.tokens, device.keys):
        tile, rows = masked[..., first : first + device.keys], np.arange(device.tokens) >= first
        largest = np.maximum(top, tile.max(axis=-1))
        if online:
            corrected = norm * exp32(top - largest)
            norm = np.where(rows[:, None], corrected, norm)
            lanes = int(np.count_nonzero(rows)) * device.heads * len(logits)
            exps, products = exps + lanes, products + lanes
        for key in range(tile.shape[-1]):
            seen = visible[..., first + key]
            norm = np.where(seen, norm + exp32(np.where(seen, tile[..., key] - largest, np.float32(0))), norm)
            lanes = int(np.count_nonzero(seen)) * device.heads * len(logits)
            exps, adds = exps + lanes, adds + lanes
        top = np.where(rows[:, None], largest, top)
    return top, norm, exps, products, adds
