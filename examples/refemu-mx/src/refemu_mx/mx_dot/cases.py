"""Golden cases of mx_dot: every code, sums that cancel, scales at both ends of float32, NaN and infinities."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.units import Cases, Config, Kind
from refemu.units.stimuli import Seeds, words
from refemu_mx.elements import ELEMENTS, Element

BLOCK = 32


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind."""
    a, b = ELEMENTS[config["a"]], ELEMENTS[config["b"]]
    if kind == "edge":
        yield _cases(kind, "every number of both, at scale 1", numbers(a), numbers(b)[::-1], 127, 127)
        yield _cases(kind, "large terms that cancel, with a small one", *cancelling(a, b), 127, 127, "D-mx-8")
        scales = np.array([0, 127, 200, 254, 1, 110, *range(50, 68)])
        yield _cases(kind, "scales that give subnormal sums, and infinity", numbers(a), numbers(b), scales, scales)
        yield _cases(kind, "a scale of NaN", numbers(a)[:1], numbers(b)[:1], 255, 127, "D-mx-9")
        yield from _special(a, b)
    if kind == "random":
        drawn = words("mx_dot/random", seed, 48 * BLOCK).reshape(-1, BLOCK)
        codes = [_finite(fmt, drawn >> np.uint64(shift)) for fmt, shift in ((a, 0), (b, 8))]
        scales = (drawn[:, :2] >> np.uint64(20)).astype(np.int64) % 40 + 107
        yield _cases("random", "numbers of any code", *codes, scales[:, 0], scales[:, 1])


def numbers(fmt: Element) -> np.ndarray:
    """Blocks of every finite code."""
    codes = [code for code in range(1 << fmt.width) if np.isfinite(fmt.number(code))]
    return np.resize([fmt.largest_code, *codes], (24, BLOCK))


def cancelling(a: Element, b: Element) -> tuple[np.ndarray, np.ndarray]:
    """The largest product, once of each sign, with the smallest between and after them."""
    minus = (1 << a.width) - a.largest_code if a.exp_bits == 0 else a.largest_code | 1 << (a.width - 1)
    left, right = np.zeros((4, BLOCK), np.int64), np.zeros((4, BLOCK), np.int64)
    for row, (first, small, last) in enumerate(((0, 1, 2), (0, 31, 30), (3, 0, 4), (7, 8, 31))):
        left[row, [first, small, last]] = [a.largest_code, 1, minus]
        right[row, [first, small, last]] = [b.largest_code, 1, b.largest_code]
    return left, right


def _special(a: Element, b: Element) -> Iterator[Cases]:
    for name, fmt in (("a", a), ("b", b)):
        special = [code for code in range(1 << fmt.width) if not np.isfinite(fmt.number(code))]
        if special:
            left, right = np.ones((len(special), BLOCK), np.int64), np.ones((len(special), BLOCK), np.int64)
            (left if name == "a" else right)[:, 6] = special
            yield _cases("edge", f"one NaN or infinity in {name}", left, right, 127, 127, "D-mx-9")
    if a.specials == "ieee":
        infinite = a.largest_code + 1
        left, right = np.ones((3, BLOCK), np.int64), np.ones((3, BLOCK), np.int64)
        left[:, 3], right[1, 3] = infinite, 0
        left[2, 9] = infinite | 1 << (a.width - 1)
        yield _cases("edge", "infinity times zero, and infinities of both signs", left, right, 127, 127, "D-mx-9")


def _finite(fmt: Element, drawn: np.ndarray) -> np.ndarray:
    codes = (drawn & np.uint64((1 << fmt.width) - 1)).astype(np.int64)
    finite = np.array([np.isfinite(fmt.number(code)) for code in range(1 << fmt.width)])
    return np.where(finite[codes], codes, 1)


def _cases(kind: Kind, why: str, a: np.ndarray, b: np.ndarray, a_scale: Any, b_scale: Any, decision: str = "") -> Cases:
    scales = [np.resize(np.asarray(each, np.int64), len(a)) for each in (a_scale, b_scale)]
    return Cases(kind, why, {"a_scale": scales[0], "a_codes": a, "b_scale": scales[1], "b_codes": b}, decision)


def mark(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    return {"NOT_FINITE": ~np.isfinite(np.asarray(result.sum).view(np.float32))}
