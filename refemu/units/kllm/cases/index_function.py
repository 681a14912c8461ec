"""Golden cases of index_function: a codebook over [-1, 1] at several scales, zeros, subnormals, random. [kllm §III-C1]

This module describes stimuli only; the descriptor, and with it every answer, is in index_function.py.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units.unit import Cases, Config, Port
from refemu.units.unit_cases import Seeds, random

ONE, LARGEST, MINUS = 0x3C00, 0x7BFF, 0x8000


def cases(config: Config, ports: tuple[Port, ...], kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration, whose input ports are `ports`."""
    n = 1 << config["bits"]
    even = fp16.bits(fp16.to_f16(np.arange(1 - n, n, 2) / n)).astype(np.int64)  # spread over [-1, 1]
    if kind == "paper":
        yield _cases(
            kind,
            "[kllm §III-C1, Eq. (2)] one evaluation per centroid, at scale 2",
            ports,
            even,
            [(0x4000, [0x4500, 0xC500])],
            "D-kllm-17",
        )
    if kind == "edge":
        yield _cases(
            kind,
            "scales from the smallest to the largest",
            ports,
            even,
            [(scale, [LARGEST, LARGEST | MINUS]) for scale in (1, 0x3FF, 0x400, ONE, 0x4900, LARGEST)],
        )
        yield _cases(
            kind,
            "all centroids zero, of either sign; outliers too",
            ports,
            np.array([0, MINUS] * (n // 2)),
            [(ONE, [0, MINUS]), (LARGEST, [1, MINUS | 1])],
        )
        yield _cases(
            kind,
            "repeated centroids at both ends",
            ports,
            np.array([MINUS | ONE, ONE]).repeat(n // 2),
            [(ONE, [ONE, MINUS | ONE]), (0x4248, [0x3555, 0xB555])],
        )
    if kind == "random":
        drawn = {port.name: random("index_function", port, (96,), seed) for port in ports}
        words = drawn["codebook"]
        yield Cases(
            kind,
            "random centroids of magnitude up to 1, any scale",
            {**drawn, "codebook": (words & MINUS) | (words & 0x7FFF) % (ONE + 1)},
        )


def _cases(kind: str, why: str, ports: tuple[Port, ...], codebook: np.ndarray, rows: Any, decision: str = "") -> Cases:
    """One codebook at several scales, with outliers repeated to their port."""
    m = ports[2].lanes
    return Cases(
        kind,
        why,
        {
            "codebook": np.broadcast_to(codebook, (len(rows), codebook.size)),
            "scale": np.array([scale for scale, _ in rows]),
            "outlier": np.array([[out[i % len(out)] for i in range(m)] for _, out in rows]),
        },
        decision,
    )
