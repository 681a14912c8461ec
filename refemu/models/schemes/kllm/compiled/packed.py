"""Weights that read one activation, packed for the products of single tokens: two indices in a byte."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from refemu.arith.fp16_compiled import plain
from refemu.arith.threads import share_out, worth
from refemu.formats.kllm.codebook import Codebook
from refemu.formats.kllm.compiled.kmeans_row import Row
from refemu.formats.kllm.kmeans_tables import cartesian
from refemu.models.schemes.kllm.compiled.panels import HALF, LANES, PANEL
from refemu.models.schemes.kllm.compiled.vector import kmeans_vector
from refemu.models.schemes.kllm.operands import Weight
from refemu.units.kllm.kernels.counts import COUNTERS
from refemu.units.kllm.kernels.index_matmul import is_bounded


class Packed(NamedTuple):
    """The right operands of `kmeans_vector`, which names the arrays."""

    codes: np.ndarray
    places: np.ndarray
    tables: np.ndarray
    scale: np.ndarray
    bias: np.ndarray
    bounded: bool  #: whether all tables are `is_bounded`
    ends: tuple[int, ...]  #: of the outputs of each weight, from 0

    def times(self, row: Row, scale: float, centroids: np.ndarray) -> list[np.ndarray]:
        """Products with each weight, float32 (1, outputs). centroids: float32 (weights, entries)."""
        out = np.empty((1, self.ends[-1]), np.float32)
        left = row.codes[0], row.mask[0].view(np.uint8), row.value[0], scale
        right = self.codes, self.places, self.tables, centroids, self.scale, self.bias, self.bounded

        def panels(first: int, last: int) -> None:
            kmeans_vector(*left, *right, out[0], first, last)

        share_out(panels, len(self.codes), least=worth(self.codes.shape[1] * PANEL))
        return [out[:, low:high] for low, high in itertools.pairwise(self.ends)]


def packed(book: Codebook, weights: Sequence[Weight]) -> Packed:
    """Pack weights without outliers. book: codebook of the activation."""
    tables = [cartesian(book, weight.tensor.codebook).centroids for weight in weights]
    inputs, sizes = len(weights[0].right.index) - 1, [weight.right.index.shape[1] for weight in weights]
    ends = (0, *np.cumsum(sizes).tolist())
    biases = [np.full(size, -0.0) if w.bias is None else w.bias for w, size in zip(weights, sizes, strict=True)]
    return Packed(
        np.concatenate([_codes(weight.right.index) for weight in weights]),
        np.array(
            [
                (number, ends[number] + column, min(size - column, PANEL))
                for number, size in enumerate(sizes)
                for column in range(0, size, PANEL)
            ]
        ),
        np.stack([_filled_up(table, w.tensor.codebook.bits) for table, w in zip(tables, weights, strict=True)]),
        np.concatenate([plain(weight.right.vectors.scale) for weight in weights]),
        np.concatenate(biases if any(w.bias is not None for w in weights) else [np.zeros(0)]).astype(np.float64),
        all(is_bounded(table, inputs) for table in tables),
        ends,
    )


def _filled_up(table: np.ndarray, bits: int) -> np.ndarray:
    """Entries of indices of `bits` bits as those of four bits."""
    rows = table.reshape(-1, 1 << bits)
    return np.pad(rows, ((0, 0), (0, COUNTERS - rows.shape[1]))).reshape(-1)


def _codes(index: np.ndarray) -> np.ndarray:
    """Panels of packed indices from indices (K + 1, N)."""
    rows, count = len(index), -(-index.shape[1] // PANEL)
    codes = np.empty((count, rows, PANEL // 2), np.uint8)
    for panel in range(count):
        columns = index[:, panel * PANEL : (panel + 1) * PANEL]
        wide = np.pad(columns, ((0, 0), (0, PANEL - columns.shape[1]))).reshape(rows, -1, HALF)
        codes[panel] = (wide[..., :LANES] | wide[..., LANES:] << 4).reshape(rows, -1)
    return codes
