"""Other answers to the decisions of functional."""

from dataclasses import replace

import numpy as np

from refemu.arith import fp16
from refemu.units.alternative import Alternative, choices
from refemu.units.kllm.functional import Functional, State


class Sum16(Functional):
    """The sum of the exponentials is rounded to fp16 after every addition."""

    def _exp(self, before: State, here: slice) -> State:
        after, total = super()._exp(before, here), np.asarray(before.total, np.float32)
        for term in after.terms[len(before.terms) :]:
            total = fp16.round16(total + np.float32(term))
        return replace(after, total=float(total))


class TreeOfEight(Functional):
    """The exponentials of a cycle are added as a tree before they enter the sum."""

    def _exp(self, before: State, here: slice) -> State:
        after = super()._exp(before, here)
        level = [np.float32(term) for term in after.terms[len(before.terms) :]]
        while len(level) > 1:
            odd = level[len(level) - len(level) % 2 :]
            level = [left + right for left, right in zip(level[::2], level[1::2], strict=False)] + odd
        return replace(after, total=float(np.float32(before.total) + level[0]))


class Reciprocal(Functional):
    """Terms are multiplied by the float32 reciprocal of the sum."""

    def _divide(self, before: State, here: slice) -> State:
        inverse = np.float32(1) / np.float32(before.total)
        scaled = tuple(float(np.float32(term) * inverse) for term in before.terms)
        return replace(
            super()._divide(replace(before, terms=scaled, total=1.0), here), terms=before.terms, total=before.total
        )


ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-kllm-20", "softmax", "fp16", "softmax32"),
    Alternative("D-kllm-20", "the sum is fp16", variant=Sum16),
    Alternative("D-kllm-20", "the exponentials of a cycle are added as a tree", variant=TreeOfEight),
    Alternative("D-kllm-20", "terms are multiplied by the reciprocal of the sum", variant=Reciprocal),
)
