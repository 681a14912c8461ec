"""Index MatMul of all heads of an attention in one call. [kllm §III-B, §III-D]"""

import numpy as np

from refemu.arith.jit import kernel
from refemu.arith.kernels.scalars import FP16
from refemu.units.kllm.kernels.index_matmul import kmeans_dense, kmeans_merge, kmeans_sparse


@kernel
def kmeans_heads(
    index,
    mask,
    value,
    scale,
    b_index,
    starts,
    places,
    values,
    b_scale,
    b_scale32,
    table,
    size,
    amounts,
    bounded,
    centroids,
    limits,
    out,
):
    """out (M, N) <- rows of A times the B of their head, M / H rows per head, in fp16.

    As `kmeans_dense`, `kmeans_sparse` and `kmeans_merge` describe their arrays, those of B with a leading axis of heads
    but for its scales. limits: of the rows of one head.
    """
    rows, columns = limits.shape[0], out.shape[1]
    outside, none = np.empty((rows, columns), np.float32), np.empty(0, np.float64)
    counts, units = np.empty((0, 0, 0), np.int32), np.empty(0, np.int64)
    totals, shift = np.empty((0, 0), np.int64), np.empty((0, 0), np.float64)
    for h in range(b_index.shape[0]):
        r = h * rows
        codes, apart, x = index[r : r + rows], mask[r : r + rows], value[r : r + rows]
        b, s, p, v = b_index[h], starts[h], places[h], values[h]
        inside = np.zeros((rows, columns), np.float32)
        kmeans_dense(
            codes, apart, amounts, b, s, p, limits, table, size, FP16, bounded, True, inside, counts, units, totals
        )
        kmeans_sparse(apart, x, b, b_scale32, centroids, s, p, v, limits, FP16, outside)
        kmeans_merge(inside, scale[r : r + rows], b_scale, outside, shift, none, True, True, limits, out[r : r + rows])
