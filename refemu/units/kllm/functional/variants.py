"""Variants of the decisions of functional."""

import numpy as np

from refemu.arith import fp16
from refemu.units.kllm.functional import Functional
from refemu.units.variant import Variant, choices, replaces, variants_of


class Devices(Functional):
    """Methods of other designs."""

    @replaces("added", "D-kllm-20", "the sum is fp16")
    def sum16(self, total: np.float32, terms: np.ndarray) -> np.float32:
        for term in terms:
            total = np.float32(fp16.round16(np.asarray(total + term)))
        return total

    @replaces("added", "D-kllm-20", "the exponentials of a cycle are added as a tree")
    def tree_of_eight(self, total: np.float32, terms: np.ndarray) -> np.float32:
        level = list(terms)
        while len(level) > 1:
            odd = level[len(level) - len(level) % 2 :]
            level = [left + right for left, right in zip(level[::2], level[1::2], strict=False)] + odd
        return np.float32(total + level[0])

    @replaces("quotients", "D-kllm-20", "terms are multiplied by the reciprocal of the sum")
    def reciprocal(self, terms: np.ndarray, total: np.float32) -> np.ndarray:
        return terms * (np.float32(1) / total)


VARIANTS: tuple[Variant, ...] = (*choices("D-kllm-20", "softmax", "fp16", "softmax32"), *variants_of(Devices))
