"""The oracle of KLLM's PE lane: a worked column, and edges against a timeline and products of values."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.oracles import fp16, prng
from tests.oracles.kllm import lane
from tests.oracles.kllm.lane_times import Schedule, Work, timeline

ONE = 0x3C00
A = [0, 1, 1, 0, 1, 0, 0, 1]  #: indices of the worked column of III-B
B = [3, 0, 2, 2, 1, 3, 0, 1]
PRODUCTS = [0x3800, 0x3000, 0xB000, 0xB800, 0xBA00, 0xB200, 0x3200, 0x3A00]  #: of the worked column
LANE = lane.Sizes(concat=16, counters=2, inputs=4, macs=3, a_bits=1, b_bits=2)


def test_worked_column_in_a_lane() -> None:
    sizes = LANE._replace(concat=8)
    ports = {"a": A, "b": B, "valid": [1] * 8, "last": 1, "tile_end": 1}
    ports |= {"opens": 1, "closes": 1, "a_scale": ONE, "b_scale": [ONE] * 3}
    inputs = [ports | {"load": int(n == 0), "go": int(n == 3), "entry": PRODUCTS[(n - 4) % 8]} for n in range(14)]
    rows = lane.edges(sizes, inputs)

    assert rows[0]["q"] == [3, 4, 6, 2, 5, 3, 0, 5]
    assert rows[1]["count"] == [0, 0, 1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 0, 2, 0, 0]
    assert rows[2]["counted"] == rows[3]["reducing"] == [1, 0, 1, 2, 1, 2, 1, 0, *[0] * 16]
    assert [(row["ready"], row["full"], row["phase"]) for row in rows[:5]] == [
        (1, 0, lane.IDLE), (1, 0, lane.IDLE), (1, 1, lane.IDLE), (1, 0, lane.REDUCE), (1, 0, lane.REDUCE),
    ]  # fmt: skip
    assert [n for n, row in enumerate(rows) if row["y_valid"]] == [13]
    assert [fp16.to_float(word) for word in rows[13]["y"]] == [-1.5625, 0, 0]
    assert lane.product(sizes, A, [B], [[1] * 8], PRODUCTS, ONE, [ONE]) == rows[13]["y"][:1]


def test_bank_in_use_stalls_merge_count_and_load() -> None:
    # four tiles of one slab: the second bank waits for the MACs from edge 4 to 9; slab 3 waits in the Concat registers.
    # Nobody knows after edge 2 that the bank goes in edge 3, so slab 3 is loaded in edge 4
    plan = timeline([Work([[1]], reduce=4, finish=2)] * 4)

    assert [slab.load for slab in plan.slabs] == [0, 1, 2, 4]
    assert [slab.turns for slab in plan.slabs] == [[1], [2], [3], [9]]
    assert [column.merges for column in plan.columns] == [[2], [3], [9], [15]]
    assert plan.tiles == [(2, 3, 9), (3, 9, 15), (9, 15, 21), (15, 21, 27)]


def test_serial_merge_counts_on_in_its_last_edge() -> None:
    plan = timeline([Work([[1]], reduce=4, finish=2)] * 3, merge_edges=2)

    assert [slab.load for slab in plan.slabs] == [0, 1, 3]
    assert [slab.turns for slab in plan.slabs] == [[1], [3], [5]]
    assert [column.merges for column in plan.columns] == [[2, 3], [4, 5], [10, 11]]
    assert plan.tiles == [(3, 4, 10), (5, 10, 16), (11, 16, 22)]


def tiles_of(sizes: lane.Sizes, draw: Callable[[int], int]) -> list[Work]:
    """Six tiles with columns of up to three slabs."""
    turns = sizes.concat // (sizes.counters * sizes.inputs)
    tiles = []
    for _ in range(6):
        columns = [[1 + draw(turns) for _ in range(1 + draw(3))] for _ in range(1 + draw(sizes.macs))]
        tiles.append(Work(columns if sizes.shared else columns[:1], sizes.entries, draw(4), 2 + draw(3)))
    return tiles


def driven(sizes: lane.Sizes, tiles: list[Work], plan: Schedule, draw: Callable[[int], int]) -> list[dict[str, Any]]:
    """Ports at the edges that a timeline names; `load` and `go` may be set before they are taken."""

    def word() -> int:
        return draw(2) << 15 | (12 + draw(7)) << 10 | draw(1024)

    inputs = [
        {"load": int(any(n <= slab.load for slab in plan.slabs)), "go": 1, "entry": word(), "opens": 1, "shift": word()}
        | {"a": [draw(1 << sizes.a_bits) for _ in range(sizes.positions)], "a_scale": word(), "closes": 1}
        | {"b": [draw(1 << sizes.b_bits) for _ in range(sizes.concat)]}
        | {"valid": [int(draw(4) > 0) for _ in range(sizes.concat)]}
        | {name: [word() for _ in range(sizes.macs)] for name in ("b_scale", "row_sum", "bias", "x", "w")}
        | {name: [draw(2) for _ in range(sizes.macs)] for name in ("sparse", "x_coded", "w_coded")}
        for n in range(int(plan.tiles[-1].finish) + 2)
    ]
    columns = [(n == len(tile.columns), column) for tile in tiles for n, column in enumerate(tile.columns, 1)]
    ports = iter(plan.slabs)
    for end, column in columns:
        for number, turns in enumerate(column):
            last = int(number == len(column) - 1)
            inputs[next(ports).load].update(turns=turns, last=last, tile_end=int(last and end))
    for tile, times in zip(tiles, plan.tiles, strict=True):
        extra = tile.finish - 2
        inputs[int(times.swap)].update(outliers=tile.sparse, shifts=int(extra > 0), biases=int(extra > 1))
    return inputs


@pytest.mark.parametrize(
    "sizes",
    [
        LANE,
        LANE._replace(merge="serial"),
        LANE._replace(lane_mapping="counter", macs=2),
        LANE._replace(integer=True, a_bits=3),
        LANE._replace(integer=True, a_bits=3, lane_mapping="counter", macs=2),
        LANE._replace(concat=24, counters=3, merge="serial"),
    ],
    ids=lambda sizes: f"{'integer-' * sizes.integer}{sizes.lane_mapping}-{sizes.merge}-{sizes.counters}",
)
def test_lane_follows_its_timeline_with_correct_products(sizes: lane.Sizes) -> None:
    words = iter(prng.words(len(sizes.merge) + sizes.concat, 0, 60000))

    def draw(below: int) -> int:
        return next(words) % below

    tiles = tiles_of(sizes, draw)
    plan = timeline(tiles, sizes.merge_edges)
    inputs = driven(sizes, tiles, plan, draw)
    rows = lane.edges(sizes, inputs)

    assert [n for n, row in enumerate(rows) if row["y_valid"]] == [tile.finish for tile in plan.tiles]
    taken = [n for n, row in enumerate(rows) if row["tiles"] > (rows[n - 1]["tiles"] if n else 0)]
    assert taken == [tile.swap for tile in plan.tiles]
    assert rows[-1]["count_cycles"] == sum(len(slab.turns) for slab in plan.slabs)
    assert rows[-1]["cycles"] == len(rows) and rows[-1]["tiles"] == len(tiles)
    for number, tile in enumerate(plan.tiles):
        assert rows[int(tile.finish)]["y"] == tile_of(sizes, plan, number, inputs), number
    slabs = [(inputs[slab.load], len(slab.turns)) for slab in plan.slabs]
    assert rows[-1]["indices"] == sum(ports["valid"][n] for ports, turns in slabs for n in counted(sizes, turns))


def counted(sizes: lane.Sizes, turns: int) -> list[int]:
    """Lanes of a slab of so many turns."""
    part = sizes.concat // sizes.counters
    shared = range(turns * sizes.counters * sizes.inputs)
    return list(shared) if sizes.shared else [n for n in range(sizes.concat) if n % part < turns * sizes.inputs]


def tile_of(sizes: lane.Sizes, plan: Schedule, number: int, inputs: list[dict[str, Any]]) -> list[int]:
    """Y of a tile as a product of values, 0 for MACs without a column."""
    tile = plan.tiles[number]
    work = inputs[int(tile.swap)]
    start = int(tile.swap) + 1
    entries = [ports["entry"] for ports in inputs[start : start + sizes.entries]]
    sparse = inputs[start + sizes.entries : start + sizes.entries + work["outliers"]]
    result: list[int] = []
    groups = [n for n, column in enumerate(plan.columns) if column.tile == number]
    for group in groups:
        slabs = [(inputs[slab.load], counted(sizes, len(slab.turns))) for slab in plan.slabs if slab.column == group]
        for c in range(1 if sizes.shared else sizes.counters):
            parts = [(ports, [n for n in lanes if sizes.shared or n // sizes.positions == c]) for ports, lanes in slabs]
            j = len(result)
            a = [ports["a"][n % sizes.positions] for ports, lanes in parts for n in lanes]
            b = [ports["b"][n] for ports, lanes in parts for n in lanes]
            valid = [ports["valid"][n] for ports, lanes in parts for n in lanes]
            mine = [{name: [ports[name][j]] for name in ("sparse", "x", "w", "x_coded", "w_coded")} for ports in sparse]
            shift = work["shift"] if work["shifts"] else None
            bias = work["bias"][j:] if work["biases"] else None
            scales = (work["a_scale"], work["b_scale"][j:])
            result += lane.product(sizes, a, [b], [valid], entries, *scales, mine, shift, work["row_sum"][j:], bias)
    return result + [0] * (sizes.macs - len(result))
