"""A product in the form of the lanes: operands as words, and the passes of all tiles.

Paper: [kllm §III-B, §III-D, §IV-A].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.arith.orders import Sequential
from refemu.units.declaration import decides
from refemu.units.kllm.index_matmul import Problem
from refemu.units.kllm.kllm_chip.sizes import ChipSizes

ONE = 0x3C00


class Pass(NamedTuple):
    """Columns that all lanes reduce in parallel, over some positions; fields in the order of the kernel."""

    row: int  #: of A
    first: int  #: column
    width: int  #: columns
    low: int  #: position
    high: int  #: position after the last
    opens: int  #: 1 if sums start from 0
    closes: int  #: 1 if outputs follow
    outliers: int  #: edges of the sparse path: most excluded positions of a column
    length: int  #: positions of the whole column


@dataclass(frozen=True, eq=False)
class Operands:
    """A product in words; the sparse path reads outliers, or centroids times their scale."""

    a: np.ndarray  #: uint8 (M, K): indices of A, or integers
    b: np.ndarray  #: uint8 (N, K)
    a_mask: np.ndarray  #: uint8 (M, K): 1 at outliers of A, not counted
    b_mask: np.ndarray  #: uint8 (N, K): 1 at outliers of B, or (0, 0) without any
    a_words: np.ndarray  #: uint16 (M, K): outliers, elsewhere centroids
    a_coded: np.ndarray  #: uint8 (M, K): 1 at centroids
    b_words: np.ndarray  #: uint16 (N, K): outliers, or (0, 0)
    centroids: np.ndarray  #: uint16 (M or 1, 2**nB): centroids of B, divided by a norm
    table: np.ndarray  #: uint16 (entries,): product codebook, or B's centroids
    rows: np.ndarray  #: int64 (2, M): scale, shift
    columns: np.ndarray  #: int64 (3, N): scale, sum of the weights, bias
    shifts: int  #: whether a shift is subtracted (LayerNorm)
    biases: int  #: whether a bias is added
    integer: bool  #: whether A holds integers
    a_bits: int  #: width of an index of A, or of an integer
    b_bits: int  #: width of an index of B
    limits: np.ndarray  #: int64 (M, 2): positions and columns of a row


def words(values: np.ndarray) -> np.ndarray:
    """Words of fp16 values in wider floats."""
    return fp16.bits(fp16.to_f16(values))


def operands(task: Problem) -> Operands:
    """Words of a checked MatMul. [kllm §III-B, §IV-A]

    Raises Refused if the lanes do not have this arithmetic, or an operand has zero points.
    """
    arith = task.arith
    if (arith.acc, arith.table, arith.scale_y) != ("fp16",) * 3 or not isinstance(arith.order, Sequential):
        raise Refused(f"kllm_chip: lanes need an fp16 accumulator in the order of the codebook, got {arith!r}")
    if task.zeros:
        raise Refused("kllm_chip: operands must have no zero points (D-kllm-10), got some")
    a, b, (scales, centroids) = task.a, task.b, task.divided
    rows, columns = np.zeros((2, len(a.index)), np.int64), np.zeros((3, len(b.index)), np.int64)
    rows[0], columns[0] = words(scales), ONE if task.integer else words(b.scale)
    if task.shift is not None:
        rows[1], columns[1] = (words(side) for side in task.shift)
    if task.bias is not None:
        columns[2] = words(task.bias)
    outliers = bool(b.mask.any())
    none = np.zeros((0, 0), np.uint8)
    bits = (task.table.size - 1).bit_length()
    return Operands(
        _bytes(a.index),
        _bytes(b.index),
        _bytes(a.mask),
        _bytes(b.mask) if outliers else none,
        *_left(task),
        words(b.value) if outliers else none.astype(np.uint16),
        words(centroids),
        words(task.table),
        rows,
        columns,
        int(task.shift is not None),
        int(task.bias is not None),
        task.integer,
        8 if task.integer else bits - task.b_bits,
        task.b_bits,
        task.limits,
    )


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, np.uint8)


def _left(task: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Words of A for the sparse path, and which of them are centroids; for integers their fp16 values."""
    if task.integer:
        return words(task.a.value), np.zeros(task.a.index.shape, np.uint8)
    centroids = task.centroids[0][task.a.index]
    mask = task.a.mask
    values = np.where(mask, task.a.value, centroids) if mask.any() else centroids
    return words(values), _bytes(~mask)


@decides("D-kllm-47")
def passes(operands: Operands, sizes: ChipSizes) -> list[Pass]:
    """Passes of all rows, in the order in which the MACs reduce them. [kllm §III-B, §IV-A]

    Tile follows tile; with carried sums each slab of a column is a pass.
    """
    return laid_out(operands.limits.tolist(), lambda m, length: _left_out(operands, m, length), sizes)


def laid_out(
    limits: Sequence[Sequence[int]], left_out: Callable[[int, int], np.ndarray], sizes: ChipSizes
) -> list[Pass]:
    """Passes of rows from their sizes alone, in the order in which the MACs reduce them. [kllm §III-B, §IV-A]

    limits: positions and columns of every row. left_out(row, positions): positions that each column excludes from the
    counts, (N,).
    """
    plan = []
    for m, (length, width) in enumerate(limits):
        outside = left_out(m, length)
        step = sizes.positions if sizes.carry == "sums" else max(length, 1)
        for first in range(0, width, sizes.tile):
            columns = min(sizes.tile, width - first)
            outliers = int(outside[first : first + columns].max())
            for low in range(0, max(length, 1), step):
                high = min(low + step, length)
                plan.append(Pass(m, first, columns, low, high, int(low == 0), int(high == length), outliers, length))
    return plan


def _left_out(operands: Operands, m: int, length: int) -> np.ndarray:
    """Positions of a row that each column excludes, (N,)."""
    mask = operands.a_mask[m, :length]
    if not operands.b_mask.size:
        return np.full(len(operands.b), np.count_nonzero(mask))
    return np.count_nonzero(operands.b_mask[:, :length] | mask, axis=1)
