"""Variants of the decisions of paged_attention."""

from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.fp32 import exp32, fma32
from refemu.arith.orders import Lanes, Order, Sequential, Tree
from refemu.units.leankv.paged_attention import PagedAttention, Pages
from refemu.units.leankv.paged_attention.arithmetic import EPSILON, Arithmetic
from refemu.units.leankv.paged_attention.phases import Page
from refemu.units.leankv.variants import rounding
from refemu.units.variant import Variant, choices

KERNEL = "kernel"  #: value of the parameter `order`


class InTurn(Pages):
    """The exponentials are summed token by token."""

    def total_order(self, arithmetic: Arithmetic) -> Order:
        return Sequential()


class Interleaved(Pages):
    """The threads that share a key take its features in turn."""

    def key_order(self, arithmetic: Arithmetic) -> Lanes:
        groups = self.high.k_group
        order = Lanes(groups, "strided", Tree(groups), "product")
        return order if arithmetic.order == KERNEL else super().key_order(arithmetic)


class PagesInBlocks(Pages):
    """A warp takes neighbouring pages: two each before the next warp."""

    def place(self, page: int, slot: int, arithmetic: Arithmetic) -> int:
        return super().place(page // 2, slot, arithmetic)


def _laid(layout_of: type[Pages]) -> type[PagedAttention]:
    """Attention with other orders of sums."""

    class Other(PagedAttention):
        layout = layout_of

    return Other


class AccumulatorsPaired(PagedAttention):
    """Neighbouring accumulators are added first."""

    def _joined(self, acc: np.ndarray) -> np.ndarray:
        while acc.shape[1] > 1:
            acc = acc[:, ::2] + acc[:, 1::2]
        return np.asarray(acc[:, 0])


class FeaturesDescending(PagedAttention):
    """The products of a query and a key are added from the last feature to the first."""

    def _logits(self, q: np.ndarray, keys: np.ndarray) -> np.ndarray:
        return super()._logits(q[:, ::-1].copy(), keys[:, ::-1].copy())


class SlotsDescending(PagedAttention):
    """The slots of a page are added from the last to the first."""

    def _added(self, page: Page, p: np.ndarray, values: np.ndarray, acc: np.ndarray) -> np.ndarray:
        result = acc.copy()
        for slot in reversed(range(page.tokens)):
            place = self.layouts.place(page.number, slot, self.arithmetic)
            weight, before = p[:, slot, None], result[:, place].copy()
            fused = self.arithmetic.fma
            result[:, place] = fma32(weight, values[slot], before) if fused else before + weight * values[slot]
        return result


class ByPowersOfTwo(PagedAttention):
    """The exponential is 2**y of y = x * log2(e), rounded to float32 in between."""

    def _exp(self, x: np.ndarray) -> np.ndarray:
        y = x * np.float32(1.4426950408889634)
        whole = np.floor(y)
        part = exp32((y - whole) * np.float32(0.6931471805599453))
        return np.ldexp(part, np.maximum(whole, -300).astype(np.int32)).astype(np.float32)


class ExpFlushed(PagedAttention):
    """Subnormal exponentials are 0."""

    def _exp(self, x: np.ndarray) -> np.ndarray:
        e = super()._exp(x)
        return np.where(e < np.float32(1 / (1 << 126)), np.float32(0), e)


def _mapped(pattern_of: Any, values: np.ndarray) -> np.ndarray:
    finite = np.isfinite(values)
    patterns = [
        pattern_of(value) if good else 0 for value, good in zip(values.ravel().tolist(), finite.flat, strict=True)
    ]
    return np.where(finite, np.array(patterns, np.uint16).reshape(values.shape).view(np.float16), fp16.narrow(values))


class Truncated(PagedAttention):
    """The output is truncated."""

    def _narrowed(self, values: np.ndarray) -> np.ndarray:
        return _mapped(rounding.toward_zero16, values)


class HalfAway(PagedAttention):
    """The larger magnitude of two nearest fp16 outputs."""

    def _narrowed(self, values: np.ndarray) -> np.ndarray:
        return _mapped(rounding.half_away16, values)


class Saturated(PagedAttention):
    """Outputs beyond fp16 are 65504 with their sign."""

    def _narrowed(self, values: np.ndarray) -> np.ndarray:
        words = super()._narrowed(values)
        most = np.float16(fp16.MAX)
        return np.where(np.isinf(words), np.copysign(most, words), words)


class Flushed(PagedAttention):
    """Subnormal outputs are 0 with their sign."""

    def _narrowed(self, values: np.ndarray) -> np.ndarray:
        words = super()._narrowed(values)
        return np.where(np.abs(words) < fp16.MIN_NORMAL, np.copysign(np.float16(0), words), words)


def _order(says: str, layout: type[Pages]) -> Variant:
    return Variant("D-leankv-41", says, unit_class=_laid(layout))


VARIANTS: tuple[Variant, ...] = (
    *choices("D-leankv-1", "preset", "paper", "diffkv"),
    *choices("D-leankv-12", "k_vec", 1, 2),
    *choices("D-leankv-12", "v_vec", 1, 4),
    *choices("D-leankv-17", "include_self", True, False),
    *choices("D-leankv-19", "gqa", "mean"),
    *choices("D-leankv-41", "order", "kernel", "sequential"),
    _order("exponentials are summed token by token", InTurn),
    _order("threads take the features of a key in turn", Interleaved),
    _order("a warp takes two neighbouring pages", PagesInBlocks),
    Variant("D-leankv-41", "neighbouring accumulators are added first", unit_class=AccumulatorsPaired),
    Variant("D-leankv-41", "features are added from the last to the first", unit_class=FeaturesDescending),
    Variant("D-leankv-41", "slots of a page are added from the last to the first", unit_class=SlotsDescending),
    *choices("D-leankv-42", "fma", True, False),
    *choices("D-leankv-43", "lane_max", True),
    Variant("D-leankv-44", "2**(x * log2(e)), the exponent rounded to float32", unit_class=ByPowersOfTwo),
    Variant("D-leankv-44", "subnormal exponentials are 0", unit_class=ExpFlushed),
    *choices("D-leankv-45", "softmax_div", "div", "recip_mul"),
    *choices("D-leankv-45", "softmax_eps", 0.0, EPSILON),
    *choices("D-leankv-46", "partition_tokens", 0, 1),
    *choices("D-leankv-46", "partition_score", True),
    *choices("D-leankv-56", "warps", 1, 2, 4, 16),
    *choices("D-leankv-56", "sum_threads", 32, 64, 128, 512),
    *choices("D-leankv-56", "key_threads", 1, 2, 8),
    *choices("D-leankv-56", "value_rows", 1, 2, 8),
    *choices("D-leankv-56", "value_slots", 1, 4),
    *choices("D-leankv-56", "join", "tree", "sequential"),
    Variant("D-arith-2", "outputs are truncated", unit_class=Truncated),
    Variant("D-arith-2", "outputs round half away from 0", unit_class=HalfAway),
    Variant("D-arith-2", "outputs beyond fp16 are 65504", unit_class=Saturated),
    Variant("D-arith-2", "subnormal outputs are 0", unit_class=Flushed),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-57": "the operands of an event do not depend on the bits that a thread loads at once: only counters of "
    "sectors and the addresses in `loads` show them",
    "D-leankv-58": "sectors are counted, but no port shows them",
    "D-leankv-72": "Sizes of shared memory and registers bound the blocks of a multiprocessor, not the bits of a row.",
}
