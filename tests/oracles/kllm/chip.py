"""KLLM's chip [kllm §IV-A, §IV-B, Fig. 6] as lanes that work clock by clock, on FP16 words; no formula of cycles.

A tile is what all MACs of all lanes reduce at once, one column each. Its columns are counted by the lanes in lockstep
while the tile before is reduced; the slower of the two decides when both go on.

    row(chip, a, columns, products, acc)    one row of A by some columns
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracles import fp16
from tests.oracles.kllm import formats
from tests.oracles.kllm.formats import Vector

Histogram = dict[int, int]


class Chip(NamedTuple):
    """Sizes; `mapping` says whether all counters of a lane share a column ("column") or each has its own."""

    lanes: int
    counters: int
    inputs: int
    macs: int
    mapping: str


class Row(NamedTuple):
    """Outputs of a row, and how long it took."""

    y: list[int]
    overflow: list[bool]
    tiles: int
    count_cycles: int
    mac_cycles: int
    cycles: int
    work: dict[str, int]  #: operations by name


def row(chip: Chip, a: Vector, columns: Sequence[Vector], products: Sequence[int], acc: str = "fp16") -> Row:
    """A row by its columns, tile after tile. products: words by concatenated index. acc: "fp16" or "exact"."""
    work = dict.fromkeys(("concats", "indices", "lookups", "macs_reduce", "macs_sparse", "mults_scale"), 0)
    y: dict[int, int] = {}
    counting, reducing, total, waiting = 0, 0, 0, 0  # clocks; waiting: of the reduction that the next count overlaps
    tiles = list(tiled(chip, len(columns)))
    for tile in tiles:
        clocks = counted(chip, len(a.index))
        counting, total = counting + clocks, total + max(clocks, waiting)
        waiting = 0
        for n in (n for lane in tile for n in lane):
            y[n], taken = reduce(a, columns[n], histogram(chip, a, columns[n], work), products, acc, work)
            waiting = max(waiting, taken)  # MACs go side by side
        reducing += waiting
    words = [y[n] for n in range(len(columns))]
    return Row(
        words, [word & 0x7C00 == 0x7C00 for word in words], len(tiles), counting, reducing, total + waiting, work
    )


def tiled(chip: Chip, columns: int) -> Iterator[list[list[int]]]:
    """For every tile the columns of every lane: as many in turn as a lane has MACs."""
    rest = iter(range(columns))
    while tile := [[n for _, n in zip(range(chip.macs), rest, strict=False)] for _ in range(chip.lanes)]:
        if not tile[0]:
            return
        yield tile


def counted(chip: Chip, k: int) -> int:
    """Clocks until a lane has counted a tile: it goes through the places of all its columns, filled or not."""
    clocks, together = 0, 1 if chip.mapping == "column" else chip.counters
    for _ in range(0, chip.macs, together):
        for _ in range(0, k, chip.inputs * (chip.counters // together)):
            clocks += 1
    return clocks


def histogram(chip: Chip, a: Vector, b: Vector, work: dict[str, int]) -> Histogram:
    """Concat registers, then counters that take turns of `inputs` positions each; their histograms are added."""
    nb = len(b.codebook).bit_length() - 1
    register = [formats.concat(i, j, nb) for i, j in zip(a.index, b.index, strict=True)]
    work["concats"] += len(register)
    partial: list[Histogram] = [{} for _ in range(chip.counters)]
    for turn, start in enumerate(range(0, len(register), chip.inputs)):
        here = partial[turn % chip.counters]
        for k in range(start, min(start + chip.inputs, len(register))):
            if not a.mask[k] and not b.mask[k]:
                here[register[k]] = here.get(register[k], 0) + 1
                work["indices"] += 1
    return {q: sum(one.get(q, 0) for one in partial) for one in partial for q in one}


def reduce(
    a: Vector, b: Vector, count: Histogram, products: Sequence[int], acc: str, work: dict[str, int]
) -> tuple[int, int]:
    """Output and clocks of one MAC: a counter, or a position left out, or the scale, or the merge at each."""
    left_out = [
        (x, w)
        for x, w, i, j in zip(formats.dequantized(a), formats.dequantized(b), a.mask, b.mask, strict=True)
        if i or j
    ]
    work["lookups"], work["macs_reduce"] = work["lookups"] + len(products), work["macs_reduce"] + len(products)
    work["macs_sparse"], work["mults_scale"] = work["macs_sparse"] + len(left_out), work["mults_scale"] + 1
    clocks = len(products) + len(left_out) + 2
    if acc == "exact":
        dense = sum((count.get(q, 0) * formats.exact(word) for q, word in enumerate(products)), Fraction(0))
        sparse = sum((formats.exact(x) * formats.exact(w) for x, w in left_out), Fraction(0))
        return fp16.from_fraction(dense * formats.exact(a.scale) * formats.exact(b.scale) + sparse), clocks
    inside = outside = 0
    for q, word in enumerate(products):
        inside = fp16.add(inside, fp16.mul(fp16.from_float(float(count.get(q, 0))), word))
    for x, w in left_out:
        outside = fp16.add(outside, fp16.mul(x, w))
    return fp16.add(fp16.mul(inside, fp16.mul(a.scale, b.scale)), outside), clocks
