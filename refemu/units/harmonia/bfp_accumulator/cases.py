"""Golden cases of bfp_accumulator: the conversions of [harmonia §IV-B] at their ends, ties, NaN, random groups."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Blocks, Inputs, Seeds, finite, sequences, uniform

Event = tuple[int, int, int, int, int, int, int]  #: mode, clear, psum, low, a_exp, b_exp, w_scale
NAMES = ("mode", "clear", "psum", "low", "a_exp", "b_exp", "w_scale")
W4, M4, M8 = range(3)  # modes
MOST, ONE, TOP, LEAST = 122_400, 0x3C00, 0x7BFF, 1  #: largest sum of a sub-PE; FP16 words of 1, 65504 and 2^-24


def paper(config: Config) -> Blocks:
    why = "[harmonia §IV-B] one group in each mode: 1825 by a factor, -3246 alone, and fused with 48"
    worked = [(W4, 1, 1825, 0, 17, 0, 0x224C), (M4, 1, -3246, 0, 17, 16, 0), (M8, 1, -3246, 48, 17, 16, 0)]
    yield why, _single(worked)


def edge(config: Config) -> Blocks:
    w_top = [(W4, 1, sign * p, 0, 30, 0, ONE) for p in (255, 256, 65_280) for sign in (1, -1)]
    b_top = [(M4, 1, MOST, 0, 30, 30, 0), (M8, 1, MOST, MOST, 30, 30, 0), (M4, 1, -MOST, 0, 31, 31, 0)]
    yield "partial sums at and over the end of FP16, in every mode", _single(w_top + b_top), "D-harmonia-7"
    low = [(mode, 1, sign, 0, a, b, 0) for mode in (M4, M8) for sign in (1, -1) for a, b in ((0, 0), (1, 8), (15, 1))]
    yield "partial sums that become subnormal or 0 in FP16", _single(low), "D-harmonia-7"
    ties = [(M4, 1, p, 0, 20, 20, 0) for p in (2049, 2051, 4098, -4102)]
    yield "halfway between two FP16 values: to even", _single(ties), "D-harmonia-7"
    factors = [(W4, 1, p, 0, 15, 0, w) for p in (1825, -7) for w in (0, LEAST, 0x03FF, TOP, 0xBC00)]
    yield "weight factors 0, subnormal, largest, negative", _single(factors), "D-harmonia-8"
    top = [(W4, 0, 65_280, 0, 30, 0, ONE), (W4, 0, -65_280, 0, 30, 0, ONE), (W4, 0, 1, 0, 20, 0, ONE)]
    why = "infinity minus infinity is NaN and stays until the next output"
    yield why, _cases([*top, (W4, 1, 1, 0, 20, 0, ONE)], [(W4, 0, 65_280, 0, 30, 0, 0), *top]), "D-harmonia-10"
    ends = [(M8, 0, sign * MOST, sign * MOST, 22, 22, 0) for sign in (1, -1)]
    yield (
        "sums of 8 by 8 bits at both ends, and back to +0",
        _cases([*ends, (M8, 0, 0, 0, 22, 22, 0)], [ends[1], ends[0], (M8, 0, 1, -16, 22, 22, 0)]),
        "D-harmonia-11",
    )
    big, small = (M4, 0, MOST, 0, 30, 20, 0), (M4, 0, 1, 0, 1, 30, 0)
    why = "a small term is lost next to a large one, so the order of groups shows"
    yield why, _cases([big, small, small], [small, small, big]), "D-harmonia-10"
    shared = [(W4, 0, p, 0, a, 0, 0x2C67) for p, a in ((1825, 17), (-733, 15), (64_001, 12), (-19, 18), (5003, 16))]
    why = "one factor for five groups, then another: every group is scaled separately"
    yield why, _cases(*[[*shared, *((*event[:-1], w) for event in shared)] for w in (0x2BFF, 0x3001)]), "D-harmonia-9"
    why = "a sum and its negative cancel exactly, since each product is rounded before it is added"
    yield (
        why,
        _cases(
            *[
                [(W4, 0, sign * p, 0, 15, 0, 0x3FFF) for sign in (1, -1)]
                for p in (57_113, 65_279, 40_961, 12_289, 61_681)
            ]
        ),
        "D-harmonia-10",
    )
    why = "an output whose first value is -0 starts from +0, so it is +0; so is a second one"
    zero = [(W4, 0, 0, 0, 15, 0, 0xBC00), (M4, 0, -1, 0, 0, 0, 0), (W4, 0, -1, 0, 1, 0, 0)]
    first = [(event[0], 1, *event[2:]) for event in zero]
    yield why, _cases(*zip(first, zero, strict=True)), "D-arith-5"
    why = "a case that ends with an infinity and flags, then one that does not clear"
    yield why, _cases([top[0], (M4, 0, 1, 0, 0, 0, 0)], [(M4, 0, 5, 0, 20, 20, 0), (M8, 0, 5, 3, 20, 20, 0)])


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("bfp_accumulator", config, (32, 16), seed)
    drawn |= {"mode": drawn["mode"] % 3, "clear": (drawn["clear"] & (drawn["low"] & 7 == 0)).astype(np.int64)}
    drawn |= {name: drawn[name] * 120_000 >> 17 for name in ("psum", "low")}
    yield "uniform sums and exponents, modes mixed", legal(config, drawn)
    near = {name: 12 + (drawn[name] & 7) for name in ("a_exp", "b_exp")}
    near |= {"w_scale": 0x2000 + (drawn["w_scale"] & 0xFFF)}
    yield "exponents and weight factors as in real tensors", legal(config, {**drawn, **near})
    shared = near | {"w_scale": near["w_scale"][:, np.arange(16) // 4 * 4], "mode": 0 * drawn["mode"] + W4}
    some = {name: array[::4] for name, array in {**drawn, **shared}.items()}
    yield "weights: the same, a factor for four groups", legal(config, some)


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` with 0 where the mode has no field and with finite weight factors."""
    mode, w_scale = inputs["mode"], np.asarray(inputs["w_scale"])
    return {
        **inputs,
        "low": np.where(mode == M8, inputs["low"], 0),
        "b_exp": np.where(mode == W4, 0, inputs["b_exp"]),
        "w_scale": np.where(mode == W4, finite(w_scale), 0).astype(w_scale.dtype),
    }


def _cases(*cases: Sequence[Event]) -> Inputs:
    """Each sequence of groups is a case; all are equally long."""
    return sequences(NAMES, cases)


def _single(events: Sequence[Event]) -> Inputs:
    """Cases of one group."""
    return _cases(*([event] for event in events))


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    return {
        name: np.asarray(result.flags >> bit & 1, np.bool_)
        for bit, name in enumerate(("FP16_OVERFLOW", "FP16_UNDERFLOW", "INVALID"))
    }
