"""Golden cases of mx_converter: every code of the source, scales at both ends, blocks of NaN and infinity."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.units import Cases, Config, Kind
from refemu.units.stimuli import Seeds, words
from refemu_mx.elements import ELEMENTS, Element

BLOCK = 32


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind."""
    fmt = ELEMENTS[config["source"]]
    if kind == "edge":
        codes = every(fmt)
        yield _cases(kind, "every number of the source, at scale 1", codes, 127)
        ends = np.repeat(codes, 4, axis=0)
        yield _cases(kind, "the same at scales at which the new one ends, or float32 does", ends, [0, 2, 254, 253])
        yield _cases(kind, "numbers of any size next to the largest", beside_largest(fmt), 127)
        yield _cases(kind, "zeros of both signs", np.array([[0, 1 << (fmt.width - 1)] * 16]), 127, "D-mx-2")
        yield _cases(kind, "a scale of NaN", codes[:2], 255, "D-mx-7")
        special = [code for code in range(1 << fmt.width) if not np.isfinite(fmt.number(code))]
        if special:
            table = np.resize(codes, (len(special), BLOCK))
            table[:, 9] = special
            yield _cases(kind, "one NaN or infinity in a block", table, 127, "D-mx-7")
    if kind == "random":
        drawn = words("mx_converter/random", seed, 16 * BLOCK).reshape(-1, BLOCK)
        codes = (drawn & np.uint64((1 << fmt.width) - 1)).astype(np.int64)
        finite = np.array([np.isfinite(fmt.number(code)) for code in range(1 << fmt.width)])
        scales = (drawn[:, 0] >> np.uint64(20)).astype(np.int64) % 255
        small = np.where(np.arange(len(codes))[:, None] % 2 == 0, codes & ~(1 << (fmt.width - 2)), codes)
        yield _cases("random", "numbers of any code and scale", np.where(finite[small], small, 1), scales)


def every(fmt: Element) -> np.ndarray:
    """Blocks with every finite code; the first has the largest in front."""
    codes = [code for code in range(1 << fmt.width) if np.isfinite(fmt.number(code))]
    order = [fmt.largest_code, *codes]
    return np.resize(order, (-(-len(order) // BLOCK), BLOCK))


def beside_largest(fmt: Element) -> np.ndarray:
    """Blocks with the largest number in one lane, and another quarter of all in every other."""
    codes = np.array([code for code in range(1 << fmt.width) if np.isfinite(fmt.number(code))])
    row, lane = np.indices((max(BLOCK, len(codes) // 4), BLOCK))
    return np.where(lane == row % BLOCK, fmt.largest_code, codes[(7 * lane + 5 * row) % len(codes)])


def _cases(kind: Kind, why: str, codes: np.ndarray, scales: Any, decision: str = "") -> Cases:
    table = np.asarray(codes, np.int64)
    return Cases(
        kind, why, {"scale_in": np.resize(np.asarray(scales, np.int64), len(table)), "codes_in": table}, decision
    )


def mark(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    return {"CLIPPED": result.clipped}
