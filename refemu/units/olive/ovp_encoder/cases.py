"""Golden cases of ovp_encoder. Worked examples from [olive §3.1, Fig. 1b, §3.3]; then every value, midpoint and end."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from refemu import formats
from refemu.arith import prng
from refemu.formats import Element, Ovp
from refemu.units.stimuli import Block, Blocks, Seeds, words
from refemu.units.unit import Config

#: normal type -> (values, why)
PAPER: dict[str, tuple[tuple[Sequence[tuple[float, float]], str], ...]] = {
    "int4": (
        ([(48, 0), (0, 48)], "[olive §4.2] 48 is 0101 at bias 2, at either side of its victim"),
        ([(17.6, 1), (2, -98), (30.7, 3)], "[olive Fig. 1b] 17.6, -98 and 30.7 and the neighbours they prune"),
        ([(5, -3)], "two normal values"),
    ),
    "flint4": (
        ([(24, 3)], "[olive §3.3] the smallest outlier with flint4"),
        ([(-0.3, 16)], "[olive Tbl. 3] the largest normal value, next to one that rounds to 0 without a sign"),
    ),
    "int8": (
        ([(1 << 15, 1), (1, -(1 << 15))], "[olive §4.5] 2**15, the clip, at either side"),
        ([(127, -127)], "[olive Tbl. 3] the largest normal values"),
    ),
}


def paper(config: Config) -> Blocks:
    fmt = _format(config)
    if not fmt.far:
        for values, why in PAPER[fmt.normal.name]:
            yield _cases(why, values)


def edge(config: Config) -> Blocks:
    fmt = _format(config)
    values = boundaries(fmt)
    why = "every value, midpoint, threshold and end, and its float32 neighbours, next to a normal value"
    yield _cases(why, [(value, 1) for value in values])
    some = values if fmt.width == 4 or fmt.outlier is None or fmt.outlier.exp_bits == 4 else values[1::3]
    yield _cases("the same at the right", [(-1, value) for value in some])
    big, bigger = np.float32(fmt.boundary) * 2, np.float32(fmt.boundary) * 3
    above = np.nextafter(big, bigger)
    equal = [(big, big), (big, -big), (-big, big), (-bigger, -big), (big, above), (above, big)]
    why = "two outliers: left larger, right larger, equal, opposite, equal after rounding only"
    yield _cases(why, [(bigger, big), (big, bigger), *equal], "D-olive-5")
    smallest, largest = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
    pairs = [(1, -0.0), (-0.3, -0.49), (smallest, -smallest), (largest, -largest), (0, 0)]
    yield _cases("zeros, negatives that round to 0, subnormals, the largest float32", pairs, "D-olive-17")
    if fmt.far and fmt.outlier and fmt.width == 4:  # `far` itself has the code of the largest if its exponent wraps
        top = fmt.outlier.largest
        why = "outliers beyond the largest that has a code: 2, 4 and 8 times it"
        yield _cases(why, [(2 * top, 1), (-1, -4 * top), (8 * top, -1)], "D-olive-11")


def random(config: Config, seed: Seeds) -> Blocks:
    fmt = _format(config)
    drawn = words("ovp_encoder/random/value", seed, 2 * 256).reshape(-1, 2)
    grid = prng.bell(drawn).astype(np.float32) * np.float32(1 / (1 << 17))  # within -1 .. 1, standard deviation 0.29
    why = "bell-shaped, a standard deviation of a third of the largest normal value"
    yield _cases(why, grid * np.float32(fmt.normal.largest))
    yield _cases("bell-shaped, most pairs hold outliers", grid * np.float32(4 * fmt.boundary))


def exhaustive(config: Config) -> Blocks:
    fmt = _format(config)
    if fmt.width == 4:
        points = np.concatenate([-exact_points(fmt)[:0:-1], exact_points(fmt)])
        pairs = np.stack(np.meshgrid(points, points, indexing="ij"), axis=-1).reshape(-1, 2)
        yield _cases("every value, midpoint, threshold and end next to every other, of either sign", pairs)


def _format(config: Config) -> Ovp:
    """The pair format, the only kind that the unit takes."""
    return cast(Ovp, formats.find(config["fmt"]) if isinstance(config["fmt"], str) else config["fmt"])


def boundaries(fmt: Ovp) -> list[np.float32]:
    """Every value at which the output changes, with both neighbours and either sign, ascending by magnitude."""
    exact = exact_points(fmt)
    near = [np.nextafter(exact, np.float32(end)) for end in (-np.inf, np.inf)]
    return [sign * value for value in np.unique(np.concatenate([exact, *near])) for sign in (1, -1)]


def exact_points(fmt: Ovp) -> np.ndarray:
    """Magnitudes at which the output changes: values, midpoints, threshold and ends; float32, ascending from 0."""
    points = [*_points(fmt.normal, fmt.normal.largest), fmt.normal.largest]
    if fmt.outlier:
        points += [*_points(fmt.outlier, fmt.outlier.largest), fmt.outlier.smallest, fmt.outlier.largest, fmt.boundary]
    points += [fmt.far] if fmt.far else []
    return np.unique(np.array(points, np.float32))


def _points(fmt: Element, largest: int) -> list[float]:
    """Magnitudes up to `largest`, 0 included, and the midpoints between them."""
    magnitudes = np.unique(np.abs(fmt.decode(fmt.codes())))
    magnitudes = magnitudes[magnitudes <= largest]
    return [*magnitudes.tolist(), *((magnitudes[:-1] + magnitudes[1:]) / 2).tolist()]


def _cases(why: str, values: Any, decision: str = "") -> Block:
    return why, {"value": np.ascontiguousarray(values, np.float32).view(np.uint32)}, decision
