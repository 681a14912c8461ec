"""Variants of the decisions of the accumulator, for the units that have one. [harmonia §IV-B, Fig. 13]

The accumulator of a device gets the methods of a variant in PARTS.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from refemu.arith import fp16, fp32
from refemu.arith.fp16 import Fp16Mode
from refemu.units import Config, Stepped
from refemu.units.harmonia.bfp_accumulator import INVALID, M8M8, M8W4, Accumulator, add, number, word
from refemu.units.harmonia.variants import rounding
from refemu.units.variant import Variant, choices, of_part, overriding

Converted = tuple[int, int, int]  #: integer, word of its value, flags


def _cut(old: Accumulator, self: Accumulator, acc: int, value: int, first: int) -> tuple[int, int]:
    total, flag = old._sum(acc, value, first)
    near, parts = number(total), (number(acc), number(value))
    if not all(np.isfinite(part) for part in (near, *parts)):
        return total, flag
    exact = Fraction(float(parts[0])) + Fraction(float(parts[1]))
    beyond = abs(Fraction(float(near))) > abs(exact)
    return word(np.nextafter(near, np.float32(0))) if beyond else total, flag


def _saved(old: Accumulator, self: Accumulator, value: int, w_scale: int) -> int:
    vars(self)["factors"] = value, w_scale
    return old.scale(value, w_scale)


def _fused(old: Accumulator, self: Accumulator, acc: int, value: int, first: int) -> tuple[int, int]:
    factors = vars(self).pop("factors", None)
    if factors is None:
        return old._sum(acc, value, first)
    total = fp32.fma32(number(factors[0]), fp16.to_f32(fp16.values(factors[1])), number(acc))
    return word(total), INVALID * bool(np.isnan(total))


def _apart(old: Accumulator, self: Accumulator, high: int, low: int, a_exp: int, b_exp: int) -> Converted:
    p, _, _ = old._join(high, low, a_exp, b_exp)
    parts = [self.convert(part, M8M8, a_exp, b_exp) for part in (high << 4, low)]
    with np.errstate(invalid="ignore"):
        total = number(parts[0][0]) + number(parts[1][0])
    return p, word(total), parts[0][1] | parts[1][1]


def _apart_in_half(old: Accumulator, self: Accumulator, *sums: int) -> Converted:
    p, value, flags = _apart(old, self, *sums)
    return p, word(float(fp16.round16(number(value)))) if self.partial == "fp16" else value, flags


def _two_joined(old: Accumulator, self: Accumulator, high: int, low: int, a_exp: int, b_exp: int) -> Converted:
    p, _, _ = old._join(high, low, a_exp, b_exp)
    (value, first), (low_value, second) = (self.convert(part, M8M8, a_exp, b_exp) for part in (high << 4, low))
    vars(self)["low"] = low_value
    return p, value, first | second


def _two_summed(old: Accumulator, self: Accumulator, acc: int, value: int, first: int) -> tuple[int, int]:
    low = vars(self).pop("low", None)
    total, flag = old._sum(acc, value, first)
    if low is None:
        return total, flag
    both, later = old._sum(total, low, 0)
    return both, flag | later


_accumulator = overriding(Accumulator)
PARTS: tuple[Variant, ...] = (
    _accumulator(
        "D-arith-2: partial sums are truncated to FP16",
        _half=lambda self, p, x: float(fp16.from_scaled(p, x, Fp16Mode(rounding="truncate"))),
    ),
    _accumulator(
        "D-arith-2: ties of partial sums go away from zero",
        _half=lambda self, p, x: float(rounding.to_nearest(np.ldexp(float(p), x), "half_away")),
    ),
    _accumulator(
        "D-arith-2: ties of partial sums go up",
        _half=lambda self, p, x: float(rounding.to_nearest(np.ldexp(float(p), x), "half_up")),
    ),
    _accumulator(
        "D-arith-2: partial sums saturate at 65504",
        _half=lambda old, self, p, x: float(rounding.saturated(np.asarray(old._half(p, x)))),
    ),
    _accumulator(
        "D-arith-2: subnormal partial sums are flushed",
        _half=lambda old, self, p, x: float(rounding.flushed(np.asarray(old._half(p, x)))),
    ),
    _accumulator(
        "D-arith-5: the first group is loaded, not added to +0",  # so that a -0 stays
        _sum=lambda old, self, acc, value, first: (
            (value, INVALID * bool(np.isnan(number(value)))) if first else old._sum(acc, value, first)
        ),
    ),
    _accumulator("D-harmonia-10: FP32 sums are truncated", _sum=_cut),
    _accumulator("D-harmonia-10: the product with the factor is fused with the sum", scale=_saved, _sum=_fused),
    _accumulator("D-harmonia-11: the nibbles' sums are converted separately, then added in FP32", _join=_apart),
    _accumulator("D-harmonia-11: the nibbles' sums are converted separately, then added in FP16", _join=_apart_in_half),
    _accumulator(
        "D-harmonia-11: the nibbles' sums are accumulated separately, as two groups",
        _join=_two_joined,
        _sum=_two_summed,
    ),
)


def variants(unit: type[Stepped[Any]]) -> tuple[Variant, ...]:
    """Variants of a unit with an accumulator: by options, and one for each of PARTS."""
    return (
        *choices("D-harmonia-7", "partial", "fp16", "fp32"),
        *choices("D-harmonia-8", "product", "fp16"),
        *(PARTS if unit is Accumulator else of_part(unit, "accumulator", PARTS)),
    )


def interleaved(count: int, config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Groups go in turn to `count` accumulators, which are added in pairs for the output (D-harmonia-10)."""
    value, clear = np.asarray(result.value).view(np.float32), np.asarray(inputs["clear"])
    sums = np.zeros((*value.shape[:-1], count), np.float32)
    place = np.zeros(value.shape[:-1], np.int64)
    acc, invalid = np.empty_like(value), np.zeros(value.shape[:-1], np.bool_)
    flags = np.array(result.flags)
    with np.errstate(invalid="ignore", over="ignore"):
        for event in range(value.shape[-1]):
            starts = clear[..., event] == 1
            sums, place, invalid = np.where(starts[..., None], np.float32(0), sums), place * ~starts, invalid & ~starts
            turn = np.arange(count) == place[..., None] % count
            sums = np.where(turn, sums + value[..., event, None], sums)
            place = place + 1
            acc[..., event] = _in_pairs(sums)
            invalid |= np.isnan(acc[..., event])
            flags[..., event] = flags[..., event] & ~np.uint8(INVALID) | INVALID * invalid
    return {"acc": fp16.canonical(acc).view(np.uint32), "flags": flags}


def _in_pairs(sums: np.ndarray) -> np.ndarray:
    while sums.shape[-1] > 1:
        sums = sums[..., ::2] + sums[..., 1::2]
    return np.asarray(sums[..., 0])


def scaled_late(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Up to four groups in a row that share a factor are added in FP32, and scaled once (D-harmonia-9)."""
    exact = np.asarray(result.p if hasattr(result, "p") else result.psum)
    rows = [np.array(result.acc, np.uint32).reshape(-1, exact.shape[-1]), np.array(result.flags)]
    flags = rows[1].reshape(rows[0].shape)
    names = ("mode", "clear", "a_exp", "b_exp", "w_scale")
    columns = (np.reshape(array, rows[0].shape).tolist() for array in (exact, *(inputs[name] for name in names)))
    for device, events in enumerate(zip(*columns, strict=True)):
        rows[0][device], flags[device] = _late(config, list(zip(*events, strict=True)), flags[device])
    return {"acc": rows[0].reshape(exact.shape), "flags": flags.reshape(exact.shape)}


def _late(config: Config, events: Sequence[tuple[int, ...]], flags: np.ndarray) -> tuple[list[int], list[int]]:
    """Accumulator and flags after every group of one device."""
    accumulator = Accumulator(config["partial"], config["product"])
    outer = inner = count = factor = invalid = 0
    acc, shown = [], []
    for (p, mode, clear, a_exp, b_exp, w_scale), flag in zip(events, flags.tolist(), strict=True):
        if clear:
            outer = inner = count = invalid = 0
        if count and (mode != M8W4 or count == 4 or w_scale != factor):
            outer, inner, count = add(outer, accumulator.scale(inner, factor))[0], 0, 0
        value, _ = accumulator.convert(p, mode, a_exp, b_exp)
        if mode == M8W4:
            inner, factor, count = add(inner, value)[0], w_scale, count + 1
            total, nan = add(outer, accumulator.scale(inner, factor))
        else:
            outer, nan = add(outer, value)
            total = outer
        invalid |= nan
        acc.append(total)
        shown.append(flag & ~INVALID | invalid)
    return acc, shown


ANSWERS: tuple[Variant, ...] = (
    Variant("D-harmonia-10", "two accumulators in turn, added for the output", answer=partial(interleaved, 2)),
    Variant(
        "D-harmonia-10", "four accumulators in turn, added in pairs for the output", answer=partial(interleaved, 4)
    ),
    Variant("D-harmonia-9", "one product with a factor that four groups share", answer=scaled_late),
)
