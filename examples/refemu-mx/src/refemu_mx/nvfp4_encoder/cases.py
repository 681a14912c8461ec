"""Golden cases of nvfp4_encoder: elements and midpoints, scales at both ends, values where two orders differ."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.units import Cases, Config, Kind
from refemu.units.stimuli import Seeds, words
from refemu_mx.elements import E2M1

BLOCK = 16


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind."""
    if kind == "edge":
        yield _cases(kind, "every magnitude and midpoint at scale 1, both signs", elements(), 1.0)
        tops = 6 * 2.0 ** np.arange(-16, 12)[:, None] * np.linspace(-1, 1, BLOCK)
        yield _cases(kind, "scales from zero to beyond the largest", tops, 1.0, "D-mx-11")
        yield _cases(
            kind, "the same under factors that overflow and underflow", tops, np.resize([1e38, 1e-38, 0.37], 28)
        )
        yield _cases(kind, "values that an order of the operations takes over a midpoint", *midpoints(), "D-mx-10")
        yield _cases(kind, "zeros and subnormal numbers", np.outer([0, 1e-44, -1e-44], np.ones(BLOCK)), 3e38)
        yield _cases(kind, "negative zeros", np.full((1, BLOCK), -0.0), 1.0, "D-mx-6")
        table = np.full((4, BLOCK), 0x3F800000, np.uint32)
        table[0, 15], table[1, 0], table[2, 7], table[3, 9] = 0x7FC00000, 0x7F800000, 0xFF800000, 0x7FFFFFFF
        yield Cases(kind, "NaN and infinities", {"factor": _words([1.0] * 4), "x": table}, "D-mx-3")
    if kind == "random":
        drawn = words("nvfp4_encoder/random", seed, 32 * BLOCK).reshape(-1, BLOCK)
        field = 120 + ((drawn >> np.uint64(30)) % np.uint64(8)).astype(np.uint32)
        sign = (drawn >> np.uint64(63)).astype(np.uint32) << np.uint32(31)
        x = sign | field << 23 | (drawn & np.uint64(0x7FFFFF)).astype(np.uint32)
        factor = np.uint32(0x40000000) + (drawn[:, 0] >> np.uint64(20) & np.uint64(0x1FFFFFF)).astype(np.uint32)
        yield Cases("random", "values within eight binades, any factor", {"factor": factor, "x": x}, "D-mx-10")


def elements() -> np.ndarray:
    """Blocks with a maximum of 6, and 15 other magnitudes or midpoints."""
    values = np.array([E2M1.number(code) for code in range(8)])
    points = np.concatenate([values, (values[1:] + values[:-1]) / 2])
    table = np.zeros((2, BLOCK))
    table[:, 0] = 6
    table[0, 1:], table[1, 1:] = points, -points
    return table


def midpoints() -> tuple[np.ndarray, np.ndarray]:
    """Blocks of midpoints of E2M1 and their neighbours, in units of a scale, and factors with long mantissas."""
    factor = (1 + np.arange(1, 49) * 0.6180339887 % 1).astype(np.float32)
    scale = np.resize([1.125, 1.375, 1.625, 1.875, 3.25, 3.75], factor.size)
    middles = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    unit = scale / factor.astype(np.float64)
    nearest = (unit[:, None] * middles).astype(np.float32)
    table = np.zeros((factor.size, BLOCK), np.float32)
    table[:, 0] = unit * 6
    table[:, 1:8] = nearest
    table[:, 8:15] = -np.nextafter(nearest, np.float32(np.inf))
    table[:, 15] = np.nextafter(nearest[:, 4], np.float32(0))
    return table, factor


def _words(values: Any) -> np.ndarray:
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def _cases(kind: Kind, why: str, x: np.ndarray, factor: Any, decision: str = "") -> Cases:
    return Cases(kind, why, {"factor": _words(np.resize(factor, len(x))), "x": _words(x)}, decision)


def mark(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    return {"CLIPPED": result.clipped, "NO_SCALE": result.scale == 0}
