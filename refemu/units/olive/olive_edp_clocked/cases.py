"""Golden cases of olive_edp_clocked: operations of [olive §4.2] and at the ends of 32 bits, back to back and cut off.

The operations are those of olive_edp.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from refemu.units.olive.olive_edp import cases as olive_edp_cases
from refemu.units.stimuli import Seeds, edges, in_turn, joined, streamed
from refemu.units.unit import Cases, Config, Kind

EVENTS = 4  #: events of an operation


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    whole = list(olive_edp_cases.cases(config, kind, seed))
    if kind == "paper":
        why = "[olive §4.2] an outlier next to its victim: decode, multiply, shift, reduce, and an idle edge"
        yield Cases(kind, why, edges(whole[0].inputs, [[*in_turn([0], EVENTS), (0, 0)]]))
    if kind == "edge":
        yield _sided(config)
        yield from _edge(joined([*(block.inputs for block in whole), _mixed(config)], few=2), bad=_illegal(whole))
    if kind == "random":
        for block in whole:
            label = f"olive_edp_clocked/{block.why}/start"
            yield Cases(kind, f"{block.why}, others at every edge", streamed(label, seed, block.inputs, 16))


def _sided(config: Config) -> Cases:
    """Operations that set and clear each bit of the registers of every lane."""
    wide = config["a"].startswith("int8")
    operations = olive_edp_cases.sided(4 if wide else 8, wide)
    why = "outliers on either side of all pairs, back to back: every bit of exponents, integers, products and shifts"
    return Cases("edge", why, edges(operations, [in_turn(range(len(operations["c"])), EVENTS)]))


def _mixed(config: Config) -> dict[str, np.ndarray]:
    """Outliers and normal values side by side, so that products of one operation have several shifts."""
    small, large, outlier = (0x0102, 0x7F7F, 0x8011) if config["a"].startswith("int8") else (0x12, 0x77, 0x83)
    pairs = np.full((2, 2, 4 if config["a"].startswith("int8") else 8), small)
    pairs[:, :, 1] = large
    pairs[0, :, 0] = pairs[1, :, -1] = outlier
    biases = np.array([15, 13] if config["a"].startswith("int8") else [13, 12])
    return {"a_pairs": pairs[0], "b_pairs": pairs[1], "bias_a": biases, "bias_b": biases[::-1], "c": np.array([-5, 9])}


def _illegal(whole: list[Cases]) -> int:
    """Which operation has illegal pairs."""
    return 2 * next(number for number, block in enumerate(whole) if block.decision == "D-olive-18")


def _edge(operations: Mapping[str, np.ndarray], bad: int) -> Iterator[Cases]:
    count = len(operations["c"])
    why = "operations back to back, operands of others on the ports while one is under way"
    yield Cases("edge", why, edges(operations, [in_turn(range(count), EVENTS)]))
    why = "start high at every edge, with other operands: those of every fourth edge count"
    yield Cases("edge", why, edges(operations, [[(1, row % count) for row in range(3 * EVENTS)]]), "D-arith-19")
    why = "idle edges between operations, with operands of others on the ports"
    yield Cases("edge", why, edges(operations, [in_turn([0, bad, count - 1], EVENTS, gap=2)]), "D-arith-21")
    why = "an operation after another, cut off by a reset after each of its events; then idle"
    rows = [*in_turn([0, bad], EVENTS)]
    cut = [[(0, count - 1)] * (EVENTS - left) + rows[: EVENTS + left] for left in range(EVENTS, 0, -1)]
    yield Cases("edge", why, edges(operations, [*cut, [(0, bad)] * 2 * EVENTS]), "D-arith-20")
