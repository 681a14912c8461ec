"""Golden cases of score_quantizer: a softmax row, zeros, ties, scales at either end, random rows. [kllm §III-A]"""

from typing import Any

import numpy as np

from refemu.units import Config, find
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, patterns16, repeated, uniform

ONE, LARGEST = 0x3C00, 0x7BFF


def paper(config: Config) -> Blocks:
    why = "[kllm §III-A] scores 0.5, 0.25, 0.125, 0.0625 of one query"
    yield _cases(why, config, [([0x3800, 0x3400, 0x3000, 0x2C00], [0x3C00, 0x3A00, 0x4000, 0x3C00])])


def edge(config: Config) -> Blocks:
    t = config["t"]
    rows = [([0], [ONE]), ([ONE] + [0] * (t - 1), [ONE]), ([0] * (t - 1) + [1], [ONE]), ([0x2C00], [ONE])]
    yield _cases("no score at all, one score, equal scores", config, rows)
    halves = [ONE] + [0x2000 + i for i in range(t - 1)]  # 1/128 upward
    rows = [(halves, [ONE]), ([0x3B80, 0x2C00, 0x3200, 0x3500], [ONE])]
    yield _cases("scores around ties", config, rows, "D-kllm-15")
    why = "every score midway between two integers"
    yield _cases(why, config, [(_ties(config["bits"], t, start), [ONE]) for start in range(3)], "D-kllm-15")
    rows = [([0], [scale]) for scale in (ONE, 1, LARGEST)]
    yield _cases("rows of zeros, at several scales of V", config, rows, "D-kllm-15")
    ends = [([ONE, 0x3800], [1]), ([ONE, 0x3800], [LARGEST]), ([1, 2, 3], [1, 0x3FF])]
    rows = [*ends, ([0x3800, ONE], [LARGEST, ONE]), ([0x0400, 0x2400], [0x0400])]
    yield _cases("scales of V at the ends of fp16: products and the row's scale underflow", config, rows, "D-kllm-14")
    if config["mode"] == "fixed":
        largest = (1 << config["bits"]) - 1
        near = patterns16((np.arange(largest) + np.float32(0.5)) / np.float32(largest))
        yield _cases("scores nearest to every tie", config, [(near, [ONE])], "D-kllm-15")
    if config["mode"] == "max":
        yield _cases("an integer 1 of subnormal value", config, [([0x1000, 0x0800], [ONE])])


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("score_quantizer", config, (128,), seed)
    yield "uniform words of scores up to 1, mostly very small", {**drawn, "p": drawn["p"] % (ONE + 1)}
    near = {"p": lambda words: 0x2400 + words % 0x1801, "v_scale": lambda words: 0x3400 + words % 0x1000}
    yield "scores from 1/64 to 1, scales from 1/4 to 4", {port: near[port](words) for port, words in drawn.items()}


def _cases(why: str, config: Config, rows: Any, decision: str = "") -> Block:
    """Rows of words, repeated to t scores; without scales in modes without a fold."""
    ports = find("score_quantizer").ports(config).inputs
    columns = zip(ports, zip(*rows, strict=True), strict=False)
    return why, {port.name: repeated(words, config["t"]) for port, words in columns}, decision


def _ties(bits: int, t: int, start: int) -> np.ndarray:
    """The largest score 2 * M * u, with M the largest integer, and odd multiples of u: integers and a half."""
    largest, unit = (1 << bits) - 1, 1 / (1 << 10)
    halves = [(2 * ((start + i) % largest) + 1) * unit for i in range(t - 1)]
    return patterns16([2 * largest * unit, *halves])


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """Scores up to 1, as from softmax: no product exceeds fp16."""
    return {**inputs, "p": np.minimum(inputs["p"], ONE)}
