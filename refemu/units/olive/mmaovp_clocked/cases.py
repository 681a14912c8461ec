"""Golden cases of mmaovp_clocked: whole tiles with outliers of [olive §4.2], others cut off by a reset."""

from collections.abc import Iterator, Mapping

import numpy as np

from refemu.units.olive.mmaovp import cases as mmaovp_cases
from refemu.units.stimuli import Seeds, edges, in_turn, joined, streamed
from refemu.units.unit import Cases, Config, Kind

EVENTS = 128  #: events of an operation
GAPS = 16  #: rows of a random case beyond those of its two tiles
HIGH = (1 << 31) - 1


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    whole = list(mmaovp_cases.cases(config, kind, seed))
    if kind == "paper":
        why = "[olive §4.2] an outlier at the head of every row of A, B all ones: both chunks of the first element"
        yield Cases(kind, why, edges(whole[0].inputs, [[(1, 0), (0, 0), (0, 0)]]))
    if kind == "edge":
        decided = joined(_decided(whole), few=1)
        yield _back_to_back(whole, config)
        yield from _edge({name: np.concatenate([array, decided[name]]) for name, array in _tiles(config).items()})
    if kind == "random":
        for block, operations in zip(whole, (_legal(config, whole[0].inputs), whole[1].inputs), strict=True):
            label, why = f"mmaovp_clocked/{block.why}/start", f"two whole tiles, others at every edge: {block.why}"
            yield Cases(kind, why, streamed(label, seed, operations, 2 * EVENTS + GAPS))


def _legal(config: Config, operations: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Operations with an outlier instead of each illegal pair."""
    wide = config["a_type"].startswith("ovpi8")
    illegal, outlier = ((0x0080, 0x8000, 0x8080), 0x8001) if wide else ((0x08, 0x80, 0x88), 0x81)
    legal = dict(operations)
    for name in ("a_pairs", "b_pairs"):
        pairs = operations[name]
        legal[name] = np.where(np.isin(pairs, illegal), outlier, pairs)
    return legal


def _back_to_back(whole: list[Cases], config: Config) -> Cases:
    """A tile of legal pairs of both signs with outliers everywhere, then one whose only illegal pair is the last of A.

    Then an edge that begins a third tile.
    """
    drawn = _legal(config, next(iter(mmaovp_cases.cases(config, "random", 1))).inputs)
    last = next(block.inputs for block in whole if block.decision == "D-olive-18")
    tiles = joined([drawn, {**last, "b_pairs": drawn["b_pairs"][1:2]}], few=1)
    why = "two tiles back to back: values of both signs and outliers everywhere; one illegal pair, the last of A"
    return Cases("edge", why, edges(tiles, [[*in_turn([0, 1], EVENTS), (1, 0)]]), "D-olive-18")


def _decided(whole: list[Cases]) -> list[Mapping[str, np.ndarray]]:
    """Blocks whose first tile detects a variant of a decision at its first element."""
    by_decision: dict[str, list[Mapping[str, np.ndarray]]] = {}
    for block in whole:
        by_decision.setdefault(block.decision, []).append(block.inputs)
    return [*by_decision["D-olive-33"][:1], *by_decision["D-olive-21"], *by_decision["D-olive-34"]]


def _tiles(config: Config) -> dict[str, np.ndarray]:
    """A tile whose every element leaves 32 bits, and one of two biases, an illegal pair and outliers at its head."""
    wide = config["a_type"].startswith("ovpi8")
    drawn = next(mmaovp_cases.cases(config, "random", 0))
    tiles = {name: array[:2].copy() for name, array in drawn.inputs.items()}
    for name in ("a_pairs", "b_pairs"):
        tiles[name][0] = tiles[name][0] & (0x7F7F if wide else 0x77) | (0x0101 if wide else 0x11)  # all positive
    tiles["a_pairs"][1, :3] = (0x0080, 0x8040, 0x8041) if wide else (0x08, 0x85, 0x83)
    tiles["b_pairs"][1, :3] = 0x0102 if wide else 0x12
    tiles["bias_a"][1], tiles["bias_b"][1] = 3, 1
    tiles["c"][0], tiles["c"][1] = HIGH - 3, tiles["c"][1] | 1
    return tiles


def _edge(operations: Mapping[str, np.ndarray]) -> Iterator[Cases]:
    count = len(operations["c"])
    why = "a whole tile, start high and other operands at every second edge; idle edges; the head of a second tile"
    busy = [(row % 2, 1 + row % (count - 1)) for row in range(EVENTS - 1)]
    yield Cases("edge", why, edges(operations, [[(1, 0), *busy, (0, 2), (0, 3), (0, 2), (1, 1), (1, 4)]]), "D-arith-19")
    why = "the first element of a tile, cut off by a reset; operands on the ports before the start are not taken"
    cut = [[(0, (number + 1) % count), (1, number), (1, 0), (1, 0)] for number in range(1, count)]
    yield Cases("edge", why, edges(operations, [*cut, [(0, 2)] * 4]), "D-arith-20")
