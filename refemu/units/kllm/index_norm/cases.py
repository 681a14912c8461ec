"""Golden cases of index_norm: Fig. 4's single index, outliers, zeros, values that repeat, random. [kllm §III-C2]"""

from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units import Config, find
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, port_values, uniform

ONE, LARGEST, MINUS = 0x3C00, 0x7BFF, 0x8000


def paper(config: Config) -> Blocks:
    place = np.arange(config["n"])
    rising, none = place % (1 << config["bits"]), 0 * place
    why = "[kllm §III-C2, Fig. 4] every index once or more, no outlier; one outlier of 100"
    yield _cases(why, config, [(rising, none, 0, ONE), (rising, none + (place == 5), 0x5640, 0x4200)])


def edge(config: Config) -> Blocks:
    place, entries = np.arange(config["n"]), 1 << config["bits"]
    rising, none, some = place % entries, 0 * place, (place % 7 == 3).astype(np.int64)
    rows = [(none + entries - 1, none, 0, ONE), (none, none, 0, 0x4900), (none, none + 1, 0xC500, ONE)]
    yield _cases("all values equal: the deviation is 0 except for eps; no inlier at all", config, rows, "D-kllm-39")
    rows = [(rising, some, 0x75C8, 0x4000), (rising, some, LARGEST, LARGEST), (rising, some, MINUS | 1, 1)]
    yield _cases("outliers whose squares exceed fp16, as in residual streams", config, rows, "D-kllm-20")
    rows = [(rising, some, 0, scale) for scale in (1, 0x3FF, 0x400, 0x7800, LARGEST)]
    rows += [(none, none + 1, 1, LARGEST), (none, none + 1, MINUS | 1, 0x5000)]
    yield _cases("scales at both ends; no inlier and a large scale: its quotient overflows", config, rows)


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("index_norm", config, (40,), seed)
    marks = port_values("index_norm", find("index_norm").ports(config).inputs[0], (40,), seed, "random/mask")
    changed = {"mask": (marks % 8 == 0).astype(np.int64), "scale": 0x3000 + drawn["scale"] % 0x2000}
    why = "random indices and outliers of any size, one position in eight marked"
    yield why, {**drawn, **_tables(config, len(marks)), **changed}


def _tables(config: Config, rows: int) -> Inputs:
    """Centroids over (-1, 1), denser near 0, their squares, and weights if they have a port, of every row."""
    entries = 1 << config["bits"]
    line = np.arange(1 - entries, entries, 2) / entries
    centroids = fp16.to_f16(line * np.abs(line))
    weights = fp16.to_f16(np.arange(1, 2 << config["weight_bits"], 2) / (1 << config["weight_bits"]) - 1)
    words = {"centroids": centroids, "squares": fp16.narrow(fp16.mul16(centroids, centroids)), "weights": weights}
    names = {port.name for port in find("index_norm").ports(config).inputs}
    return {name: np.tile(fp16.bits(words[name]).astype(np.int64), (rows, 1)) for name in words if name in names}


def _cases(why: str, config: Config, rows: Any, decision: str = "") -> Block:
    """Vectors as (indices, mask, word of all outliers, scale)."""
    q, mask, words, scale = zip(*rows, strict=True)
    marks = np.stack(mask)
    values = {"q": np.stack(q) * (1 - marks), "mask": marks, "x": marks * np.array(words)[:, None]}
    inputs = {**values, "scale": np.array(scale), **_tables(config, len(rows))}
    return why, inputs, decision
