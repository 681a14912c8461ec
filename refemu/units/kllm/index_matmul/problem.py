"""Validated inputs of an index MatMul, shared by the unit and its twin, and a view of each output column.

Paper: [kllm §III-B, §III-D, Fig. 5]. Decisions: D-kllm-5 (product codebook), D-kllm-37 (what a norm divides).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused
from refemu.arith.operands import Precision
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.kllm_arith import KllmArith, Preset
from refemu.formats.kllm.kmeans_tables import cartesian
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units.kllm.index_matmul.arithmetic import dequantized, floats, joint_scale, mean_terms, quotient, r16
from refemu.units.kllm.index_matmul.operands import (
    NAME,
    Dequantize,
    Norm,
    Scores,
    Vectors,
    columns_under,
    require_finite,
    require_operands,
    require_products,
    require_seen,
    scores_of,
    vectors_of,
)


class Column(NamedTuple):
    """Operands of one output: A's row and B's column along K, and those of the merge.

    Of many outputs between the ports, arrays have leading axes, and `scale` is one.
    """

    a: np.ndarray  #: (K,) indices of A, or the integers
    b: np.ndarray  #: (K,) indices of B
    left_out: np.ndarray  #: (K,) bool: not in the dense path
    a_value: np.ndarray  #: (K,) float32, fp16 values that the sparse path reads
    b_value: np.ndarray
    table: np.ndarray  #: float32: the product codebook, or B's centroids
    scale: Any  #: of the dense part, float
    zeros: tuple[float, float] = (0.0, 0.0)
    centroids: tuple[np.ndarray, ...] = ()  #: of A and B, where there are zero points
    bias: float | None = None
    shift: float | None = None  #: LayerNorm, rounding accumulators
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
    seen: np.ndarray  #: (M,) columns, of integers positions, that each row sees
    shape: tuple[int, ...]  #: of the result
    norm: Norm | None  #: norm of A's rows, applied afterwards
    bias: np.ndarray | None  #: float64 (N,)
    centroids: tuple[np.ndarray, np.ndarray]  #: of A and B
    shift: np.ndarray | None  #: (M, N), LayerNorm with a rounding accumulator

    @property
    def zeros(self) -> bool:
        """Whether some operand has zero points."""
        return self.a.zero is not None or self.b.zero is not None

    def divided(self, m: int) -> tuple[float, np.ndarray]:
        """Scale of a row and centroids of B, both divided by the row's norm if it is delayed into them (D-kllm-37).

        Parameters
        ----------
        m : int
            Row.

        Returns
        -------
        scale : float
            Scale of the row.
        centroids : ndarray of float32
            Centroids of B.
        """
        scale, centroids = self.a.scale[m], self.centroids[1]
        if self.norm is None or self.arith.acc == "exact":
            return float(scale), centroids
        divisor = np.asarray(self.norm.divisor, np.float64).reshape(-1)[m]
        wide = centroids.astype(np.float64)
        return float(quotient(scale, divisor)), quotient(wide, divisor).astype(np.float32)

    def values(self, m: int, n: int) -> np.ndarray:
        """Values of B that the sparse path of one output reads.

        Parameters
        ----------
        m, n : int
            Row and column.

        Returns
        -------
        ndarray of float32 (K,)
            fp16 values.
        """
        if self.integer or self.b.zero is not None or self.b.mask[n].any():
            return self.b.value[n]
        centroids = self.divided(m)[1].astype(np.float64)
        return r16(self.b.scale[n] * centroids[self.b.index[n]]).astype(np.float32)

    def finish(self, m: int, n: int) -> tuple[float, float, float] | None:
        """Operands of the exact accumulator, which subtracts mean * R_n, then divides.

        Parameters
        ----------
        m, n : int
            Row and column.

        Returns
        -------
        tuple of 3 float or None
            Divisor, mean and R_n; None without a norm or with a rounding accumulator.
        """
        if self.norm is None or self.arith.acc != "exact":
            return None
        mean = 0.0 if self.norm.mean is None else float(self.norm.mean.reshape(-1)[m])
        row_sum = 0.0 if self.norm.row_sum is None else float(self.norm.row_sum[n])
        return float(self.norm.divisor.reshape(-1)[m]), mean, row_sum


@lru_cache(maxsize=1024)
def _products(a: Codebook, b: Codebook, table: Precision) -> Codebook:
    """`cartesian`, made offline: once for two codebooks."""
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
    dequantize: Dequantize = KMeansTensor.dequantized,
) -> Problem:
    """Check the arguments of `matmul`.

    Parameters
    ----------
    a : KMeansTensor or Scores
        Left operand.
    b : KMeansTensor
        Right operand.
    preset : str or KllmArith
        Arithmetic.
    products : Codebook or None
        Product codebook.
    bias : ndarray of float16 (N,) or None
        Added to the outputs.
    norm : Norm or None
        Norm of A's rows.
    seen : array_like of integers or None
        Columns that each row sees.
    right : Vectors, optional
        Columns of `b`, where they have been laid out before.
    dequantize : callable
        Reads the values of a tensor as float16.

    Returns
    -------
    Problem
        Operands, table and shape of the result.

    Raises
    ------
    Refused
        The operands do not fit each other.
    RefusedType
        An operand has a wrong type or dtype.

    References
    ----------
    [kllm §III-B]
    """
    arith, integer = KllmArith.preset(preset), isinstance(a, Scores)
    if isinstance(a, Scores):
        left, lead = scores_of(a, arith, b), a.scale.shape
        if products is not None:
            raise Refused(f"{NAME}: scores need no product codebook")
        right, table = right or columns_under(b), b.codebook.centroids
        codebooks = table, table
    else:
        left, lead, right = vectors_of(a, dequantize), a.vectors, right or vectors_of(b, dequantize)
        book = products if products is not None else _products(a.codebook, b.codebook, arith.table)
        table = require_products(book, a.codebook, b.codebook).centroids
        codebooks = a.codebook.centroids, b.codebook.centroids
    values = require_operands(left, right, norm, bias, integer)
    require_finite(left, right, arith, codebooks)
    shift = None
    if norm is not None and norm.mean is not None and norm.row_sum is not None and arith.acc != "exact":
        shift = mean_terms(norm.mean, norm.divisor, norm.row_sum)
    most = left.index.shape[1] if integer else right.index.shape[0]
    rows = require_seen(seen, left.index.shape[0], most)
    return Problem(
        left,
        right,
        table,
        arith,
        integer,
        b.codebook.bits,
        rows,
        (*lead, right.index.shape[0]),
        norm,
        values,
        codebooks,
        shift,
    )


def column(task: Problem, m: int, n: int) -> Column:
    """Output (m, n) of a MatMul by itself."""
    a, b = task.a, task.b
    k = int(task.seen[m]) if task.integer else a.index.shape[1]
    scale = task.divided(m)[0]
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
        None if task.shift is None else float(task.shift[m, n]),
        task.finish(m, n),
    )


def column_at_ports(words: Mapping[str, np.ndarray], integer: bool, arith: KllmArith) -> Column:
    """The output whose operands stand at the ports, or many of them.

    words: by port name in the ports' dtypes, (..., lanes), and scales (...). Operands of the sparse path, codebooks and
    scales are decoded.
    """

    def side(name: str, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        index, mask, codes = (words[f"{name}_{part}"] for part in ("index", "mask", "codebook"))
        return index, mask > 0, dequantized(index, mask, words[f"{name}_outlier"], floats(codes), scale)

    a_scale = floats(words["a_scale"]).astype(np.float64)
    if integer:
        b, left_out, b_value = side("b", np.ones(a_scale.shape))
        return Column(
            words["a_index"], b, left_out, floats(words["a_outlier"]), b_value, floats(words["b_codebook"]), a_scale
        )
    b_scale, products = floats(words["b_scale"]).astype(np.float64), words["products"]
    (a, a_mask, a_value), (b, b_mask, b_value) = side("a", a_scale), side("b", b_scale)
    table = products.view(np.float32) if products.dtype == np.uint32 else floats(products)
    return Column(a, b, a_mask | b_mask, a_value, b_value, table, joint_scale(a_scale, b_scale, arith))
