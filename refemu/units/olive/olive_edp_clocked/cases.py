"""Golden cases of olive_edp_clocked: operations of [olive §4.2] and at the ends of 32 bits, back to back and cut off.

The operations are those of olive_edp.
"""

import numpy as np

from refemu.units.olive.olive_edp import cases as olive_edp_cases
from refemu.units.stimuli import Blocks, Inputs, Seeds, edges, in_turn, joined, streamed
from refemu.units.unit import Config

EVENTS = 4  #: events of an operation


def paper(config: Config) -> Blocks:
    ((_, operation, *_),) = olive_edp_cases.paper(config)
    why = "[olive §4.2] an outlier next to its victim: decode, multiply, shift, reduce, and an idle edge"
    yield why, edges(operation, [[*in_turn([0], EVENTS), (0, 0)]])


def edge(config: Config) -> Blocks:
    (lanes, _), wide, _ = olive_edp_cases.operands("olive_edp", config)
    sided = olive_edp_cases.sided(lanes, wide)  # operations that set and clear each bit of every lane's registers
    why = "outliers on either side of all pairs, back to back: every bit of exponents, integers, products and shifts"
    yield why, edges(sided, [in_turn(range(len(sided["c"])), EVENTS)])
    whole = list(olive_edp_cases.edge(config))
    illegal = next(number for number, block in enumerate(whole) if block[-1] == "D-olive-18")
    yield from _edge(joined([*(block[1] for block in whole), _mixed(lanes, wide)], few=2), bad=2 * illegal)


def random(config: Config, seed: Seeds) -> Blocks:
    for why, operations, *_ in olive_edp_cases.random(config, seed):
        label = f"olive_edp_clocked/{why}/start"
        yield f"{why}, others at every edge", streamed(label, seed, operations, 16)


def _mixed(lanes: int, wide: bool) -> Inputs:
    """Outliers and normal values side by side, so that products of one operation have several shifts."""
    small, large, outlier, *biases = (0x0102, 0x7F7F, 0x8011, 15, 13) if wide else (0x12, 0x77, 0x83, 13, 12)
    pairs = np.full((2, 2, lanes), small)
    pairs[:, :, 1] = large
    pairs[0, :, 0] = pairs[1, :, -1] = outlier
    return olive_edp_cases.operation(pairs[0], pairs[1], biases, biases[::-1], [-5, 9])


def _edge(operations: Inputs, bad: int) -> Blocks:
    count = len(operations["c"])
    why = "operations back to back, operands of others on the ports while one is under way"
    yield why, edges(operations, [in_turn(range(count), EVENTS)])
    why = "start high at every edge, with other operands: those of every fourth edge count"
    yield why, edges(operations, [[(1, row % count) for row in range(3 * EVENTS)]]), "D-arith-19"
    why = "idle edges between operations, with operands of others on the ports"
    yield why, edges(operations, [in_turn([0, bad, count - 1], EVENTS, gap=2)]), "D-arith-21"
    why = "an operation after another, cut off by a reset after each of its events; then idle"
    rows = [*in_turn([0, bad], EVENTS)]
    cut = [[(0, count - 1)] * (EVENTS - left) + rows[: EVENTS + left] for left in range(EVENTS, 0, -1)]
    yield why, edges(operations, [*cut, [(0, bad)] * 2 * EVENTS]), "D-arith-20"
