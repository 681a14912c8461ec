"""The MatMul of whole tensors: every output by the unit, column after column.

Paper: [kllm §III-B, §III-D].
"""

import numpy as np
from numpy.typing import ArrayLike

from refemu.formats import Codebook, KllmArith, KMeansTensor
from refemu.formats.kllm.kllm_arith import Preset
from refemu.units.kllm.index_matmul.index_matmul import UNIT, IndexMatmul, Result
from refemu.units.kllm.index_matmul.operands import Norm, Scores
from refemu.units.kllm.index_matmul.problem import column, require_problem


def matmul(
    a: KMeansTensor | Scores,
    b: KMeansTensor,
    *,
    preset: Preset | KllmArith = "paper",
    products: Codebook | None = None,
    bias: np.ndarray | None = None,
    norm: Norm | None = None,
    seen: ArrayLike | None = None,
) -> Result:
    """Multiply matrices, y = A x B, a row of A and a column of B at a time: y is float16. [kllm §III-B, §III-D]

    a: vectors of length K, the tokens. b: a matrix whose N vectors, of length K, are the columns (output channels of a
    weight, tokens of K^T); with Scores, a matrix (K, N) with vectors along its other axis (tokens of V). products:
    entry (i << nB) | j for a_i * b_j; by default computed from both codebooks. bias: float16 (N,), added to the
    outputs. norm: of A's rows, whose division is delayed to here. seen: columns that each row sees (the rest is 0); for
    Scores the positions. Raises Refused if the operands do not match, B has outliers with a norm, or zero points with
    Scores, RefusedType for a wrong type or dtype.
    """
    task = require_problem(a, b, preset, products, bias, norm, seen)
    a_bits = 8 if isinstance(a, Scores) else a.codebook.bits
    device = IndexMatmul(task.a.index.shape[1], a_bits, task.b_bits, task.integer, task.arith)
    rows, columns = task.a.index.shape[0], task.b.index.shape[0]
    y = np.zeros((rows, columns), np.uint16)
    for m in range(rows):
        for n in range(columns if task.integer else int(task.seen[m])):
            y[m, n] = device.outputs(column(task, m, n)).y
    words = y.reshape(task.shape)
    counters = {name: getattr(device.state, name) for name in UNIT.counters}
    return Result(y=words.view(np.float16), overflow=words & 0x7C00 == 0x7C00, **counters)
