"""Golden cases of mx_encoder: maxima at which a rule of the scale turns, midpoints of elements, blocks of one kind."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Block, Blocks, Seeds, words
from refemu_mx.elements import ELEMENTS, Element

BLOCK = 32


def edge(config: Config) -> Blocks:
    fmt = ELEMENTS[config["element"]]
    yield _block("every magnitude and midpoint of the elements, at both signs", elements(fmt))
    yield _block("maxima at which a rule of the scale turns, and their neighbours", maxima(fmt), "D-mx-1")
    yield _block("zeros, subnormal numbers, and numbers at both ends of float32", ends(), "D-mx-2")
    yield _block("the largest value in each lane", lanes(fmt))
    yield "NaN and infinities", {"x": not_finite()}, "D-mx-3"


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = words("mx_encoder/random", seed, 24 * BLOCK).reshape(-1, BLOCK)
    sign = (drawn >> np.uint64(63)).astype(np.uint32) << np.uint32(31)
    fraction = (drawn & np.uint64(0x7FFFFF)).astype(np.uint32)
    spread = ((drawn >> np.uint64(30)) % np.uint64(12)).astype(np.uint32)
    base = ((drawn[:, :1] >> np.uint64(40)) % np.uint64(200)).astype(np.uint32)
    field = np.uint32(30) + base + spread
    yield "exponents within twelve binades, another base in every block", {"x": sign | field << 23 | fraction}


def elements(fmt: Element) -> np.ndarray:
    """Blocks with a maximum that gives scale 1 under every rule, and 31 other magnitudes or midpoints."""
    values = np.array([fmt.number(code) for code in range(fmt.largest_code + 1)])
    points = np.unique(np.concatenate([values, (values[1:] + values[:-1]) / 2]))
    top = float(np.float32(2.0**fmt.emax))
    signed = np.concatenate([points, -points])
    rows = -(-signed.size // (BLOCK - 1))
    table = np.zeros((rows, BLOCK))
    table[:, 1:] = np.resize(signed, (rows, BLOCK - 1))
    table[:, 0] = top
    return table


def maxima(fmt: Element) -> np.ndarray:
    """Blocks that differ in their maximum: powers of two, the largest element, where mantissas carry, neighbours."""
    m, e = fmt.largest
    largest = np.ldexp(float(m), e)
    round_up = np.ldexp(2.0 - 2.0 ** -(fmt.man_bits + 1), fmt.emax)  # the half place at which the mantissa carries
    exact = np.array([2.0**fmt.emax, largest, round_up, 2.0 ** (fmt.emax + 1)], np.float32)
    near = np.concatenate([exact, np.nextafter(exact, np.float32(0)), np.nextafter(exact, np.float32(np.inf))])
    tops = np.concatenate([near * np.float32(2.0**shift) for shift in (0, -3, 40)])
    table = np.zeros((tops.size, BLOCK))
    table[:, 5] = -tops
    table[:, 1:5] = tops[:, None] * np.array([0.5, 0.3, -0.07, 0.99])
    table[:, 6] = tops / 3
    return table


def ends() -> np.ndarray:
    """Blocks of zeros of both signs, of subnormal numbers, of the largest numbers."""
    tiny, huge = float(np.finfo(np.float32).smallest_subnormal), float(np.finfo(np.float32).max)
    table = np.zeros((6, BLOCK))
    table[0, ::2] = -0.0
    table[1, 3] = tiny
    table[2] = -tiny * np.arange(BLOCK)
    table[3] = huge
    table[4, :4] = [huge, -huge, tiny, 1.0]
    table[5] = float(np.finfo(np.float32).smallest_normal) * np.arange(BLOCK) / 7
    return table


def lanes(fmt: Element) -> np.ndarray:
    """Blocks of small values with the largest one in lane 0, 1, 2, ..."""
    table = np.tile(np.linspace(0.01, 0.2, BLOCK), (BLOCK, 1))
    table[np.arange(BLOCK), np.arange(BLOCK)] = -0.9 * 2.0**fmt.emax
    return table


def not_finite() -> np.ndarray:
    """Blocks of ones with one NaN or infinity; the last NaN would round beyond the largest element."""
    table = np.full((4, BLOCK), 0x3F800000, np.uint32)
    table[0, 31], table[1, 0], table[2, 7], table[3, 12] = 0x7FC00000, 0x7F800000, 0xFF800000, 0x7FFFFFFF
    return table


def _block(why: str, values: np.ndarray, decision: str = "") -> Block:
    return why, {"x": np.ascontiguousarray(values, np.float32).view(np.uint32)}, decision


def mark(config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    field = inputs["x"] >> np.uint32(23) & np.uint32(0xFF)
    return {"CLIPPED": result.clipped, "NOT_FINITE": (field == 0xFF).any(axis=-1)}
