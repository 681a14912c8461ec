"""Golden cases of score_quantizer: a softmax row, zeros, ties, scales at either end, random rows. [kllm §III-A]"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units import Cases, Config, Kind, Port, find
from refemu.units.stimuli import Seeds, random

ONE, LARGEST = 0x3C00, 0x7BFF


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("score_quantizer").ports(config).inputs
    t = config["t"]
    if kind == "paper":
        why = "[kllm §III-A] scores 0.5, 0.25, 0.125, 0.0625 of one query"
        yield _cases(kind, why, ports, t, [([0x3800, 0x3400, 0x3000, 0x2C00], [0x3C00, 0x3A00, 0x4000, 0x3C00])])
    if kind == "edge":
        rows = [([0], [ONE]), ([ONE] + [0] * (t - 1), [ONE]), ([0] * (t - 1) + [1], [ONE]), ([0x2C00], [ONE])]
        yield _cases(kind, "no score at all, one score, equal scores", ports, t, rows)
        halves = [ONE] + [0x2000 + i for i in range(t - 1)]  # 1/128 upward
        rows = [(halves, [ONE]), ([0x3B80, 0x2C00, 0x3200, 0x3500], [ONE])]
        yield _cases(kind, "scores around ties", ports, t, rows, "D-kllm-15")
        why = "every score midway between two integers"
        yield _cases(kind, why, ports, t, [(_ties(config["bits"], t, start), [ONE]) for start in range(3)], "D-kllm-15")
        rows = [([0], [scale]) for scale in (ONE, 1, LARGEST)]
        yield _cases(kind, "rows of zeros, at several scales of V", ports, t, rows, "D-kllm-15")
        ends = [([ONE, 0x3800], [1]), ([ONE, 0x3800], [LARGEST]), ([1, 2, 3], [1, 0x3FF])]
        rows = [*ends, ([0x3800, ONE], [LARGEST, ONE]), ([0x0400, 0x2400], [0x0400])]
        why = "scales of V at the ends of fp16: products and the row's scale underflow"
        yield _cases(kind, why, ports, t, rows, "D-kllm-14")
        if config["mode"] == "fixed":
            largest = (1 << config["bits"]) - 1
            nearest = fp16.bits(fp16.to_f16((np.arange(largest) + np.float32(0.5)) / np.float32(largest)))
            yield _cases(kind, "scores nearest to every tie", ports, t, [(nearest.tolist(), [ONE])], "D-kllm-15")
        if config["mode"] == "max":
            yield _cases(kind, "an integer 1 of subnormal value", ports, t, [([0x1000, 0x0800], [ONE])])
    if kind == "random":
        drawn = {port.name: random("score_quantizer", port, (128,), seed) for port in ports}
        yield Cases(kind, "uniform words of scores up to 1, mostly very small", {**drawn, "p": drawn["p"] % (ONE + 1)})
        near = {"p": lambda words: 0x2400 + words % 0x1801, "v_scale": lambda words: 0x3400 + words % 0x1000}
        why = "scores from 1/64 to 1, scales from 1/4 to 4"
        yield Cases(kind, why, {port: near[port](words) for port, words in drawn.items()})


def _cases(kind: Kind, why: str, ports: tuple[Port, ...], t: int, rows: Any, decision: str = "") -> Cases:
    """Rows of words, repeated to t scores; without scales in modes without a fold."""
    columns = {
        port.name: np.array([[row[at][i % len(row[at])] for i in range(t)] for row in rows])
        for at, port in enumerate(ports)
    }
    return Cases(kind, why, columns, decision)


def _ties(bits: int, t: int, start: int) -> list[int]:
    """The largest score 2 * M * u, with M the largest integer, and odd multiples of u: integers and a half."""
    largest, unit = (1 << bits) - 1, 1 / (1 << 10)
    halves = [(2 * ((start + i) % largest) + 1) * unit for i in range(t - 1)]
    return [int(word) for word in fp16.bits(fp16.to_f16(np.array([2 * largest * unit, *halves], np.float32)))]


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Scores up to 1, as from softmax: no product exceeds fp16."""
    return {**inputs, "p": np.minimum(inputs["p"], ONE)}
