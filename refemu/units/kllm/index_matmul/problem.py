"""Validated inputs of an index MatMul, for the unit and its compiled form, and a view of each output column.

Paper: [kllm §III-B, §III-D, Fig. 5].
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, reject
from refemu.arith.operands import Precision
from refemu.formats import Codebook, KllmArith, KMeansTensor, cartesian
from refemu.formats.kllm.kllm_arith import Preset
from refemu.formats.kllm.kmeans_norm import folds, quotient16
from refemu.units.kllm.index_matmul import operands
from refemu.units.kllm.index_matmul.arithmetic import dequantized, floats, joint_scale, r16
from refemu.units.kllm.index_matmul.operands import NAME, Dequantize, Norm, Scores, Vectors

#: ports with one lane for any k
SINGLE = frozenset(("a_scale", "b_scale", "shift", "row_sum", "bias"))


class Column(NamedTuple):
    """Operands of one output: A's row and B's column along K, and those of the merge.

    For many outputs between the ports, arrays have leading axes, and `scale` is an array.
    """

    a: np.ndarray  #: (K,) indices of A, or the integers
    b: np.ndarray  #: (K,) indices of B
    left_out: np.ndarray  #: (K,) bool: excluded from the dense path
    a_value: np.ndarray  #: (K,) float32, fp16 values that the sparse path reads
    b_value: np.ndarray
    table: np.ndarray  #: float32: the product codebook, or B's centroids
    scale: Any  #: scale of the dense part, float
    zeros: tuple[float, float] = (0.0, 0.0)
    centroids: tuple[np.ndarray, ...] = ()  #: centroids of A and B, with zero points only
    bias: Any = None  #: float, or None
    shift: tuple[Any, Any] | None = None  #: LayerNorm, rounding accumulators: h and R_n, fp16 values as float64
    norm: tuple[float, float, float] | None = None  #: (divisor, mean, R_n) of the exact accumulator


@dataclass(frozen=True, eq=False)
class Problem:
    """Checked arguments of a whole MatMul."""

    a: Vectors  #: rows of A
    b: Vectors  #: columns of B
    table: np.ndarray  #: float32: the product codebook, or B's centroids
    arith: KllmArith  #: arithmetic
    integer: bool  #: whether A holds integers
    b_bits: int  #: width of an index of B
    seen: np.ndarray  #: (M,) columns (for integers positions) that each row sees
    shape: tuple[int, ...]  #: shape of the result
    norm: Norm | None  #: norm of A's rows, applied afterwards
    bias: np.ndarray | None  #: float64 (N,)
    centroids: tuple[np.ndarray, np.ndarray]  #: centroids of A and B

    @property
    def zeros(self) -> bool:
        """Whether an operand has zero points."""
        return self.a.zero is not None or self.b.zero is not None

    @cached_property
    def limits(self) -> np.ndarray:
        """Positions and columns that each row sees, int64 (M, 2)."""
        whole = np.full(self.seen.shape, len(self.b.index) if self.integer else self.a.index.shape[1], np.int64)
        return np.stack([self.seen, whole] if self.integer else [whole, self.seen], axis=1)

    @cached_property
    def divided(self) -> tuple[np.ndarray, np.ndarray]:
        """Scales of A, float64 (M,), and centroids of B, float32 (M or 1, 2**nB), for the two paths.

        A delayed norm divides both (D-kllm-37), in index_norm or else here.
        """
        scale, centroids, norm = self.a.scale, self.centroids[1][None], self.norm
        if norm is None or not folds(self.arith):
            return scale, centroids
        divisor = np.asarray(norm.divisor, np.float64).reshape(-1)
        folded = quotient16(scale, divisor) if norm.folded is None else norm.folded
        divided = quotient16(centroids, divisor[:, None]) if norm.divided is None else norm.divided
        return folded.reshape(-1).astype(np.float64), divided.reshape(divisor.size, -1).astype(np.float32)

    @cached_property
    def shift(self) -> tuple[np.ndarray, np.ndarray] | None:
        """LayerNorm with a rounding accumulator: h of the rows and R_n of the columns, fp16 values as float64."""
        norm = self.norm
        if norm is None or norm.mean is None or norm.row_sum is None or not folds(self.arith):
            return None
        h = quotient16(norm.mean, norm.divisor) if norm.shift is None else norm.shift
        return h.reshape(-1).astype(np.float64), r16(np.asarray(norm.row_sum, np.float64))

    def values(self, m: int, n: int) -> np.ndarray:
        """Values of B for the sparse path of output (m, n): fp16 values as float32 (K,)."""
        if self.integer or self.b.zero is not None or self.b.mask[n].any():
            return self.b.value[n]
        divided = self.divided[1]
        centroids = divided[min(m, len(divided) - 1)].astype(np.float64)
        return r16(self.b.scale[n] * centroids[self.b.index[n]]).astype(np.float32)

    def finish(self, m: int, n: int) -> tuple[float, float, float] | None:
        """Divisor, mean and R_n of an output for the exact accumulator, which subtracts mean * R_n, then divides.

        None without a norm or with a rounding accumulator.
        """
        if self.norm is None or folds(self.arith):
            return None
        mean = 0.0 if self.norm.mean is None else float(self.norm.mean.reshape(-1)[m])
        row_sum = 0.0 if self.norm.row_sum is None else float(self.norm.row_sum[n])
        return float(self.norm.divisor.reshape(-1)[m]), mean, row_sum


@lru_cache(maxsize=1024)
def _products(a: Codebook, b: Codebook, table: Precision) -> Codebook:
    """`cartesian`, computed once for two codebooks, as it would be offline."""
    return cartesian(a, b, table)


def require_problem(
    a: KMeansTensor | Scores,
    b: KMeansTensor,
    preset: Preset | KllmArith,
    products: Codebook | None,
    bias: np.ndarray | None,
    norm: Norm | None,
    seen: ArrayLike | None,
    right: Vectors | None = None,
    dequantize: Dequantize = KMeansTensor.dequantize_fp16,
) -> Problem:
    """Check the arguments of `matmul`; raises Refused or RefusedType if the operands do not match. [kllm §III-B]

    bias: float16 (N,). seen: columns that each row sees. right: columns of `b`, if laid out in advance. dequantize:
    reads the values of a tensor as float16.
    """
    arith, integer = KllmArith.preset(preset), isinstance(a, Scores)
    if isinstance(a, Scores):
        left, lead = operands.scores_of(a, arith, b), a.scale.shape
        if products is not None:
            raise Refused(f"{NAME}: products must be None for scores, got a codebook")
        right, table = right or operands.columns_under(b), b.codebook.centroids
        codebooks = table, table
    else:
        left, lead, right = operands.vectors_of(a, dequantize), a.vectors, right or operands.vectors_of(b, dequantize)
        book = products if products is not None else _products(a.codebook, b.codebook, arith.table)
        table = operands.require_products(book, a.codebook, b.codebook).centroids
        codebooks = a.codebook.centroids, b.codebook.centroids
    values = operands.require_operands(left, right, norm, bias, integer, b.codebook.values.size)
    operands.require_finite(left, right, arith, codebooks)
    most = left.index.shape[1] if integer else right.index.shape[0]
    rows = operands.require_seen(seen, left.index.shape[0], most)
    bits, shape = b.codebook.bits, (*lead, right.index.shape[0])
    return Problem(left, right, table, arith, integer, bits, rows, shape, norm, values, codebooks)


def column(task: Problem, m: int, n: int) -> Column:
    """The operands of output (m, n) of a MatMul."""
    a, b = task.a, task.b
    k = int(task.seen[m]) if task.integer else a.index.shape[1]
    scale = float(task.divided[0][m])
    if not task.integer:
        scale = float(joint_scale(np.asarray(scale), b.scale[n], task.arith))
    za, zb = (0.0 if side.zero is None else float(side.zero[i]) for side, i in ((a, m), (b, n)))
    return Column(
        a.index[m, :k],
        b.index[n, :k],
        (a.mask[m] | b.mask[n])[:k],
        a.value[m, :k],
        task.values(m, n)[:k],
        task.table,
        scale,
        (za, zb),
        task.centroids if task.zeros else (),
        None if task.bias is None else float(task.bias[n]),
        None if task.shift is None else (float(task.shift[0][m]), float(task.shift[1][n])),
        task.finish(m, n),
    )


def column_at_ports(words: Mapping[str, np.ndarray], integer: bool, arith: KllmArith) -> Column:
    """The output, or outputs, whose operands are at the ports.

    words: by port name in the ports' dtypes, (..., lanes), and for `SINGLE` (...). Operands of the sparse path,
    codebooks and inputs of the merge are decoded. A missing port adds nothing.
    """

    def side(name: str, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        index, none = words[f"{name}_index"], np.zeros_like(words[f"{name}_index"], np.uint16)
        mask, outlier = (words.get(f"{name}_{part}", none) for part in ("mask", "outlier"))
        return index, mask > 0, dequantized(index, mask, outlier, floats(words[f"{name}_codebook"]), scale)

    single = {name: floats(words[name]).astype(np.float64) for name in SINGLE if name in words}
    a_scale, bias = single["a_scale"], single.get("bias")
    shift = (single["shift"], single["row_sum"]) if "shift" in single else None
    if integer:
        b, left_out, b_value = side("b", np.ones(a_scale.shape))
        a_value, table = floats(words["a_outlier"]), floats(words["b_codebook"])
        return Column(words["a_index"], b, left_out, a_value, b_value, table, a_scale, bias=bias)
    b_scale, products = single["b_scale"], words["products"]
    (a, a_mask, a_value), (b, b_mask, b_value) = side("a", a_scale), side("b", b_scale)
    table = products.view(np.float32) if products.dtype == np.uint32 else floats(products)
    scale, left_out = joint_scale(a_scale, b_scale, arith), a_mask | b_mask
    return Column(a, b, left_out, a_value, b_value, table, scale, bias=bias, shift=shift)


def require_exact(column: Column) -> None:
    """Reject an infinite or NaN operand that the exact accumulator reads."""
    read = {
        "A at an outlier's place": np.where(column.left_out, column.a_value, 0),
        "B at an outlier's place": np.where(column.left_out, column.b_value, 0),
        "the table": column.table,
        "the bias": np.zeros(()) if column.bias is None else column.bias,
    }
    for name, values in read.items():
        rule = f"{NAME}: the exact accumulator needs finite operands; {name}"
        reject(~np.isfinite(values), rule, np.asarray(values, np.float64), " is {}")
