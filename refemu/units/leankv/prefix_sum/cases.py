"""Golden cases of prefix_sum. The regions of [leankv §5.2] first; then typical planning arrays, and the adders."""

from collections.abc import Iterator

import numpy as np

from refemu.units import Cases, Config, Kind, find
from refemu.units.stimuli import Seeds, random_inputs

TOP = (1 << 32) - 1


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    m = config["elements"]
    if kind == "paper":
        yield _rows(
            kind, "[leankv §5.2] two heads that need 16 and 32: regions 0 to 15 and 16 to 47", m, [([16, 32], 0)]
        )
        yield _rows(kind, "[leankv Fig. 5] surplus pages of two heads; regions 0, 1 and 2", m, [([2, 1], 0)])
    if kind == "edge":
        ones = [([1] * m, base) for base in (0, 5, TOP)]
        yield _rows(kind, "one page for every head: element k is the base + k + 1; sums wrap at 32 bits", m, ones)
        why = "no pages, from a base; a single head at either end"
        yield _rows(kind, why, m, [([0] * m, 7), ([9], 0), ([0] * (m - 1) + [9], 0)])
        yield _rows(kind, "largest counts: every adder wraps", m, [([TOP] * m, TOP), ([1 << 31] * m, 0)])
    if kind == "random":
        drawn = random_inputs("prefix_sum", find("prefix_sum").ports(config).inputs, (24,), seed)
        yield Cases(kind, "any words", drawn)
        why = "at most one page for every head, as in a step"
        yield Cases(kind, why, {"counts": drawn["counts"] & 1, "base": drawn["base"] & 1023})


def _rows(kind: Kind, why: str, elements: int, rows: list[tuple[list[int], int]]) -> Cases:
    counts = [[*row, *[0] * elements][:elements] for row, _ in rows]
    return Cases(kind, why, {"counts": np.array(counts, np.int64), "base": np.array([b for _, b in rows], np.int64)})
