"""Edges while Weight Buffers fill: maxima and sums equal lanes that are stepped with a gate, and the oracle's lane."""

import dataclasses
import random
from fractions import Fraction
from itertools import product as every
from typing import Any

import numpy as np
import pytest

from refemu.models.schemes.kllm.machine.filled import Rows, at_once, edges, fed, tiled
from refemu.units.kllm.index_matmul import require_problem
from refemu.units.kllm.kllm_chip import (
    ChipSizes,
    LaneArray,
    Operands,
    operands,
    passes,
)
from refemu.units.kllm.kllm_chip import compiled as kllm_chip_compiled
from refemu.units.kllm.kllm_chip.product import parts
from tests.oracles.kllm import system as oracle
from tests.units.kllm.chip_operands import expected
from tests.units.kllm.chip_operands import sizes as small
from tests.units.kllm.kmeans_operands import tensor

PORT = Fraction(24 * 64 * 8 * 10**9, 500 * 10**6)  #: bits a cycle [kllm §V-A]
TABLE_1 = ChipSizes()


def zeros(rows: int, n: int, k: int, outliers: int) -> Operands:
    """A product of zeros of two bits, with some outliers in every row."""
    none, mask = np.zeros((0, 0), np.uint8), np.zeros((rows, k), np.uint8)
    mask[:, :outliers] = 1
    words = np.zeros((rows, k), np.uint16)
    sides = np.zeros((2, rows), np.int64), np.zeros((3, n), np.int64)
    indices = np.zeros((rows, k), np.uint8), np.zeros((n, k), np.uint8)
    tables = none.astype(np.uint16), np.zeros((1, 4), np.uint16), np.zeros(16, np.uint16)
    return Operands(
        *indices, mask, none, words, 1 - mask, *tables, *sides, 0, 0, False, 2, 2, np.array([[k, n]] * rows)
    )


def chip(draw: random.Random) -> ChipSizes:
    """A small chip of any mapping."""
    apart = draw.random() < 0.3
    options: dict[str, Any] = {
        "lanes": draw.randrange(1, 4),
        "concat": 16,
        "counters": 2,
        "counter_inputs": draw.choice([2, 4, 8]),
        "macs": 2 if apart else draw.choice([1, 3, 4, 6]),
        "lane_mapping": "counter" if apart else "column",
        "merge": "tree" if apart else draw.choice(["tree", "serial"]),
        "carry": draw.choice(["counts", "sums"]),
        "buffers": {"weight": draw.choice([64, 80, 200]), "index": 10**6, "codebook": 10**6, "out": 10**6},
    }
    return ChipSizes(**options)


@pytest.mark.long
def test_edges_equal_stepped_lanes_with_filling_buffers() -> None:
    """Any chip, columns in slabs, rows in sequence, ports of any rate."""
    draw = random.Random(5)
    for _ in range(40):
        sizes, rate = chip(draw), Fraction(draw.randrange(1, 60), draw.randrange(1, 4))
        n, k, rows = draw.randrange(1, 30), draw.randrange(1, 40), draw.randrange(1, 4)
        outliers = draw.randrange(0, min(k, 4))
        words, array, stepped = zeros(rows, n, k, outliers), LaneArray(sizes, 2, 2, rate=rate), 0
        array.begin(words, passes(words, sizes))
        while array.busy:
            array.edge()
            stepped += 1
        laid = tiled([Rows(1, k, n, outliers, rows)], sizes)
        assert fed(laid, sizes, 16, 2, rate).edges == stepped, (sizes, n, k, rows, outliers, rate)


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"merge": "serial"}, {"lane_mapping": "counter"}, {"carry": "sums"}])
def test_waiting_lanes_compute_the_same_words(options: dict[str, Any]) -> None:
    """D-kllm-66: a lane without its slab waits; edges are those of `refemu cost`, words those of the oracle."""
    sizes, a, b = small(**options), tensor((2, 40), 2, 1, 2), tensor((6, 40), 2, 2, 1)
    words = operands(require_problem(a, b, "paper", None, None, None, None))
    plan, due = passes(words, sizes), expected(sizes, a, b).y
    laid = tiled([Rows(1, 40, 6, task.outliers) for task in plan if task.closes], sizes)
    ends = []
    for rate in (None, Fraction(97, 2), Fraction(9)):
        array, edge = LaneArray(sizes, 2, 2, counter_bits=parts(words, sizes)[1], rate=rate), 0
        array.begin(words, plan)
        while array.busy:
            array.edge()
            edge += 1
        assert array.y.tolist() == due
        assert edge == fed(laid, sizes, words.table.size, 2, rate).edges
        ends.append(edge)

    assert ends[0] < ends[1] < ends[2]


@pytest.mark.parametrize("outliers", [0, 42])
@pytest.mark.parametrize(("n", "k"), [(4096, 4096), (1024, 4097), (700, 11008), (96, 100), (33, 8192)])
def test_edges_of_table_1_equal_the_oracle(n: int, k: int, outliers: int) -> None:
    """Lane 0 stepped edge by edge, with all weights there and at 3,072 bytes a cycle."""
    laid = tiled([Rows(1, k, n, outliers)], TABLE_1)
    for rate, port in ((None, None), (PORT, PORT / 8), (PORT / 3, PORT / 24), (3 * PORT, 3 * PORT / 8)):
        times = fed(laid, TABLE_1, 256, 4, rate)
        assert [times.edges, times.counters, times.macs] == oracle.lane(n, k, 256, outliers, port=port)


@pytest.mark.long
@pytest.mark.parametrize("rows", [2, 3, 5, 16, 32])
@pytest.mark.parametrize(("n", "k"), [(1024, 4096), (300, 4097), (70, 9000), (96, 100)])
def test_rows_of_a_slab_equal_the_oracle(rows: int, n: int, k: int) -> None:
    """D-kllm-67: rows of a batch that pass every slab together, stepped edge by edge."""
    laid = tiled([Rows(rows, k, n, 7)], TABLE_1)
    for rate, port in ((None, None), (PORT, PORT / 8), (PORT / 40, PORT / 320)):
        times = fed(laid, TABLE_1, 256, 4, rate)
        assert [times.edges, times.counters, times.macs] == oracle.lane(n, k, 256, 7, port=port, rows=rows)


@pytest.mark.long
def test_rows_of_a_slab_equal_stepped_lanes() -> None:
    """D-kllm-67: to a lane, rows are more columns whose weights are there already, if a column is one slab."""
    draw = random.Random(7)
    for _ in range(40):
        rows, columns = draw.randrange(2, 5), draw.randrange(1, 3)
        sizes = dataclasses.replace(chip(draw), lane_mapping="column", macs=rows * columns)
        rate = Fraction(draw.randrange(1, 60), draw.randrange(1, 4))
        n, k, outliers = draw.randrange(1, 12), draw.randrange(1, 17), draw.randrange(0, 2)
        words, stepped = zeros(1, n * rows, k, min(k, outliers)), 0
        array = LaneArray(sizes, 2, 2, rate=rate)
        array.begin(words, passes(words, sizes))
        for needs in array._needs:
            needs[:] = [0 if at % rows else need for at, need in enumerate(needs)]
        while array.busy:
            array.edge()
            stepped += 1
        laid = tiled([Rows(rows, k, n, min(k, outliers))], sizes)
        assert fed(laid, sizes, 16, 2, rate).edges == stepped, (sizes, n, k, rows, outliers, rate)


def test_equal_rows_repeat_their_times() -> None:
    """A run of rows is as long as its rows one by one, at rates whose remainders take long to return."""
    for rate in (None, PORT, Fraction(24577, 3), Fraction(1000)):
        for k, n in ((4096, 512), (5000, 96), (100, 2000)):
            parts = [Rows(3, k, n, 5)] * 23
            whole = [Rows(3, k, n, 5, 23)]
            results = [fed(tiled(rows, TABLE_1), TABLE_1, 256, 4, rate) for rows in (parts, whole)]
            assert results[0] == results[1]


def test_slab_is_taken_when_its_last_bit_arrives() -> None:
    """D-kllm-66: 16,384 bits at 1,536 an edge; 32 of them in 342 edges, or in 11 each if a slab begins an edge."""
    laid, alone = tiled([Rows(1, 4096, 512, 0)], TABLE_1), 8 + 256 + 2
    stream, slab = (fed(laid, TABLE_1, 256, 4, PORT, fill=fill).edges for fill in ("stream", "slab"))  # type: ignore[arg-type]

    assert stream == 342 + alone + 2
    assert slab == 32 * 11 + alone + 2


@pytest.mark.parametrize(("rows", "k", "n", "together"), [(40, 4096, 4096, 16), (40, 11008, 4096, 5), (3, 64, 64, 3)])
def test_rows_together_fit_buffers_and_macs(rows: int, k: int, n: int, together: int) -> None:
    """D-kllm-67: 32 KB of indices are 16 rows of 4,096, or 5 of 11,008."""
    assert at_once(rows, k, n, 4, 256, TABLE_1, "weights") == together
    assert at_once(rows, k, n, 4, 256, TABLE_1, "rows") == 1


def test_heads_share_the_lanes() -> None:
    """D-kllm-68: four heads of 128 columns are 16 blocks of 32, as many as lanes; five take a second tile."""
    four, five = (tiled([Rows(1, 64, 128, 0)], TABLE_1, heads).tiles[:, [0, 6]].tolist() for heads in (4, 5))

    assert four == [[32, 1]] and five == [[32, 2]]
    ragged = tiled([Rows(1, 64, 40, 0)], TABLE_1, 9).tiles[:, [0, 6]].tolist()
    assert ragged == [[32, 1], [8, 1]]


@pytest.mark.parametrize("mapping", ["column", "counter"])
@pytest.mark.parametrize(("merge", "carry"), [*every(("tree", "serial"), ("counts", "sums"))])
def test_edges_from_sizes_equal_stepped_edges(mapping: str, merge: str, carry: str) -> None:
    bias = np.linspace(-3, 3, 8).astype(np.float16)
    for k, n, biased in every((1, 8, 17, 40), (1, 5, 6, 20), (False, True)):
        a, b = tensor((2, k), 2, 1, k // 9), tensor((n, k), 2, 2, k // 20)
        extra = np.resize(bias, n) if biased else None
        sizes = small(lane_mapping=mapping, merge=merge, carry=carry)
        words = operands(require_problem(a, b, "paper", None, extra, None, None))
        result = kllm_chip_compiled.matmul(a, b, chip=sizes, bias=extra)
        assert edges(passes(words, sizes), sizes, 16, int(biased)) == result.cycles
