"""Golden cases of index_function: a codebook over [-1, 1] at some scales, zeros, subnormals, random. [kllm §III-C1]"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units import Cases, Config, Kind, Port, find
from refemu.units.stimuli import Seeds, random

ONE, LARGEST, MINUS = 0x3C00, 0x7BFF, 0x8000


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("index_function").ports(config).inputs
    n = 1 << config["bits"]
    even = fp16.bits(fp16.to_f16(np.arange(1 - n, n, 2) / n)).astype(np.int64)  # spread over [-1, 1]
    if kind == "paper":
        why = "[kllm §III-C1, Eq. (2)] one evaluation per centroid, at scale 2"
        yield _cases(kind, why, ports, even, [(0x4000, [0x4500, 0xC500])], "D-kllm-17")
    if kind == "edge":
        rows = [(scale, [LARGEST, LARGEST | MINUS]) for scale in (1, 0x3FF, 0x400, ONE, 0x4900, LARGEST)]
        yield _cases(kind, "scales from the smallest to the largest", ports, even, rows)
        why = "all centroids zero, of either sign; outliers too"
        yield _cases(kind, why, ports, np.array([0, MINUS] * (n // 2)), [(ONE, [0, MINUS]), (LARGEST, [1, MINUS | 1])])
        rows = [(ONE, [ONE, MINUS | ONE]), (0x4248, [0x3555, 0xB555])]
        yield _cases(kind, "repeated centroids at both ends", ports, np.array([MINUS | ONE, ONE]).repeat(n // 2), rows)
        some = (
            np.array([MINUS | 0x3A00, MINUS | 0x3600, 0x3600, 0x3A00]).repeat(n // 4)
            if n > 2
            else np.array([0x3A00] * n)
        )
        rows = [(scale, [scale, MINUS | scale]) for scale in (0x3C01, 0x3C03, 0x3E05, 0x4107, 0x4009, 0x380B)]
        yield _cases(kind, "scale times centroid halfway between two fp16 values", ports, some, rows, "D-arith-2")
    if kind == "random":
        drawn = {port.name: random("index_function", port, (96,), seed) for port in ports}
        words = drawn["codebook"]
        why = "random centroids of magnitude up to 1, any scale"
        yield Cases(kind, why, {**drawn, "codebook": (words & MINUS) | (words & 0x7FFF) % (ONE + 1)})


def _cases(kind: Kind, why: str, ports: tuple[Port, ...], codebook: np.ndarray, rows: Any, decision: str = "") -> Cases:
    """One codebook at several scales, with outliers repeated to their port."""
    m = ports[2].count
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


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Centroids of magnitude up to 1, as if normalized: s * c stays finite."""
    words = inputs["codebook"]
    magnitude = words & 0x7FFF
    return {**inputs, "codebook": np.where(magnitude > ONE, (words & MINUS) | (magnitude % ONE), words)}
