"""Golden cases of olive_requant. Sums of [olive §4.2] first; then ties of every rounding, ends, and the encoder.

Values in grid units are quotients of an fp16 word and a scale.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16, integers, prng
from refemu.formats import Ovp
from refemu.units.olive.ovp_encoder import cases as encoder_cases
from refemu.units.olive.ovp_encoder import pair_format
from refemu.units.stimuli import Blocks, Inputs, Seeds, finite, words
from refemu.units.unit import Config

NONE = -0.0  #: bias that changes no sum
PLAIN = (NONE, NONE)
HALF = 0x3F00_0000  #: float32 pattern of 0.5
TOP = (1 << 31) - 1  #: the largest sum
TINY, HUGE = float.fromhex("0x1p-126"), float.fromhex("0x1.fffffep127")  #: ends of the scales
BIG = 1 << 24  #: up to here float32 holds every integer
Row = tuple[Sequence[int], float, Sequence[float], Sequence[float], float]  #: acc, scales, biases, next scale


def two(power: int) -> float:
    """A power of two."""
    return math.ldexp(1.0, power)


def paper(config: Config) -> Blocks:
    fmt = pair_format(config["fmt"])
    largest, beyond = fmt.normal.largest, fmt.outlier.smallest if fmt.outlier else fmt.normal.largest
    rows: list[Row] = [
        ((240, -240), 0.5, (0.25, 0.125), PLAIN, 30.0 / largest),
        ((2 * beyond, 3), 1.0, (0.5, 0.5), PLAIN, 1.0),
        ((-3, 2 * beyond), 1.0, (0.5, 0.5), PLAIN, 1.0),
        ((largest, -largest), 0.5, (2.0, 2.0), PLAIN, 1.0),
    ]
    yield "[olive §4.2] the sum 240 at two scales; outliers at either side; the largest normal values", _rows(rows)


def edge(config: Config) -> Blocks:
    yield from _rescaling()
    yield from _middles()
    yield from _rounding()
    yield from _encoding(pair_format(config["fmt"]))


def random(config: Config, seed: Seeds) -> Blocks:
    """Sums and scales like those of a model; then sums and words of all magnitudes."""
    largest = pair_format(config["fmt"]).normal.largest
    drawn = words("olive_requant/random", seed, 8 * 48).reshape(-1, 8)
    bell = prng.bell(drawn).astype(np.float64) / (1 << 17)  # within -1 to 1, standard deviation 0.29
    steps = 1 + (drawn[:, 5:8] >> np.uint64(41)).astype(np.float64) / (1 << 23)  # 1 to 2
    sums = integers.from_float(np.rint(bell[:, :2] * (1 << 14)))
    bias, following = (
        np.where(drawn[:, 2:4] & np.uint64(3) == 0, bell[:, 2:4], NONE),
        (1 + bell[:, 4] / 4) / (4 * largest),
    )
    model = _inputs(sums, steps[:, 0] / 64, steps[:, 1:] / 256, bias, following)
    yield "bell-shaped sums, scales of a binade, a quarter of the biases", model
    places = (drawn[:, 3:5] & np.uint64(31)).astype(np.int64)
    wide = (drawn[:, :2] >> np.uint64(32)).astype(np.int64) - (1 << 31) >> places
    scale = np.ldexp(steps, (drawn[:, 5:8] & np.uint64(15)).astype(np.int64) - 12)
    following = scale[:, 0] * np.ldexp(1.0, 6 - places[:, 0] % 20) / largest
    every = _inputs(wide, scale[:, 0], scale[:, 1:] / 64, NONE, following)
    yield "sums and scales of many magnitudes", every


def _rescaling() -> Blocks:
    """The three roundings of D-olive-42, and the bias after them."""
    sums = [BIG + 1, BIG + 3, -BIG - 1, 2 * BIG + 2, 2 * BIG + 6, TOP, -TOP - 1, TOP - 63, TOP - 64, -TOP + 63, 1, 0]
    rows: list[Row] = [((acc, -acc - 1), 0.5, (two(-15), two(-16)), PLAIN, 0.125) for acc in sums]
    why = "2**24 + 1 and other sums that float32 does not hold, ties to either side; the ends of 32 bits"
    yield why, _rows(rows), "D-olive-42"
    scales = np.float32(1) + np.float32(two(-23)) * np.arange(1, 33, 3, dtype=np.float32)
    odd = [(3 * BIG // 7 + 2 * n + 1, -(5 * BIG // 9) - 6 * n) for n in range(len(scales))]
    rows = [(acc, float(scale), (float(scale), 3.0), PLAIN, two(19)) for acc, scale in zip(odd, scales, strict=True)]
    yield "scales whose product float32 does not hold", _rows(rows), "D-olive-42"
    rows = [
        ((TOP, 1), TINY, (TINY, 1.0), PLAIN, TINY),
        ((-5, 5), TINY, (0.5, two(-20)), PLAIN, 1.0),
        ((-5, 0), two(-100), (two(-60), 1.0), (NONE, 0.0), 1.0),
        ((TOP, -TOP - 1), HUGE, (1.0, 0.5), PLAIN, HUGE),
        ((1, -1), HUGE, (1.0, TINY), PLAIN, HUGE),
        ((0, -1), two(127), (1.0, two(-127) * 2), PLAIN, 1.0),
    ]
    yield "scales at both ends of float32; products that are subnormal, 0 or near infinity", _rows(rows)
    rows = [
        ((0, -1), 1.0, (1.0, two(-40)), (0.0, 0.0), 1.0),
        ((-1, -1), TINY, (two(-30), two(-30)), (NONE, 0.0), 1.0),
        ((-3, -7), TINY, (two(-40), two(-60)), PLAIN, 1.0),
        ((-9, 9), TINY, (two(-25), two(-25)), PLAIN, 0.5),
        ((2049, -2049), 1.0, (1.0, 1.0), (1.0, -1.0), 64.0),
        ((2051, 4102), 0.5, (2.0, 1.0), (0.5, -0.5), 64.0),
        ((BIG - 1, 1 - BIG), 1.0, (two(-12), two(-12)), (two(-13), two(-24)), 1024.0),
        ((65504, -65504), 1.0, (1.0, 1.0), (16.0, -15.0), 1024.0),
        ((7, -9), 0.25, (1.0, 1.0), (-1.75, 2.25), 0.125),
        ((1, -1), two(-20), (two(-4), two(-4)), PLAIN, two(-24)),
        ((-1, 1), two(-20), (two(-4), two(-4)), PLAIN, two(-24)),
    ]
    why = "biases: zeros of both signs, sums that an early rounding would move, cancellation; smallest outputs"
    yield why, _rows(rows), "D-olive-55"


def _middles() -> Blocks:
    """Outputs so near the midpoint of two fp16 words that each rounding in float32 decides the word."""
    drawn = words("olive_requant/middles", 0, 5 * 48).reshape(-1, 5)
    short, long = ((drawn[:, place] >> np.uint64(shift)).astype(np.int64) | 1 for place, shift in ((0, 41), (1, 34)))
    acc = np.stack([long, -short], axis=-1)
    scale_a = (1 + (drawn[:, 2] >> np.uint64(41)).astype(np.float64) / (1 << 23)) / (1 << 12)
    middle = 2049 + 2 * (drawn[:, 3:] >> np.uint64(54)).astype(np.float64)  # 2049 to 4095
    exact = _inputs(acc, scale_a, middle / (np.abs(acc) * scale_a[:, None]), NONE, 64.0)
    yield "outputs near the midpoint of two fp16 words, sums of 23 and of 30 bits", exact, "D-olive-42"
    bias = 1000.0 + (drawn[:, 2:4] >> np.uint64(55)).astype(np.float64)
    sums = 16 + (drawn[:, :2] >> np.uint64(52)).astype(np.int64)
    above = middle + two(-13)  # half a unit in the last place of float32
    why = "rescaled sums whose rounding to float32 decides the word after the bias"
    yield why, _inputs(sums, 1.0, (above - bias) / sums, bias, 64.0), "D-olive-55"


def _rounding() -> Blocks:
    """fp16 words and their ends."""
    ties = [2049, 2051, 4098, 4102, 4099, 4097, 65503, 32776, 32792]
    rows: list[Row] = [((n, -n), 1.0, (1.0, 1.0), PLAIN, 32.0) for n in ties]
    rows += [((n, -n - 2), two(-15), (two(-10), two(-10)), PLAIN, two(-14)) for n in range(1, 24, 3)]
    rows += [((2 * n + 1, -2 * n - 1), two(-12), (two(-13), two(-12)), PLAIN, two(-13)) for n in (1023, 1024, 511)]
    yield "halfway between fp16 words, next to it, subnormal and at the smallest normal", _rows(rows), "D-arith-2"
    rows = [((acc, -acc), step, (1.0, 1.0), PLAIN, 32.0) for acc, step in _beside(2049) + _beside(2051)]
    yield "products that float32 rounds onto the midpoint of two fp16 words", _rows(rows), "D-olive-42"
    edge = [65519, 65520, 65535, 65536, 100_000, TOP]
    rows = [((n, -n), 1.0, (1.0, 0.5), PLAIN, 64.0) for n in edge]
    rows += [((3, -n), 1.0, (1.0, 1.0), PLAIN, 1.0) for n in edge]
    rows += [((-n, n - 7), 1.0, (1.0, 1.0), PLAIN, 2.0) for n in edge]
    yield "outputs at and beyond the end of fp16: infinity from 65,520 on", _rows(rows), "D-olive-52"
    rows = [
        ((3, 4), 1.0, (1.0, 1.0), PLAIN, two(-126)),
        ((-60000, 1), 1.0, (1.0, 1.0), PLAIN, two(-120)),
        ((1, 60000), 1.0, (1.0, 1.0), PLAIN, two(-113)),
        ((5, -65000), 1.0, (two(-24), 1.0), PLAIN, two(-112)),
        ((9, -9), 1.0, (two(-20), two(-24)), PLAIN, HUGE),
    ]
    yield "quotients at and beyond the ends of float32", _rows(rows), "D-olive-53"


def _beside(middle: int) -> list[tuple[int, float]]:
    """Sums and scales whose exact product, on the side of the even neighbour, rounds to `middle` in float32.

    A device that rounds the product once goes to another neighbour than one that rounds twice.
    """
    acc = np.arange(3001, 9001, 2)
    scale = (np.float32(middle) / acc.astype(np.float32)).astype(np.float32)
    exact = acc * scale.astype(np.float64)  # 13 by 24 bits
    side = exact > middle if middle % 4 == 1 else exact < middle
    places = np.flatnonzero(side & (exact.astype(np.float32) == middle))[:4]
    return [(int(acc[place]), float(scale[place])) for place in places]


def _encoding(fmt: Ovp) -> Blocks:
    """Every value at which the output of the encoder changes."""
    exact = encoder_cases.exact_points(fmt)
    signed = np.stack([exact, -exact], axis=-1).reshape(-1)
    yield "every value, midpoint, threshold and end, of either sign, at the left", _quotients(signed, 1.0)
    yield "the same at the right", _quotients(signed if fmt.width == 4 else signed[1::5], -1.0, right=True)
    ends = [fmt.boundary, fmt.normal.largest + 0.5, *([fmt.far] if fmt.far else [])]
    ends += [fmt.outlier.smallest, fmt.outlier.largest] if fmt.outlier else []
    near = np.array([np.nextafter(np.float32(end), np.float32(to)) for end in ends for to in (0, np.inf)], np.float32)
    yield "neighbours of threshold and ends", _quotients(np.concatenate([near, -near]), 1.0)
    big = int(fmt.boundary) * 2
    two_outliers = ((3, 2), (2, 3), (2, 2), (2, -2), (-2, 2), (-3, -2))
    rows: list[Row] = [((left * big, right * big), 0.5, (1.0, 1.0), PLAIN, 1.0) for left, right in two_outliers]
    rows += [((8 * big + left, 8 * big + 1 - left), 0.125, (1.0, 1.0), PLAIN, 1.0) for left in (0, 1)]
    why = "two outliers: left larger, right larger, equal, opposite, equal after rounding only"
    yield why, _rows(rows), "D-olive-5"
    thirds = [(n, -3 * n) for n in (9, 19, 27, 45, 57, 63, 85, 95, 117, 129, 257, 411)]
    rows = [(acc, 1.0, (0.5, 0.5), PLAIN, step) for acc in thirds for step in (1 / 3, 0.1, 0.7, 3.0, 1 / 49)]
    yield "scales without an exact reciprocal", _rows(rows), "D-olive-25"
    # float32 values before fp16's rounding have another code
    middles = [0.5, 1.5, 2.5, fmt.normal.largest - 0.5, float(fmt.boundary)]
    sums = [int(middle * (1 << 20)) + step for middle in middles for step in (-1, 1)]
    rows = [((acc, -acc), two(-20), (1.0, 1.0), PLAIN, 1.0) for acc in sums]
    yield "values that fp16 rounds onto a midpoint between two codes", _rows(rows), "D-olive-54"


def _quotients(targets: np.ndarray, other: float, right: bool = False) -> Inputs:
    """Rows whose value in grid units is a target; the other element is near `other`."""
    words, scales = _reached(targets)
    beside = integers.from_float(np.rint(other * np.abs(scales) * 256))
    acc = np.stack([beside, words * 256] if right else [words * 256, beside], axis=-1)
    return _inputs(acc, two(-4), two(-4), NONE, scales)


def _reached(targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integers below 2**11 and positive float32 scales whose float32 quotient is each of `targets`."""
    values, scales = np.zeros(len(targets), np.int64), np.ones(len(targets), np.float32)
    missing = targets != 0
    for value in range((1 << 11) - 1, 0, -1):  # long words, whose reciprocal products are seldom exact
        if not missing.any():
            break
        with np.errstate(divide="ignore"):
            scale = np.float32(value) / np.abs(targets)
        fits = missing & (np.float32(value) / scale == np.abs(targets))
        values[fits], scales[fits], missing = value, scale[fits], missing & ~fits
    return np.where(targets < 0, -values, values), scales


def _rows(rows: Sequence[Row]) -> Inputs:
    return _inputs(*map(np.array, zip(*rows, strict=True)))


def _inputs(acc: np.ndarray, scale_a: Any, scale_w: Any, bias: Any, scale_next: Any) -> Inputs:
    """Integers and real values as the ports read them; one real value is that of all rows."""
    scales: dict[str, tuple[Any, Any]] = {
        "scale_a": (scale_a, len(acc)),
        "scale_w": (scale_w, acc.shape),
        "scale_next": (scale_next, len(acc)),
    }
    ports = {name: np.full(shape, values, np.float32).view(np.uint32) for name, (values, shape) in scales.items()}
    bias = fp16.bits(fp16.to_f16(np.full(acc.shape, bias)))
    return {"acc": np.clip(acc, -TOP - 1, TOP).astype(np.int32), "bias": bias, **ports}


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` with finite biases, and scales whose product is finite."""
    values = {name: np.asarray(array) for name, array in inputs.items()}
    bias, scale_w = values["bias"], values["scale_w"]
    with np.errstate(over="ignore", under="ignore"):
        a, w = (values[name].astype(np.uint32).view(np.float32) for name in ("scale_a", "scale_w"))
        wide = np.isinf(a[..., None] * w)
    below_one = np.where(wide, scale_w & 0x007F_FFFF | HALF, scale_w).astype(scale_w.dtype)
    return {**values, "bias": finite(bias), "scale_w": below_one}


def mark(config: Config, inputs: Inputs, result: Any) -> dict[str, np.ndarray]:
    size = result.y & 0x7FFF
    return {
        "OUTLIER": result.kind != 0,
        "INEXACT": (result.acc_f32.view(np.float32) != np.asarray(inputs["acc"]).astype(np.float64)).any(axis=-1),
        "OVERFLOW": result.overflow.any(axis=-1),
        "SUBNORMAL": ((size > 0) & (size < 0x0400)).any(axis=-1),
    }
