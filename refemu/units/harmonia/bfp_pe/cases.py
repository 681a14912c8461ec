"""Golden cases of bfp_pe: a worked dot product of [harmonia §IV-B] in every mode, ends, passes, random reductions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.units import Config
from refemu.units.harmonia.bfp_accumulator import cases as bfp_accumulator_cases
from refemu.units.stimuli import Blocks, Inputs, Seeds, uniform

W4, M4, M8 = range(3)  # modes
LANES, ONE = 32, 0x3C00  #: pairs of a group; the FP16 word of 1


@dataclass(frozen=True)
class Group:
    """One transaction: signed values of the first lanes of both operands; the other lanes are +0."""

    mode: int
    a: Sequence[int]
    b: Sequence[int]
    a_exp: int = 15
    b_exp: int = 0
    w_scale: int = 0
    clear: int = 0

    def ports(self) -> dict[str, Any]:
        """Port values of a transaction."""
        a, b = (np.pad(np.array(values), (0, LANES - len(values))) for values in (self.a, self.b))
        others = {name: getattr(self, name) for name in ("mode", "clear", "a_exp", "b_exp", "w_scale")}
        codes = {"b": b & 15, "b_sign": 0 * b} if self.mode == W4 else {"b": np.abs(b), "b_sign": (b < 0).astype(int)}
        return {**others, "a_sign": (a < 0).astype(int), "a_mag": np.abs(a), **codes}


A, B = (201, -50, 6), (-224, 144, 56)  #: mantissas of the worked example, E = 17 and 16


def worked(mode: int, clear: int = 0) -> Group:
    """The worked example: near (6.28, -1.57, 0.2) by (-3.5, 2.25, 0.875), or by INT4 (7, -8, 3) times a factor."""
    if mode == W4:
        return Group(mode, A, (7, -8, 3), 17, w_scale=0x224C, clear=clear)
    return Group(mode, A, B if mode == M8 else (-14, 9, 3), 17, 16, clear=clear)


def paper(config: Config) -> Blocks:
    why = "[harmonia §IV-B] one group in each mode: M8W4 1825, M8M4 -3246, M8M8 -51888"
    yield why, _cases(*([worked(mode)] for mode in (W4, M4, M8)))


def edge(config: Config) -> Blocks:
    yield (
        "five groups in each mode: a pass holds four, in M8M8 two; then a new output",
        _cases(*[[worked(mode) for _ in range(5)] + [worked(mode, 1)] for mode in (W4, M4, M8)]),
        "D-harmonia-21",
    )
    why = "the mode changes inside a reduction: each change starts a pass"
    yield why, _cases([worked(mode) for mode in (M4, M8, M4, M4, M8, M8, M8, M4)]), "D-harmonia-21"
    full, down = [255] * LANES, [-255] * LANES
    tops = [
        Group(W4, full, [-8] * LANES, 1, w_scale=ONE),
        Group(M4, full, [15] * LANES, 8, 8),
        Group(M8, full, full, 8, 8),
        Group(M8, full, down, 8, 8),
    ]
    yield "the largest sums: 65,280, 122,400 and 2,080,800", _single(tops)
    same = [Group(M8, A, [16 * x for x in (-14, 9, 3)], 17, 16), Group(M4, A, (-14, 9, 3), 17, 16)]
    why = "8-bit mantissas whose low nibbles are 0, and the same at 4 bits: equal accumulators"
    yield why, _cases(*[[group, group] for group in same]), "D-harmonia-12"
    over = [
        Group(W4, full, [7] * LANES, 30, w_scale=ONE),
        Group(M4, full, [15] * LANES, 30, 30),
        Group(M8, full, full, 30, 30),
        Group(M8, full, down, 30, 30),
    ]
    why = "sums beyond FP16, and infinities of both signs"
    yield why, _cases([over[0], over[1]], [over[2], over[3]], [over[1], over[3]]), "D-harmonia-7"
    yield "a NaN, then a new output: the flag falls", _cases([over[1], over[3], worked(M8, 1)])
    small = [Group(mode, (1,), (sign,), a, b) for mode in (M4, M8) for sign in (1, -1) for a, b in ((1, 8), (0, 0))]
    yield "sums that become subnormal or 0 in FP16", _single(small), "D-harmonia-7"
    factors = [Group(W4, A, (7, -8, 3), 17, w_scale=w) for w in (0, 1, 0x7BFF)]
    yield "weight factors 0, subnormal, largest", _single(factors), "D-harmonia-8"
    tie = [Group(M4, (255, 1), (8, 9), 20, 20), Group(M8, (255, 6), (8, 2), 22, 22)]
    yield "sums halfway between two FP16 values", _single(tie), "D-harmonia-7"
    exact = [Group(W4, (1,), (1,), 0, w_scale=ONE), Group(M4, (1,), (1,), 8, 8), Group(M8, (1,), (1,), 10, 10)]
    yield "sums that are subnormal in FP16 and exact: no flag", _single(exact), "D-harmonia-7"
    least = [
        Group(W4, A, (7, -8, 3), 0, w_scale=0x224C),
        *[Group(mode, A, b, *e) for mode, b in ((M4, (-14, 9, 3)), (M8, B)) for e in ((0, 30), (30, 0))],
    ]
    yield "shared exponents of 0 count as 1", _single(least)
    why = "the flags of an output end with it"
    yield why, _cases(*[[group, worked(M4, 1)] for group in (*over, small[0])]), "D-harmonia-7"
    terms = ((128, 8, 22), (128, 8, 10), (205, 5, 10))
    (big, half, above), minus = ([Group(M4, (sign * a,), (b,), e, e) for a, b, e in terms] for sign in (1, -1))
    yield (
        "2^14, then half a unit in its last FP32 place and 1025/1024 of that: ties, and values far below",
        _cases([big, half, above, half, half], [big, above, above, half, minus[1]], [*minus, minus[1], above]),
        "D-harmonia-10",
    )
    uneven = [255] * 31 + [254]
    sevens = [7] * LANES
    pairs = (
        (uneven, sevens, 0x3FFF),
        (uneven, sevens, 0x35AB),
        (full, [*sevens[1:], 6], 0x3FFF),
        ([253] * 30, sevens[2:], 0x37FF),
    )
    opposite = [[Group(W4, [sign * x for x in a], b, 15, w_scale=w) for sign in (1, -1)] for a, b, w in pairs]
    why = "a sum and its negative cancel exactly, since each product is rounded before it is added"
    yield why, _cases(*opposite), "D-harmonia-10"
    why = "an output whose first value is -0 starts from +0, so it is +0"
    first = [
        Group(W4, (0,), (0,), 15, w_scale=0xBC00, clear=1),
        Group(M4, (-1,), (1,), 0, 0, clear=1),
        Group(M8, (-1,), (1,), 0, 0, clear=1),
        Group(W4, (1,), (-1,), 1, w_scale=0, clear=1),
    ]
    yield why, _single(first), "D-arith-5"
    why = "a reduction cut off after infinity, then one that does not clear"
    yield why, _cases([over[0], over[3]], [worked(M8), worked(M8)])
    why = "one factor for five groups, then another: every group is scaled separately"
    sums = [((201, -50, 6), 17), ((-97, 3, 255), 15), ((251, 249, -2), 12), ((-19, 1, 1), 18), ((83, 82, 85), 16)]
    shared = [Group(W4, a, (7, -8, 3), a_exp, w_scale=w) for w in (0x2C67, 0x2BFF) for a, a_exp in sums]
    other = [Group(W4, a, (-5, 7, 1), a_exp, w_scale=w) for w in (0x2C67, 0x3001) for a, a_exp in sums]
    yield why, _cases(shared, other), "D-harmonia-9"
    zero = [Group(mode, (0,), (0,), 0, 0) for mode in (W4, M4, M8)]
    yield "groups of zeros leave the accumulator alone", _cases([worked(M4), *zero, worked(M8)])


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("bfp_pe", config, (3, 8), seed)
    drawn |= {"mode": (drawn["mode"] % 3)[:, :1] + np.zeros((1, 8), np.int64), "clear": drawn["clear"] & 0}
    yield "uniform groups, eight to an output", legal(config, drawn)
    near = {"a_exp": 12 + (drawn["a_exp"] & 7), "b_exp": 10 + (drawn["b_exp"] & 7)}
    near |= {"w_scale": 0x2000 + (drawn["w_scale"] & 0xFFF), "clear": (drawn["w_scale"] >> 13 == 0).astype(np.int64)}
    mixed = {"mode": 1 + (drawn["a_exp"] & 1)}  # as scores by values of both precisions
    yield "exponents and factors as in real tensors", legal(config, {**drawn, **near})
    yield "the same, 4 and 8 bits mixed in a reduction", legal(config, {**drawn, **near, **mixed})
    shared = {"mode": 0 * drawn["mode"] + W4, "clear": 0 * drawn["clear"]}
    shared |= {"w_scale": near["w_scale"][:, np.arange(8) // 4 * 4]}
    ends = np.arange(len(drawn["clear"])) % 3 != 1  # the first and the last reduction of each seed
    some = {name: array[ends] for name, array in {**drawn, **near, **shared}.items()}
    yield "weights: the same, a factor for four groups", legal(config, some)


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` with 0 where the mode has no field and with finite weight factors."""
    mode, b, b_sign = np.asarray(inputs["mode"]), np.asarray(inputs["b"]), np.asarray(inputs["b_sign"])
    rest = bfp_accumulator_cases.legal(config, {**inputs, "low": 0 * mode})
    del rest["low"]
    wide, signed = (mode == M8)[..., None], (mode != W4)[..., None]
    return {**rest, "b": np.where(wide, b, b & 15).astype(b.dtype), "b_sign": b_sign * signed.astype(b_sign.dtype)}


def _cases(*sequences: Sequence[Group]) -> Inputs:
    """Each sequence of groups is a case; all are equally long."""
    table = [[group.ports() for group in sequence] for sequence in sequences]
    return {name: np.array([[row[name] for row in case] for case in table]) for name in table[0][0]}


def _single(groups: Sequence[Group]) -> Inputs:
    """Cases of one group."""
    return _cases(*([group] for group in groups))


mark = bfp_accumulator_cases.mark
