"""Variants of the decisions of paged_attention."""

from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.fp32 import exp32, fma32
from refemu.arith.orders import Lanes, Sequential, Tree
from refemu.units.leankv.paged_attention import PagedAttention, Pages
from refemu.units.leankv.paged_attention.arithmetic import EPSILON, Arithmetic
from refemu.units.leankv.paged_attention.phases import Page
from refemu.units.leankv.variants import rounding
from refemu.units.variant import Variant, choices, overriding

KERNEL = "kernel"  #: value of the parameter `order`
_device = overriding(PagedAttention)


def _order(says: str, **members: Any) -> Variant:
    """A device whose layout has other orders of sums."""
    return _device(f"D-leankv-41: {says}", layout=overriding(Pages)(says, **members).unit_class)


def _interleaved(old: Pages, self: Pages, arithmetic: Arithmetic) -> Lanes:
    order = Lanes(self.high.k_group, "strided", Tree(self.high.k_group), "product")
    return order if arithmetic.order == KERNEL else old.key_order(arithmetic)


def _paired(self: PagedAttention, acc: np.ndarray) -> np.ndarray:
    while acc.shape[1] > 1:
        acc = acc[:, ::2] + acc[:, 1::2]
    return np.asarray(acc[:, 0])


def _slots_descending(
    self: PagedAttention, page: Page, p: np.ndarray, values: np.ndarray, acc: np.ndarray
) -> np.ndarray:
    result = acc.copy()
    for slot in reversed(range(page.tokens)):
        place = self.layouts.place(page.number, slot, self.arithmetic)
        weight, before = p[:, slot, None], result[:, place].copy()
        fused = self.arithmetic.fma
        result[:, place] = fma32(weight, values[slot], before) if fused else before + weight * values[slot]
    return result


def _by_powers_of_two(self: PagedAttention, x: np.ndarray) -> np.ndarray:
    y = x * np.float32(1.4426950408889634)
    whole = np.floor(y)
    part = exp32((y - whole) * np.float32(0.6931471805599453))
    return np.ldexp(part, np.maximum(whole, -300).astype(np.int32)).astype(np.float32)


def _exp_flushed(old: PagedAttention, self: PagedAttention, x: np.ndarray) -> np.ndarray:
    e = old._exp(x)
    return np.where(e < np.float32(1 / (1 << 126)), np.float32(0), e)


def _mapped(pattern_of: Any, values: np.ndarray) -> np.ndarray:
    """Finite values as fp16 by a rounding, and others as usual."""
    patterns = rounding.patterns(pattern_of, np.where(finite := np.isfinite(values), values, 0))
    return np.where(finite, patterns.view(np.float16), fp16.narrow(values))


def _saturated(old: PagedAttention, self: PagedAttention, values: np.ndarray) -> np.ndarray:
    words = old._narrowed(values)
    return np.where(np.isinf(words), np.copysign(np.float16(fp16.MAX), words), words)


def _flushed(old: PagedAttention, self: PagedAttention, values: np.ndarray) -> np.ndarray:
    words = old._narrowed(values)
    return np.where(np.abs(words) < fp16.MIN_NORMAL, np.copysign(np.float16(0), words), words)


VARIANTS: tuple[Variant, ...] = (
    *choices("D-leankv-1", "preset", "paper", "diffkv"),
    *choices("D-leankv-12", "k_vec", 1, 2),
    *choices("D-leankv-12", "v_vec", 1, 4),
    *choices("D-leankv-17", "include_self", True, False),
    *choices("D-leankv-19", "gqa", "mean"),
    *choices("D-leankv-41", "order", "kernel", "sequential"),
    _order("exponentials are summed token by token", total_order=lambda self, arithmetic: Sequential()),
    _order("threads take the features of a key in turn", key_order=_interleaved),
    _order(
        "a warp takes two neighbouring pages",
        place=lambda old, self, page, slot, arithmetic: old.place(page // 2, slot, arithmetic),
    ),
    _device("D-leankv-41: neighbouring accumulators are added first", _joined=_paired),
    _device(
        "D-leankv-41: features are added from the last to the first",
        _logits=lambda old, self, q, keys: old._logits(q[:, ::-1].copy(), keys[:, ::-1].copy()),
    ),
    _device("D-leankv-41: slots of a page are added from the last to the first", _added=_slots_descending),
    *choices("D-leankv-42", "fma", True, False),
    *choices("D-leankv-43", "lane_max", True),
    _device("D-leankv-44: 2**(x * log2(e)), the exponent rounded to float32", _exp=_by_powers_of_two),
    _device("D-leankv-44: subnormal exponentials are 0", _exp=_exp_flushed),
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
    _device("D-arith-2: outputs are truncated", _narrowed=lambda self, values: _mapped(rounding.toward_zero16, values)),
    _device(
        "D-arith-2: outputs round half away from 0",
        _narrowed=lambda self, values: _mapped(rounding.half_away16, values),
    ),
    _device("D-arith-2: outputs beyond fp16 are 65504", _narrowed=_saturated),
    _device("D-arith-2: subnormal outputs are 0", _narrowed=_flushed),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-57": "the operands of an event do not depend on the bits that a thread loads at once: only counters of "
    "sectors and the addresses in `loads` show them",
    "D-leankv-58": "sectors are counted, but no port shows them",
    "D-leankv-72": "Sizes of shared memory and registers bound the blocks of a multiprocessor, not the bits of a row.",
}
