"""Routing of tokens to experts: the choice of a few experts for each token, and their weights [D-arith-33]."""

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16, fp32
from refemu.arith.checks import require_int
from refemu.arith.orders import Sequential

__all__ = ["route"]


def route(logits: ArrayLike, count: int, normalized: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Choose the experts of each token and their weights.

    Parameters
    ----------
    logits : array_like of float32 (tokens, experts)
        Outputs of the router.
    count : int
        Experts of a token, at most their number.
    normalized : bool
        Divide the weights by their sum; False: leave them the shares of all experts.

    Returns
    -------
    chosen : ndarray of int64 (tokens, count)
        Experts, the one with the largest share first; of equal ones the lower number.
    weights : ndarray of float32 (tokens, count)
        Their weights, fp16 values.

    Raises
    ------
    Refused
        `count` is not in [1, experts].
    RefusedType
        `logits` are not float32 rows.
    """
    rows = fp32.require_rows(logits, "route")
    require_int(count, 1, rows.shape[-1], "route", "count")
    shares = fp32.softmax32(rows, order=Sequential())
    chosen = np.argsort(-shares, axis=-1, kind="stable")[..., :count].astype(np.int64)
    weights = np.take_along_axis(shares, chosen, axis=-1)
    if normalized:
        total = np.zeros(weights.shape[:-1], np.float32)
        for place in range(count):
            total = total + weights[..., place]
        weights = weights / total[..., None]
    return chosen, fp16.round16(weights)
