"""Golden cases of score_quantizer: a softmax row, zeros, ties, scales at either end, random rows. [kllm §III-A]

This module describes stimuli only; the descriptor, and with it every answer, is in score_quantizer.py.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu.units.unit import Cases, Config, Port
from refemu.units.unit_cases import Seeds, random

ONE, LARGEST = 0x3C00, 0x7BFF


def cases(config: Config, ports: tuple[Port, ...], kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration, whose input ports are `ports`."""
    t = config["t"]
    if kind == "paper":
        yield _cases(
            kind,
            "[kllm §III-A] scores 0.5, 0.25, 0.125, 0.0625 of one query",
            ports,
            t,
            [([0x3800, 0x3400, 0x3000, 0x2C00], [0x3C00, 0x3A00, 0x4000, 0x3C00])],
        )
    if kind == "edge":
        yield _cases(
            kind,
            "no score at all, one score, equal scores",
            ports,
            t,
            [([0], [ONE]), ([ONE] + [0] * (t - 1), [ONE]), ([0] * (t - 1) + [1], [ONE]), ([0x2C00], [ONE])],
        )
        halves = [ONE] + [0x2000 + i for i in range(t - 1)]  # 1/128 upward
        yield _cases(
            kind,
            "scores around ties",
            ports,
            t,
            [(halves, [ONE]), ([0x3B80, 0x2C00, 0x3200, 0x3500], [ONE])],
            "D-kllm-15",
        )
        yield _cases(
            kind,
            "scales of V at the ends of fp16: products and the row's scale underflow",
            ports,
            t,
            [
                ([ONE, 0x3800], [1]),
                ([ONE, 0x3800], [LARGEST]),
                ([1, 2, 3], [1, 0x3FF]),
                ([0x3800, ONE], [LARGEST, ONE]),
                ([0x0400, 0x2400], [0x0400]),
            ],
            "D-kllm-14",
        )
    if kind == "random":
        drawn = {port.name: random("score_quantizer", port, (128,), seed) for port in ports}
        yield Cases(
            kind, "uniform words of scores up to 1, most of them very small", {**drawn, "p": drawn["p"] % (ONE + 1)}
        )
        near = {"p": lambda words: 0x2400 + words % 0x1801, "v_scale": lambda words: 0x3400 + words % 0x1000}
        yield Cases(
            kind,
            "scores from 1/64 to 1, scales from 1/4 to 4",
            {port: near[port](words) for port, words in drawn.items()},
        )


def _cases(kind: str, why: str, ports: tuple[Port, ...], t: int, rows: Any, decision: str = "") -> Cases:
    """Rows of words, repeated to t scores; modes without a fold have no scales."""
    columns = {
        port.name: np.array([[row[at][i % len(row[at])] for i in range(t)] for row in rows])
        for at, port in enumerate(ports)
    }
    return Cases(kind, why, columns, decision)
