"""Golden cases of mmaovp_clocked: whole tiles with outliers of [olive §4.2], others cut off by a reset."""

import numpy as np

from refemu.units.olive.mmaovp import cases as mmaovp_cases
from refemu.units.stimuli import Block, Blocks, Inputs, Seeds, edges, in_turn, joined, streamed
from refemu.units.unit import Config

EVENTS = 128  #: events of an operation
GAPS = 16  #: rows of a random case beyond those of its two tiles
HIGH = (1 << 31) - 1


def paper(config: Config) -> Blocks:
    ((_, tile, *_),) = mmaovp_cases.paper(config)
    why = "[olive §4.2] an outlier at the head of every row of A, B all ones: both chunks of the first element"
    yield why, edges(tile, [[(1, 0), (0, 0), (0, 0)]])


def edge(config: Config) -> Blocks:
    decided: dict[str, list[Inputs]] = {}
    for _, tile, *decision in mmaovp_cases.edge(config):
        decided.setdefault("".join(decision), []).append(tile)
    yield _back_to_back(config, decided["D-olive-18"][0])
    first = [
        *decided["D-olive-33"][:1],
        *decided["D-olive-21"],
        *decided["D-olive-34"],
    ]  # detected at the first element
    yield from _edge(joined([_tiles(config), joined(first, few=1)]))


def random(config: Config, seed: Seeds) -> Blocks:
    (real, first, *_), (any_words, second, *_) = mmaovp_cases.random(config, seed)
    for mmaovp_why, operations in ((real, _legal(config, first)), (any_words, second)):
        label = f"mmaovp_clocked/{mmaovp_why}/start"
        why = f"two whole tiles, others at every edge: {mmaovp_why}"
        yield why, streamed(label, seed, operations, 2 * EVENTS + GAPS)


def _legal(config: Config, operations: Inputs) -> dict[str, np.ndarray]:
    """Operations with an outlier instead of each illegal pair."""
    wide = config["a_type"].startswith("ovpi8")
    illegal, outlier = ((0x0080, 0x8000, 0x8080), 0x8001) if wide else ((0x08, 0x80, 0x88), 0x81)
    pairs = ("a_pairs", "b_pairs")
    return {
        **operations,
        **{name: np.where(np.isin(operations[name], illegal), outlier, operations[name]) for name in pairs},
    }


def _back_to_back(config: Config, last: Inputs) -> Block:
    """A tile of legal pairs of both signs with outliers everywhere, then one whose only illegal pair is the last of A.

    Then an edge that begins a third tile.
    """
    drawn = _legal(config, next(mmaovp_cases.random(config, 1))[1])
    tiles = joined([drawn, {**last, "b_pairs": drawn["b_pairs"][1:2]}], few=1)
    why = "two tiles back to back: values of both signs and outliers everywhere; one illegal pair, the last of A"
    return why, edges(tiles, [[*in_turn([0, 1], EVENTS), (1, 0)]]), "D-olive-18"


def _tiles(config: Config) -> dict[str, np.ndarray]:
    """A tile whose every element leaves 32 bits, and one of two biases, an illegal pair and outliers at its head."""
    wide = config["a_type"].startswith("ovpi8")
    tiles = {name: array[:2].copy() for name, array in next(mmaovp_cases.random(config, 0))[1].items()}
    for name in ("a_pairs", "b_pairs"):
        tiles[name][0] = tiles[name][0] & (0x7F7F if wide else 0x77) | (0x0101 if wide else 0x11)  # all positive
    tiles["a_pairs"][1, :3] = (0x0080, 0x8040, 0x8041) if wide else (0x08, 0x85, 0x83)
    tiles["b_pairs"][1, :3] = 0x0102 if wide else 0x12
    tiles["bias_a"][1], tiles["bias_b"][1] = 3, 1
    tiles["c"][0], tiles["c"][1] = HIGH - 3, tiles["c"][1] | 1
    return tiles


def _edge(operations: Inputs) -> Blocks:
    count = len(operations["c"])
    why = "a whole tile, start high and other operands at every second edge; idle edges; the head of a second tile"
    busy = [(row % 2, 1 + row % (count - 1)) for row in range(EVENTS - 1)]
    yield why, edges(operations, [[(1, 0), *busy, (0, 2), (0, 3), (0, 2), (1, 1), (1, 4)]]), "D-arith-19"
    why = "the first element of a tile, cut off by a reset; operands on the ports before the start are not taken"
    cut = [[(0, (number + 1) % count), (1, number), (1, 0), (1, 0)] for number in range(1, count)]
    yield why, edges(operations, [*cut, [(0, 2)] * 4]), "D-arith-20"
