"""Golden cases of kllm_chip: rows over all tiles of [kllm Fig. 6]'s lanes, the last one partial; outliers take cycles.

This module describes stimuli only; the descriptor, and with it every answer, is in kllm_chip.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.units import find
from refemu.units.kllm.cases import index_matmul as index_matmul_cases
from refemu.units.ports import Port
from refemu.units.stimuli import Seeds
from refemu.units.unit import Cases, Config, Kind


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("kllm_chip").ports(config).inputs
    if kind == "paper":
        yield Cases(kind, "[kllm §III-B1, Fig. 3] one row by ten columns, no outliers", _rows(config, ports, [0]))
    if kind == "edge":
        why = "no, one, all positions outliers of A, the others at one index: a MAC needs that many more cycles"
        yield Cases(kind, why, _alike(config, _rows(config, ports, [0, 1, config["k"]])), "D-kllm-31")
        turns = np.arange(config["n"]) % 2 == np.arange(2)[:, None]
        beyond = _rows(config, ports, [0, 0]) | {
            "a_scale": np.full(2, 0x7BFF),
            "b_scale": np.where(turns, 0x7BFF, 0x0400),
        }
        yield Cases(kind, "every other column beyond fp16, then the others", beyond)
    if kind == "random":
        real, wild = index_matmul_cases.drawn("kllm_chip", config, ports, 16, 4, seed)
        yield Cases(kind, "normalized codebooks, one outlier in eight", real)
        yield Cases(kind, "uniform words", wild)


def _rows(config: Config, ports: tuple[Port, ...], outliers: list[int]) -> dict[str, np.ndarray]:
    """Rows that differ in the number of outliers; indices in turn."""
    count, k = len(outliers), config["k"]
    drawn = {
        port.name: np.ones((count, port.lanes), np.int64) if port.lanes > 1 else np.ones(count, np.int64)
        for port in ports
    }
    drawn["a_index"] = np.arange(count * k).reshape(count, k) % (1 << config["a_bits"])
    drawn["b_index"] = np.arange(drawn["b_index"].size).reshape(count, -1) * 3 // 2 % (1 << config["b_bits"])
    drawn["a_mask"] = (np.arange(k) < np.array(outliers)[:, None]).astype(np.int64)
    drawn["a_outlier"] = 0x4900 + np.arange(count * k).reshape(count, k)
    drawn["a_scale"], drawn["b_scale"] = np.full(count, 0x3C00), np.full((count, config["n"]), 0x3800)
    for side in "ab":
        size = 1 << config[f"{side}_bits"]
        drawn[f"{side}_codebook"] = np.tile(
            index_matmul_cases.spread([0xBB00, 0xB400, 0x3400, 0x3900][:size], size), (count, 1)
        )
    return index_matmul_cases.with_products(drawn)


def _alike(config: Config, rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The rows with one index in all positions of A and of each column: the largest counts."""
    column = np.arange(config["n"]).repeat(config["k"]) % (1 << config["b_bits"])
    top = (1 << config["a_bits"]) - 1
    return rows | {"a_index": np.full_like(rows["a_index"], top), "b_index": np.tile(column, (len(rows["b_index"]), 1))}


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """As of index_matmul."""
    return index_matmul_cases.legal(config, inputs)


def mark(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Rows of each flag."""
    return {
        "OVERFLOW": np.asarray(np.max(result.overflow, axis=-1)),
        "OUTLIER": np.asarray(np.max(inputs["a_mask"], axis=-1) > 0),
    }
