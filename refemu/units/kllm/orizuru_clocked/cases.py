"""Golden cases of orizuru_clocked: the row of [kllm Fig. 7], ties and infinities, back to back and cut off.

The rows are those of orizuru.
"""

from typing import Any

import numpy as np

from refemu.units import Config, find
from refemu.units.kllm.orizuru import cases as orizuru_cases
from refemu.units.stimuli import Blocks, Seeds, edges, in_turn, joined, streamed

WIDE = 16  #: inputs of a unit with many registers
IDLE = 6  #: idle edges after the paper's row
GAPS = 24  #: rows of a random case beyond those of its three operations
PLAIN = 3  #: rows of ties, zeros and infinities, without NaN


def paper(config: Config) -> Blocks:
    ((_, operation, *_),) = orizuru_cases.paper(config)
    why = "[kllm §IV-C, Fig. 7] both trees of the row are set, popped and repaired edge by edge; then idle edges"
    yield why, edges(operation, [[*in_turn([0], _events(config)), *[(0, 0)] * IDLE]])


def edge(config: Config) -> Blocks:
    device: Any = find("orizuru").unit_class(**config)
    levels, events = device.levels, 1 + device.last
    popped = [2 + 2 * levels + pops * (1 + levels) for pops in (config["k"], 0)]
    blocks = list(_edge(_rows(config), events, popped))
    yield from blocks[-2:] if _brief(config) else blocks
    rows = np.concatenate([_alternating(config), _ranked(config)[: int(_brief(config))]])
    why = "rows whose bits alternate; each element in turn is among the largest, and the smallest"
    yield why, edges({"x": rows}, [in_turn(range(len(rows)), events)])


def random(config: Config, seed: Seeds) -> Blocks:
    why, operations = next(orizuru_cases.random(config, seed))[:2]
    inputs = streamed("orizuru_clocked/start", seed, operations, 3 * _events(config) + GAPS, rare=2)
    yield f"{why}, others at every edge", inputs


def _events(config: Config) -> int:
    """Events of a row."""
    device: Any = find("orizuru").unit_class(**config)
    return 1 + int(device.last)


def _brief(config: Config) -> bool:
    """Whether edge rows are few: the 16-input unit of [kllm Table I], whose smaller neighbour has all kinds."""
    return bool(config["n"] >= WIDE and config["min_leaf"] == "not_max")


def _rows(config: Config) -> np.ndarray:
    """Ties, zeros and infinities, three rows of different values, and NaN where it has an order."""
    decided = joined((block[1] for block in orizuru_cases.edge(config) if any(block[2:])), few=1)["x"]
    ties, nan = decided[:PLAIN], decided[PLAIN:]
    return np.concatenate([ties, _ranked(config).reshape(-1, *ties.shape[1:]), nan])


def _ranked(config: Config) -> np.ndarray:
    """Three rows of different values of both signs; each has the k largest and the k smallest at other places."""
    n = config["n"]
    rank = (7 * np.arange(n) + 2 * config["k"] * np.arange(3)[:, None]) % n - n // 2
    return np.where(rank < 0, 0x8000, 0) | 0x0A6B * np.abs(rank) % 0x7BFF


def _alternating(config: Config) -> np.ndarray:
    """Rows of words 0x5555 or 0xAAAA, except for k larger and k smaller ones that move from row to row."""
    n, k = config["n"], config["k"]
    row = np.arange(-(-n // k) + 1)[:, None]
    place = (np.arange(n) - k * row) % n
    odd = row % 2 == 1
    larger, smaller = np.where(odd, 0x5555, 0x6AAA), np.where(odd, 0xEAAA, 0xD555)
    rest = np.where(odd, 0xAAAA, 0x5555)
    return np.where(place < k, larger, np.where(place >= n - k, smaller, rest))


def _edge(x: np.ndarray, events: int, popped: list[int]) -> Blocks:
    """popped: events after which the first pop of the min tree is done, and that of the max tree."""
    operations = {"x": x}
    why = "rows back to back, others on the port while one is under way"
    yield why, edges(operations, [in_turn(range(PLAIN), events)])
    why = "a row after two idle edges, further rows after one each, others on the port"
    rows = [(0, 1), (0, 0), *in_turn(range(PLAIN, len(x)), events, gap=1)]
    yield why, edges(operations, [rows]), "D-arith-21"
    why = "start high at every edge, with changing rows: one counts when the previous one is closed"
    yield why, edges(operations, [[(1, row % 2 * PLAIN) for row in range(events + 4)]]), "D-arith-19"
    why = "a row cut off by a reset right after the first pop of either tree; then idle"
    most = max(popped)
    cut = [[(0, 1)] * (most - left) + in_turn([PLAIN + 1, 0], events)[:left] for left in popped]
    yield why, edges(operations, [*cut, [(0, 2)] * most]), "D-arith-20"
