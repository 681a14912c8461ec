"""Golden cases of fp2half: halfway points at either end of the range of [harmonia §IV-A (4)], then random values.

This module describes stimuli only; the descriptor, and with it every answer, is in fp2half.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from refemu.units.unit import Cases, Config, Port
from refemu.units.unit_cases import Seeds, random

LANES = 8
SUBNORMAL = float.fromhex("0x1p-24")  #: the smallest fp16 value


def cases(config: Config, ports: tuple[Port, ...], kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind, whose input ports are `ports`."""
    if kind == "paper":
        yield _case(
            kind,
            "a column of results on and off the fp16 grid",
            [1, -2.5, 1000.25, -25.3359375, 57.03125, 1 / 3, -0.0, 2048],
        )
    if kind == "edge":
        yield from _edge()
    if kind == "random":
        yield Cases(kind, "words of any kind: most are far outside fp16", {"x": _words(ports, 64, seed)})
        yield Cases(
            kind,
            "from subnormals to the first values beyond the range",
            {"x": (_words(ports, 64, seed) & 0x8FFFFFFF) + 0x38000000},
        )


def _edge() -> Iterator[Cases]:
    yield _case(
        "edge",
        "the last value below the overflow, the first one that overflows, either sign",
        _both([65504, np.nextafter(np.float32(65520), np.float32(0)), 65520, 65536]),
        "D-harmonia-13",
    )
    yield _case(
        "edge",
        "infinity, NaN of any payload, the largest float32",
        _both([np.inf, np.nan, 3.4e38, 65519]),
        "D-harmonia-13",
    )
    half = np.float32(SUBNORMAL / 2)
    yield _case(
        "edge",
        "half of the smallest value goes to zero, one step above it does not",
        _both([half, np.nextafter(half, np.float32(1)), SUBNORMAL * 1.5, SUBNORMAL * 2.5]),
    )
    normal = np.float32(1024 * SUBNORMAL)
    yield _case(
        "edge",
        "the seam of subnormal and normal values, and float32 subnormals",
        _both([normal, np.nextafter(normal, np.float32(0)), normal - np.float32(SUBNORMAL / 2), 1e-45]),
    )
    yield _case(
        "edge",
        "ties to even: 2049 down, 2051 up, one step beside a tie, a carry into the exponent",
        _both([2049, 2051, np.nextafter(np.float32(2049), np.float32(4096)), 4095]),
    )


def _both(values: Sequence[Any]) -> list[Any]:
    return [*values, *(-np.float32(value) for value in values)]


def _case(kind: str, why: str, values: Sequence[Any], decision: str = "") -> Cases:
    return Cases(kind, why, {"x": np.array(values, np.float32).view(np.uint32).reshape(-1, LANES)}, decision)


def _words(ports: tuple[Port, ...], count: int, seed: Seeds) -> np.ndarray:
    return random("fp2half", ports[0], (count,), seed)


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Which rows carry which flag."""
    y = result.y & 0x7FFF
    return {"OVERFLOW": result.overflow.any(axis=-1), "SUBNORMAL": ((y > 0) & (y < 0x400)).any(axis=-1)}
