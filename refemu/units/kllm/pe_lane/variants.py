"""Variants of the decisions of pe_lane."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.arith.scalar32 import pattern16, value16
from refemu.units import Config, DeclaredState, Lanes, Variant, choices
from refemu.units.cycle_accurate import latched
from refemu.units.kllm.fp16_mac import ONE, Fp16Mac
from refemu.units.kllm.pe_lane.macs import NEGATIVE_ZERO, Changes, Values
from refemu.units.kllm.pe_lane.pe_lane import PeLane
from refemu.units.kllm.pe_lane.registers import BIAS, IDLE, REDUCE
from refemu.units.kllm.weighted_sum.variants import BITS
from refemu.units.variant import overriding


def _with(state: DeclaredState, **registers: Iterable[int]) -> DeclaredState:
    """A State with other values in the lanes of some registers."""
    return replace(state, **{name: tuple(values) for name, values in registers.items()})


class FusedMacs(PeLane):
    """The MACs round once; the multipliers next to them only multiply."""

    @cached_property
    def mac_units(self) -> list[Fp16Mac]:
        return [Fp16Mac("fp16_fma") for _ in range(self.macs)]


def _require_wide(lane: PeLane) -> None:
    if lane.counter_bits <= BITS:
        raise Refused(f"pe_lane: counts of {BITS} bits and fewer are exact")


class SharedMultiplier(PeLane):
    """A MAC computes values of centroids itself, which takes one more edge before such a product."""

    _dequantized = False

    def sparse(self, before: DeclaredState) -> Changes:
        coded: tuple[Any, Any, Any] = before.sparse, before.x_coded, before.w_coded
        used = zip(*(each[: before.working] for each in coded), strict=True)
        waits = any(sparse and (x or w) for sparse, x, w in used) and not self._dequantized
        self._dequantized = waits
        return {} if waits else super().sparse(before)


def _held(zero: bool, config: Config, inputs: Any, result: Any) -> dict[str, np.ndarray]:
    """Outputs between two edges with `y_valid`: zeros, or those of the previous tile."""
    valid = np.asarray(result.y_valid) == 1
    return {name: latched(np.asarray(getattr(result, name)), valid, zero) for name in ("y", "overflow")}


def _truncated_counts(old: PeLane, self: PeLane, counts: Values) -> list[int]:
    _require_wide(self)
    drops = [max(count.bit_length() - BITS, 0) for count in counts]
    return old._words(tuple(count >> drop << drop for count, drop in zip(counts, drops, strict=True)))


def _narrow_counts(old: PeLane, self: PeLane, counts: Values) -> list[int]:
    _require_wide(self)
    return old._words(tuple(count & ((1 << BITS) - 1) for count in counts))


def _second_high(old: PeLane, self: PeLane, a: Values, b: Values) -> Lanes:
    if self.integer:
        raise Refused("pe_lane: integer must be False for this variant, got True")
    pairs = zip(old._concatenated(a, b), b, strict=True)
    return tuple(index << self.a_bits | q >> self.b_bits for q, index in pairs)


def _blocks(self: PeLane, turn: int, counter: int) -> int:
    if self.lane_mapping == "counter":
        raise Refused("pe_lane: counters with separate columns take contiguous parts already")
    return (counter * (self.concat // (self.counters * self.inputs)) + turn) * self.inputs


def _truncated_factors(self: PeLane, j: int, scale: int, word: int, coded: int) -> int:
    product = np.array(value16(scale) * value16(word), np.float32)
    mode = fp16.Fp16Mode(rounding="truncate")
    return pattern16(float(fp16.round16(product, mode))) if coded else word


def _scaled_product(old: PeLane, self: PeLane, before: DeclaredState) -> Changes:
    words = []
    for j in range(self.macs):
        word = before.x[j]
        scales = (before.x_coded, before.work_a_scale), (before.w_coded, before.work_b_scale[j])
        for factor in (before.w[j], *(scale for coded, scale in scales if coded[j])):
            _, word = self.multipliers[j].multiply_add(word, factor, NEGATIVE_ZERO)
        words.append(word)
    none, ones = (0,) * self.macs, (ONE,) * self.macs
    alone = _with(before, x=words, w=ones, x_coded=none, w_coded=none)
    return old.sparse(alone) | {"dequants": old.sparse(before)["dequants"]}


def _exact_scales(old: PeLane, self: PeLane, before: DeclaredState) -> Changes:
    acc = before.acc
    products = [
        pattern16(value16(acc[j]) * (value16(before.work_a_scale) * value16(scale)))  # 33 bits
        for j, scale in enumerate(before.work_b_scale)
    ]
    return old.merge_(_with(before, acc=products, joint=(ONE,) * self.macs))


def _scales_in_turn(old: PeLane, self: PeLane, before: DeclaredState) -> Changes:
    acc = before.acc
    scaled = [self.mac_units[j].multiply_add(acc[j], before.work_a_scale, NEGATIVE_ZERO)[1] for j in range(self.macs)]
    return old.merge_(_with(before, acc=scaled, joint=before.work_b_scale))


def _bias_first(old: PeLane, self: PeLane, before: DeclaredState) -> Changes:
    outside = list(before.outside)
    for j in range(self.macs if before.work_biases else 0):
        _, outside[j] = self.mac_units[j].multiply_add(before.work_bias[j], ONE, outside[j])
    return old.merge_(_with(before, outside=outside))


def _shift_last(old: PeLane, self: PeLane, before: DeclaredState) -> Changes:
    if not before.work_biases:
        return old.shift(before)
    return {"y": old.bias(before)["y"], "phase": BIAS}


def _shift_last_bias(old: PeLane, self: PeLane, before: DeclaredState) -> Changes:
    if not before.work_shifts:
        return old.bias(before)
    return old.shift(replace(before, work_biases=0))


def _open_tile_merged(old: PeLane, self: PeLane, before: DeclaredState, now: Changes) -> Changes:
    after = old._merged(before, now)
    return after | {"columns": min(after["columns"], self.macs)}


_device = overriding(PeLane)
VARIANTS: tuple[Variant, ...] = (
    Variant("D-kllm-3", "a MAC rounds once", unit_class=FusedMacs),
    _device("D-kllm-4: a count is truncated to eleven bits", _words=_truncated_counts),
    _device("D-kllm-4: a count above 2,047 wraps", _words=_narrow_counts),
    _device("D-kllm-6: the second operand is the high part", _concatenated=_second_high),
    _device(
        "D-kllm-13: an excluded position counts",
        count=lambda old, self, before: old.count(_with(before, q_valid=(1,) * self.concat)),
    ),
    _device("D-kllm-31: each counter takes a contiguous part of the slab", _place=_blocks),
    _device("D-kllm-32: values of the sparse path are truncated to fp16", _factor=_truncated_factors),
    _device("D-kllm-32: the scales are multiplied into the product", sparse=_scaled_product),
    _device("D-kllm-33: the product of the scales is not rounded", merge_=_exact_scales),
    _device("D-kllm-33: the sum is multiplied by one scale after the other", merge_=_scales_in_turn),
    _device(
        "D-kllm-40: the bias joins the sparse part",
        merge_=_bias_first,
        bias=lambda self, before: self._outputs(before, list(before.y)[: before.working], IDLE),
    ),
    _device("D-kllm-40: the bias is added before the shift", shift=_shift_last, bias=_shift_last_bias),
    _device(
        "D-kllm-43: one bank: merges wait while the MACs reduce",
        _merges=lambda old, self, before, swaps: old._merges(before, swaps) and before.phase != REDUCE and not swaps,
        _ready=lambda old, self, after: int(
            old._ready(after) and not (after.left_turns and after.merging and after.phase == REDUCE)
        ),
    ),
    _device(
        "D-kllm-45: a slab that comes too early replaces the previous one",
        _takes=lambda self, before: bool(before.load),
    ),
    _device(
        "D-kllm-45: a tile with a column for every MAC does not end",
        _ends=lambda self, before, columns: bool(before.merge_end),
        _histograms=lambda old, self, before, columns: old._histograms(before, columns) if columns < self.macs else [],
        _merged=_open_tile_merged,
    ),
    *choices("D-kllm-42", "merge", "tree", "serial"),
    Variant("D-kllm-44", "a MAC computes values of centroids in a separate edge", unit_class=SharedMultiplier),
    Variant("D-kllm-46", "outputs are 0 except in the edge of `y_valid`", answer=partial(_held, True)),
    Variant("D-kllm-46", "outputs change only in the edge of `y_valid`", answer=partial(_held, False)),
)
UNOBSERVABLE = {"D-kllm-39": "LayerNorm's shift and R_n are inputs; index_norm shows its variance."}
