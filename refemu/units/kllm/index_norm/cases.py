"""Golden cases of index_norm: Fig. 4's single index, outliers, zeros, values that repeat, random. [kllm §III-C2]"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units import Cases, Config, Kind, Port, find
from refemu.units.stimuli import Seeds, random

ONE, LARGEST, MINUS = 0x3C00, 0x7BFF, 0x8000


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("index_norm").ports(config).inputs
    n, entries = config["n"], 1 << config["bits"]
    rising, none, some = np.arange(n) % entries, np.zeros(n, np.int64), (np.arange(n) % 7 == 3).astype(np.int64)
    if kind == "paper":
        why = "[kllm §III-C2, Fig. 4] every index once or more, no outlier; one outlier of 100"
        yield _cases(
            kind, why, config, ports, [(rising, none, 0, ONE), (rising, none + (np.arange(n) == 5), 0x5640, 0x4200)]
        )
    if kind == "edge":
        rows = [(none + entries - 1, none, 0, ONE), (none, none, 0, 0x4900), (none, none + 1, 0xC500, ONE)]
        yield _cases(
            kind,
            "all values equal: the deviation is 0 except for eps; no inlier at all",
            config,
            ports,
            rows,
            "D-kllm-39",
        )
        rows = [(rising, some, 0x75C8, 0x4000), (rising, some, LARGEST, LARGEST), (rising, some, MINUS | 1, 1)]
        yield _cases(
            kind, "outliers whose squares exceed fp16, as in residual streams", config, ports, rows, "D-kllm-20"
        )
        rows = [(rising, some, 0, scale) for scale in (1, 0x3FF, 0x400, 0x7800, LARGEST)]
        rows += [(none, none + 1, 1, LARGEST), (none, none + 1, MINUS | 1, 0x5000)]
        why = "scales at both ends; no inlier and a large scale: its quotient overflows"
        yield _cases(kind, why, config, ports, rows)
    if kind == "random":
        drawn = {port.name: random("index_norm", port, (40,), seed) for port in ports}
        marks = random("index_norm", ports[0], (40,), seed, "random/mask")
        changed = {"mask": (marks % 8 == 0).astype(np.int64), "scale": 0x3000 + drawn["scale"] % 0x2000}
        why = "random indices and outliers of any size, one position in eight marked"
        yield Cases(kind, why, {**drawn, **tables(config, ports, (len(marks),)), **changed})


def tables(config: Mapping[str, Any], ports: tuple[Port, ...], shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Centroids over (-1, 1), denser near 0, their squares, and weights if they have a port, repeated to `shape`."""
    entries = 1 << config["bits"]
    line = np.arange(1 - entries, entries, 2) / entries
    centroids = fp16.to_f16(line * np.abs(line))
    weights = fp16.to_f16(np.arange(1, 2 << config["weight_bits"], 2) / (1 << config["weight_bits"]) - 1)
    words = {
        "centroids": fp16.bits(centroids),
        "squares": fp16.bits(fp16.narrow(fp16.mul16(centroids, centroids))),
        "weights": fp16.bits(weights),
    }
    names = {port.name for port in ports}
    return {
        name: np.broadcast_to(array.astype(np.int64), (*shape, array.size))
        for name, array in words.items()
        if name in names
    }


def _cases(kind: Kind, why: str, config: Config, ports: tuple[Port, ...], rows: Any, decision: str = "") -> Cases:
    """Vectors as (indices, mask, word of all outliers, scale)."""
    q, mask, words, scale = zip(*rows, strict=True)
    marks = np.stack(mask)
    values = {"q": np.stack(q) * (1 - marks), "mask": marks, "x": marks * np.array(words)[:, None]}
    inputs = {**values, "scale": np.array(scale), **tables(config, ports, (len(rows),))}
    return Cases(kind, why, inputs, decision)
