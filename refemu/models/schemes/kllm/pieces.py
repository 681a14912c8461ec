"""Vectors of encoded tensors in the shape of a unit's ports."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.models.schemes.kllm.cache import outlier_words
from refemu.units.kllm.index_counter import INPUTS


def peak(tensor: KMeansTensor) -> int:
    """The token with the largest outlier, the first of equals."""
    return int(np.argmax(np.abs(fp16.values(outlier_words(tensor))))) // tensor.length


def case(inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """One case: every port's values under a new first axis."""
    return {name: np.asarray(array)[None] for name, array in inputs.items()}


def operand(side: str, tensor: KMeansTensor, vector: int) -> dict[str, Any]:
    """One vector, by the ports of an operand. side: "a" or "b"."""
    return {
        f"{side}_index": tensor.index[vector],
        f"{side}_mask": tensor.mask[vector].astype(np.uint8),
        f"{side}_outlier": outlier_words(tensor)[vector],
        f"{side}_scale": tensor.scale[vector],
    }


def factor(side: str, tensor: KMeansTensor, vector: int) -> dict[str, Any]:
    """One vector, by the ports of an elementwise product: indices, and values read as FP16."""
    return {
        side: tensor.index[vector],
        f"{side}_mask": tensor.mask[vector].astype(np.uint8),
        f"{side}_value": fp16.bits(tensor.dequantized())[vector],
    }


def cycles(x: np.ndarray) -> np.ndarray:
    """One device's cycles of sixteen positions, (1, cycles, 16), filled up with zeros."""
    wide = np.zeros(-(-x.size // INPUTS) * INPUTS, np.uint8)
    wide[: x.size] = x
    return wide.reshape(1, -1, INPUTS)
