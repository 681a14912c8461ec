"""Golden cases of fdgf: both dataflows of [harmonia Fig. 15] from start to end, tiles of one element more or fewer."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from refemu.units.stimuli import Seeds, words
from refemu.units.unit import Cases, Config, Kind

COLUMN_MAJOR, ROW_MAJOR = 1, 2
DONE = 7  #: value of the port `code`
NAMES = ("start", "rows", "inner", "columns", "forced", "v")


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    m, k = config["m"], config["k"]
    long = m == 64 or k == 64
    if kind == "paper":
        why = "[harmonia §IV-D] two by two tiles in each dataflow, blocks of tokens and of V"
        yield _case(
            kind,
            why,
            [(2 * m, 32, 2 * k, flow, v) for v in (0, 1) for flow in (COLUMN_MAJOR, ROW_MAJOR)],
            events=150 if long else 60,
        )
    if kind == "edge":
        edges = [
            (rows, 33, columns, flow, v)
            for rows, columns, flow, v in (
                (m + 1, k - 1, 1, 0),
                (m - 1, k + 1, 2, 0),
                (m + 9, k + 17, 1, 1),
                (m + 25, k + 1, 2, 1),
            )
        ]
        yield _case(kind, "one element off a multiple of a tile; a short last group", edges, "D-harmonia-30")
        why = "one element, one row of A (a decode step), one column of B"
        yield _case(
            kind, why, [(1, 1, 1, 0, 0), (1, 96, 2 * k, 0, 0), (2 * m, 96, 1, 0, 0), (1, 96, 40, 0, 1)], "D-harmonia-31"
        )
        why = "where the choice of the formula changes: M below, at and above K"
        yield _case(kind, why, [(rows, 32, 3 * k, 0, 0) for rows in (m, 2 * m, 3 * m, 4 * m)], "D-harmonia-31")
        why = "less than a tile of M and of K: the dataflow follows whole tiles, not their fraction"
        yield _case(
            kind, why, [(1, 32, 3, 0, 0), (2, 32, 5, 0, 0), (m // 2, 32, k // 2 + 1, 0, 0)], "D-harmonia-30", 24
        )
        yield _restart(m, k)
        yield from _cut(m, k)
        why = "many tiles of one element's width, down the rows and along the columns: the tile counters rise"
        yield _case(kind, why, [(131_071, 1, 1, 1, 0), (1, 1, 131_071, 2, 0)], events=600 if long else 300)
        why = "sizes whose bits alternate, up to the largest: what is fetched, and the first addresses"
        ends = [(0x15555, 0xAAAA, 0x15555), (0xAAAA, 0x15555, 0xAAAA), (131_071, 131_071, 131_071), (1, 131_071, 1)]
        yield _case(kind, why, [(*each, flow, 0) for each in ends for flow in (1, 2)], events=12)
        yield _starts()
        why = "a reduction of 40 groups: addresses of later passes skip as many"
        yield _case(kind, why, [(40, 1280, 48, 1, 0), (40, 1280, 48, 2, 1)], events=240)
        why = "the highest bit of a size decides the dataflow"
        yield _case(kind, why, [(0x1C000, 1, 0xF000, 0, 0), (0xF000, 1, 0x1C000, 0, 0)], events=4)
    if kind == "random":
        sizes = words("fdgf/random/sizes", seed, 10).reshape(-1, 5)
        wide = [(*(1 + int(word >> np.uint64(47)) % 131_071 for word in row[:3]), int(row[3]) % 3, 0) for row in sizes]
        yield _case(kind, "products of any size, their first events", wide, events=12)
        whole = [
            (1 + int(a) % (m + 8), 1 + int(b) % 64, 1 + int(c) % (k + 16), int(d) % 3, int(e) % 2)
            for a, b, c, d, e in words("fdgf/random/whole", seed, 20).reshape(-1, 5)
        ]
        yield _case(kind, "whole products of up to two by two tiles", whole, events=128 if long else 64)


def _case(kind: Kind, why: str, products: list[Any], decision: str = "", events: int = 64) -> Cases:
    """Each product is a case: a start, then `events` events, by default until it is done."""
    table = np.zeros((len(products), events, len(NAMES)), np.int64)
    for row, product in zip(table, products, strict=True):
        row[0] = (1, *product)
    return Cases(kind, why, {name: table[:, :, column] for column, name in enumerate(NAMES)}, decision)


def _starts() -> Cases:
    """A start at every event."""
    table = np.zeros((1, 4, len(NAMES)), np.int64)
    for event, sizes in enumerate([(0x15555, 0xAAAA, 0x15555), (0xAAAA, 0x15555, 0xAAAA)] * 2):
        table[0, event] = 1, *sizes, ROW_MAJOR - event % 2, event % 2
    why = "products that start one after the other, with sizes whose bits alternate"
    return Cases("edge", why, {name: table[:, :, column] for column, name in enumerate(NAMES)})


def _restart(m: int, k: int) -> Cases:
    """A second start before the first product is done, and inputs that count only at a start."""
    table = np.zeros((1, 32, len(NAMES)), np.int64)
    table[0, :, 1:] = 3, 3, 3, 1, 1
    table[0, 0], table[0, 20] = (1, m, 64, k, ROW_MAJOR, 0), (1, 8, 64, 16, COLUMN_MAJOR, 0)
    why = "a start while a product is under way; sizes without a start are ignored"
    return Cases("edge", why, {name: table[:, :, column] for column, name in enumerate(NAMES)})


def _cut(m: int, k: int) -> Iterator[Cases]:
    """Starts in every state of a product, sizes that change just before a start, and a case that starts nothing."""
    first, second = (m + 8, 40, k, COLUMN_MAJOR, 1), (24, 70, k + 16, ROW_MAJOR, 0)
    table = np.zeros((12, 48, len(NAMES)), np.int64)
    table[:, :, 1:] = 5, 7, 9, 0, 1
    for case, row in enumerate(table):
        row[1], row[2 + case] = (1, *first), (1, *second)
        row[3 + case :, 1:] = 3, 2, 1, 2, 0
    why = "a start after each of the first events of another product; other sizes just before either start"
    yield Cases("edge", why, {name: table[:, :, column] for column, name in enumerate(NAMES)})
    short = np.zeros((2, 9, len(NAMES)), np.int64)
    short[:, :, 1:] = 5, 7, 9, 0, 1
    short[0, 0] = (1, *first)
    why = "a product that is cut off, then a case without a start: idle"
    yield Cases("edge", why, {name: short[:, :, column] for column, name in enumerate(NAMES)})


def closes(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], result: Any) -> np.ndarray:
    """Events in which a product becomes complete."""
    done = result.code == DONE
    return np.concatenate([done[..., :1], done[..., 1:] & ~done[..., :-1]], axis=-1)


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with sizes of at least 1."""
    sizes = ("rows", "inner", "columns")
    return {**inputs, **{name: np.maximum(inputs[name], np.asarray(1, inputs[name].dtype)) for name in sizes}}
