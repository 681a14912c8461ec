"""Golden cases of prefix_sum. The regions of [leankv §5.2] first; then typical planning arrays, and the adders."""

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Block, Blocks, Seeds, uniform

TOP = (1 << 32) - 1


def paper(config: Config) -> Blocks:
    m = config["elements"]
    yield _rows("[leankv §5.2] two heads that need 16 and 32: regions 0 to 15 and 16 to 47", m, [([16, 32], 0)])
    yield _rows("[leankv Fig. 5] surplus pages of two heads; regions 0, 1 and 2", m, [([2, 1], 0)])


def edge(config: Config) -> Blocks:
    m = config["elements"]
    ones = [([1] * m, base) for base in (0, 5, TOP)]
    yield _rows("one page for every head: element k is the base + k + 1; sums wrap at 32 bits", m, ones)
    why = "no pages, from a base; a single head at either end"
    yield _rows(why, m, [([0] * m, 7), ([9], 0), ([0] * (m - 1) + [9], 0)])
    yield _rows("largest counts: every adder wraps", m, [([TOP] * m, TOP), ([1 << 31] * m, 0)])


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("prefix_sum", config, (24,), seed)
    yield "any words", drawn
    yield "at most one page for every head, as in a step", {"counts": drawn["counts"] & 1, "base": drawn["base"] & 1023}


def _rows(why: str, elements: int, rows: list[tuple[list[int], int]]) -> Block:
    counts = [[*row, *[0] * elements][:elements] for row, _ in rows]
    return why, {"counts": np.array(counts, np.int64), "base": np.array([b for _, b in rows], np.int64)}
