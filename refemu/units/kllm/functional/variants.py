"""Variants of the decisions of functional."""

import numpy as np

from refemu.arith import fp16
from refemu.units.kllm.functional import Functional
from refemu.units.variant import Variant, choices, overriding


def _sum16(self: Functional, total: np.float32, terms: np.ndarray) -> np.float32:
    for term in terms:
        total = np.float32(fp16.round16(np.asarray(total + term)))
    return total


def _tree_of_eight(self: Functional, total: np.float32, terms: np.ndarray) -> np.float32:
    level = list(terms)
    while len(level) > 1:
        odd = level[len(level) - len(level) % 2 :]
        level = [left + right for left, right in zip(level[::2], level[1::2], strict=False)] + odd
    return np.float32(total + level[0])


_device = overriding(Functional)
VARIANTS: tuple[Variant, ...] = (
    *choices("D-kllm-20", "softmax", "fp16", "softmax32"),
    _device("D-kllm-20: the sum is fp16", added=_sum16),
    _device("D-kllm-20: the exponentials of a cycle are added as a tree", added=_tree_of_eight),
    _device(
        "D-kllm-20: terms are multiplied by the reciprocal of the sum",
        quotients=lambda self, terms, total: terms * (np.float32(1) / total),
    ),
)
