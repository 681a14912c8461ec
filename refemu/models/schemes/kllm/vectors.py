"""Vectors of encoded tensors in the shape of a unit's ports."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats.kllm.kmeans_tables import squares
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm.cache import outlier_words
from refemu.units.kllm.index_counter import INPUTS


def peak(tensor: KMeansTensor) -> int:
    """The token with the largest outlier, the first of equal ones."""
    return int(np.argmax(np.abs(fp16.values(outlier_words(tensor))))) // tensor.length


def case(inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """One case: the values of every port, with a new first axis."""
    return {name: np.asarray(array)[None] for name, array in inputs.items()}


def operand(side: str, tensor: KMeansTensor, vector: int) -> dict[str, Any]:
    """One vector, as ports of an operand. side: "a" or "b"."""
    return {
        f"{side}_index": tensor.index[vector],
        f"{side}_mask": tensor.mask[vector].astype(np.uint8),
        f"{side}_outlier": outlier_words(tensor)[vector],
        f"{side}_scale": tensor.scale[vector],
    }


def inliers(words: np.ndarray, tensor: KMeansTensor, vector: int) -> dict[str, np.ndarray]:
    """Inputs of the Clustering Unit for one vector. words: its FP16 words, (size,)."""
    x, values = words[~tensor.mask[vector]], tensor.codebook.values
    return {"x": x, "scale": np.full(x.size, tensor.scale[vector]), "codebook": np.tile(values, (x.size, 1))}


def normed(a: KMeansTensor, weight: KMeansTensor) -> dict[str, np.ndarray]:
    """All vectors of an activation, as ports of its norm before `weight`; an RMSNorm has no port `centroids`."""
    tables = {"squares": squares(a.codebook), "centroids": a.codebook, "weights": weight.codebook}
    inputs = {"q": a.index, "mask": a.mask.astype(np.uint8), "x": outlier_words(a), "scale": a.scale}
    return inputs | {name: np.tile(book.values, (len(a.index), 1)) for name, book in tables.items()}


def factor(side: str, tensor: KMeansTensor, vector: int | slice) -> dict[str, Any]:
    """One vector, or some, as ports of an elementwise product: indices, and values read as FP16."""
    return {
        side: tensor.index[vector],
        f"{side}_mask": tensor.mask[vector].astype(np.uint8),
        f"{side}_value": fp16.bits(tensor.dequantize_fp16())[vector],
    }


def cycles(x: np.ndarray) -> np.ndarray:
    """One device's cycles of sixteen positions, (1, cycles, 16), padded with zeros."""
    wide = np.zeros(-(-x.size // INPUTS) * INPUTS, np.uint8)
    wide[: x.size] = x
    return wide.reshape(1, -1, INPUTS)
