"""Index MatMul of all heads of an attention in one call. [kllm §III-B, §III-D]"""

import numpy as np

from refemu.arith.jit import kernel
from refemu.arith.kernels.scalars import FP16
from refemu.units.kllm.kernels.index_matmul import kmeans_dense, kmeans_merge, kmeans_sparse


@kernel
def kmeans_heads(a, b, table, size, amounts, bounded, centroids, limits, out):
    """out (M, N) <- rows of A times the B of their head, M / H rows per head, in fp16.

    a, b: arrays as `kmeans_dense`, `kmeans_sparse` and `kmeans_merge` describe them, those of B with a leading axis of
    heads but for its scales. limits: of the rows of one head.
    """
    acc, yes = np.int64(FP16), limits.shape[0] >= 0  # constants would be other signatures
    (index, mask, value, scale), (b_index, starts, places, values, b_scale, b_scale32) = a, b
    rows, outside = limits.shape[0], np.empty((limits.shape[0], out.shape[1]), np.float32)
    counts, units, none = np.empty((0, 0, 0), np.int32), np.empty(0, np.int64), np.empty(0, np.float64)
    totals, shift = np.empty((0, 0), np.int64), np.empty((0, 0), np.float64)
    for h in range(b_index.shape[0]):
        r = h * rows
        m, inside, y = mask[r : r + rows], np.zeros(outside.shape, np.float32), out[r : r + rows]
        left, (right, s, p) = (index[r : r + rows], m, amounts), (b_index[h], starts[h], places[h])
        kmeans_dense(*left, right, s, p, limits, table, size, acc, bounded, yes, inside, counts, units, totals)
        kmeans_sparse(m, value[r : r + rows], right, b_scale32, centroids, s, p, values[h], limits, acc, outside)
        kmeans_merge(inside, scale[r : r + rows], b_scale, outside, shift, none, yes, yes, limits, y)
