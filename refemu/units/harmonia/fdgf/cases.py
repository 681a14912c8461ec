"""Golden cases of fdgf: both dataflows of [harmonia Fig. 15] from start to end, tiles of one element more or fewer."""

from typing import Any

import numpy as np

from refemu.units.stimuli import Blocks, Inputs, Seeds, sequences, words
from refemu.units.unit import Config

COLUMN_MAJOR, ROW_MAJOR = 1, 2
DONE = 7  #: value of the port `code`
ALTERNATE = ((0x15555, 0xAAAA, 0x15555), (0xAAAA, 0x15555, 0xAAAA))  #: sizes whose bits alternate
NAMES = ("start", "rows", "inner", "columns", "forced", "v")


def paper(config: Config) -> Blocks:
    m, k = config["m"], config["k"]
    tiles = [(2 * m, 32, 2 * k, flow, v) for v in (0, 1) for flow in (COLUMN_MAJOR, ROW_MAJOR)]
    why = "[harmonia §IV-D] two by two tiles in each dataflow, blocks of tokens and of V"
    yield why, _inputs(tiles, 150 if _is_long(config) else 60)


def edge(config: Config) -> Blocks:
    m, k = config["m"], config["k"]
    edges = [(m + 1, 33, k - 1, 1, 0), (m - 1, 33, k + 1, 2, 0), (m + 9, 33, k + 17, 1, 1), (m + 25, 33, k + 1, 2, 1)]
    yield "one element off a multiple of a tile; a short last group", _inputs(edges), "D-harmonia-30"
    single = [(1, 1, 1, 0, 0), (1, 96, 2 * k, 0, 0), (2 * m, 96, 1, 0, 0), (1, 96, 40, 0, 1)]
    yield "one element, one row of A (a decode step), one column of B", _inputs(single), "D-harmonia-31"
    why = "where the choice of the formula changes: M below, at and above K"
    yield why, _inputs([(rows, 32, 3 * k, 0, 0) for rows in (m, 2 * m, 3 * m, 4 * m)]), "D-harmonia-31"
    less = [(1, 32, 3, 0, 0), (2, 32, 5, 0, 0), (m // 2, 32, k // 2 + 1, 0, 0)]
    why = "less than a tile of M and of K: the dataflow follows whole tiles, not their fraction"
    yield why, _inputs(less, 24), "D-harmonia-30"
    restart = np.tile([0, 3, 3, 3, 1, 1], (1, 32, 1))
    restart[0, 0], restart[0, 20] = (1, m, 64, k, ROW_MAJOR, 0), (1, 8, 64, 16, COLUMN_MAJOR, 0)
    yield "a start while a product is under way; sizes without a start are ignored", sequences(NAMES, restart)
    yield from _cut(m, k)
    why = "many tiles of one element's width, down the rows and along the columns: the tile counters rise"
    yield why, _inputs([(131_071, 1, 1, 1, 0), (1, 1, 131_071, 2, 0)], 600 if _is_long(config) else 300)
    ends = [*ALTERNATE, (131_071, 131_071, 131_071), (1, 131_071, 1)]
    why = "sizes whose bits alternate, up to the largest: what is fetched, and the first addresses"
    yield why, _inputs([(*each, flow, 0) for each in ends for flow in (1, 2)], 12)
    starts = [(1, *ALTERNATE[event % 2], ROW_MAJOR - event % 2, event % 2) for event in range(4)]
    yield "products that start one after the other, with sizes whose bits alternate", sequences(NAMES, [starts])
    why = "a reduction of 40 groups: addresses of later passes skip as many"
    yield why, _inputs([(40, 1280, 48, 1, 0), (40, 1280, 48, 2, 1)], 240)
    high = [(0x1C000, 1, 0xF000, 0, 0), (0xF000, 1, 0x1C000, 0, 0)]
    yield "the highest bit of a size decides the dataflow", _inputs(high, 4)


def random(config: Config, seed: Seeds) -> Blocks:
    sizes = words("fdgf/random/sizes", seed, 10).reshape(-1, 5)
    wide = [(*(1 + int(word >> np.uint64(47)) % 131_071 for word in row[:3]), int(row[3]) % 3, 0) for row in sizes]
    yield "products of any size, their first events", _inputs(wide, 12)
    whole = words("fdgf/random/whole", seed, 20).reshape(-1, 5)
    moduli = np.array([config["m"] + 8, 64, config["k"] + 16, 3, 2], np.uint64)
    products = (whole % moduli).astype(np.int64) + np.array([1, 1, 1, 0, 0])
    yield "whole products of up to two by two tiles", _inputs(products, 128 if _is_long(config) else 64)


def _is_long(config: Config) -> bool:
    return config["m"] == 64 or config["k"] == 64


def _inputs(products: Any, events: int = 64) -> Inputs:
    """Each product is a case: a start, then `events` events, by default until it is done."""
    table = np.zeros((len(products), events, len(NAMES)), np.int64)
    table[:, 0, 0], table[:, 0, 1:] = 1, products
    return sequences(NAMES, table)


def _cut(m: int, k: int) -> Blocks:
    """Starts in every state of a product, sizes that change just before a start, and a case that starts nothing."""
    first, second = (m + 8, 40, k, COLUMN_MAJOR, 1), (24, 70, k + 16, ROW_MAJOR, 0)
    table = np.tile([0, 5, 7, 9, 0, 1], (12, 48, 1))
    for case, row in enumerate(table):
        row[1], row[2 + case] = (1, *first), (1, *second)
        row[3 + case :, 1:] = 3, 2, 1, 2, 0
    why = "a start after each of the first events of another product; other sizes just before either start"
    yield why, sequences(NAMES, table)
    short = np.tile([0, 5, 7, 9, 0, 1], (2, 9, 1))
    short[0, 0] = (1, *first)
    yield "a product that is cut off, then a case without a start: idle", sequences(NAMES, short)


def closes(config: Config, inputs: Inputs, result: Any) -> np.ndarray:
    """Events in which a product becomes complete."""
    done = result.code == DONE
    return np.concatenate([done[..., :1], done[..., 1:] & ~done[..., :-1]], axis=-1)


def legal(config: Config, inputs: Inputs) -> dict[str, np.ndarray]:
    """`inputs` with sizes of at least 1."""
    sizes = ("rows", "inner", "columns")
    return {**inputs, **{name: np.maximum(inputs[name], np.asarray(1, inputs[name].dtype)) for name in sizes}}
