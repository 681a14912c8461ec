"""KLLM's chip [kllm §III-B, §III-D, §IV-A, Fig. 6]: values by sorting, histograms and rounded sums, times by maxima.

FP16 values are words. A pass is what the MACs of all lanes reduce side by side: a tile of columns over all positions,
or, with carried sums, over those of a slab.

    product(chip, rows, columns, table, ...)   outputs, cycles and counters of rows of A by columns of B
    left(vector), right(vector), scores(...)   operands for it
    applied(function, words)                   what the Functional Unit makes of outputs
    token(chip, ...)                           a token from its values: outliers, indices, outputs, cycles, counters
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.oracles import fp16
from tests.oracles.kllm import formats, functions, units
from tests.oracles.kllm.formats import Vector
from tests.oracles.kllm.lane_times import Edge, Schedule, schedule

CLUSTERING = 16  #: values that get an index in a cycle
FUNCTIONAL = 8  #: outputs that the Functional Unit takes in a cycle


@dataclass(frozen=True)
class Chip:
    """Sizes and options."""

    lanes: int
    concat: int
    counters: int
    inputs: int
    macs: int
    lane_mapping: str = "column"
    merge: str = "tree"
    carry: str = "counts"

    @property
    def shared(self) -> bool:
        """Whether all counters of a lane work on one column."""
        return self.lane_mapping == "column"

    @property
    def positions(self) -> int:
        """Positions of a column in a slab."""
        return self.concat if self.shared else self.concat // self.counters

    @property
    def turn(self) -> int:
        """Positions of a column that are counted in an edge."""
        return self.inputs * self.counters if self.shared else self.inputs


class Left(NamedTuple):
    """A row of A: `integers` are amounts, `value` are the words that the sparse path reads."""

    index: Sequence[int]
    scale: int
    mask: Sequence[int]
    value: Sequence[int]
    centroids: Sequence[int]  #: of B, as this row's sparse path reads them
    integers: bool = False
    shift: int | None = None


class Right(NamedTuple):
    """A column of B: `outlier` has a word at every outlier, None elsewhere."""

    index: Sequence[int]
    scale: int
    outlier: Sequence[int | None]
    row_sum: int = 0
    bias: int | None = None


class Pass(NamedTuple):
    """Row, columns of every lane, positions."""

    row: int
    lanes: list[range]
    low: int
    high: int
    length: int  #: positions of the whole column

    @property
    def opens(self) -> bool:
        """Whether its sums start from 0."""
        return self.low == 0

    @property
    def closes(self) -> bool:
        """Whether outputs follow."""
        return self.high == self.length


class Answer(NamedTuple):
    """Outputs (0 where a row sees no column) and counters; `cycles` are edges of the chip."""

    y: list[list[int]]
    overflow: list[list[int]]
    counters: dict[str, int]


def left(vector: Vector, centroids: Sequence[int], shift: int | None = None) -> Left:
    """A row of indices."""
    return Left(vector.index, vector.scale, vector.mask, formats.dequantized(vector), centroids, shift=shift)


def right(vector: Vector, row_sum: int = 0, bias: int | None = None) -> Right:
    """A column of indices."""
    return Right(vector.index, vector.scale, formats.spread(vector), row_sum, bias)


def scores(q: Sequence[int], scale: int, p: Sequence[int]) -> Left:
    """A row of integers."""
    return Left(q, scale, [0] * len(q), p, [], integers=True)


def product(
    chip: Chip, rows: Sequence[Left], columns: Sequence[Right], table: Sequence[int], seen: Sequence[int] | None = None
) -> Answer:
    """Rows by columns. table: product codebook, or B's centroids. seen: of indices columns, of integers positions."""
    k, n = len(columns[0].index), len(columns)
    reach = [(k, n)] * len(rows)
    if seen is not None:
        reach = [(limit, n) if row.integers else (k, limit) for row, limit in zip(rows, seen, strict=True)]
    y, overflow = ([[0] * n for _ in rows] for _ in range(2))
    count: Counter[str] = Counter()
    for m, (row, (length, width)) in enumerate(zip(rows, reach, strict=True)):
        step = chip.positions if chip.carry == "sums" else max(length, 1)
        parts = [range(low, min(low + step, length)) for low in range(0, max(length, 1), step)]
        for j in range(width):
            y[m][j] = output(row, columns[j], parts, table)
            overflow[m][j] = int(y[m][j] & 0x7C00 == 0x7C00)
            work(count, row, columns[j], parts, table)
    count["overflows"] = sum(map(sum, overflow))
    plan = [each for m, limits in enumerate(reach) for each in passes(chip, m, *limits)]
    count.update(timed(chip, plan, rows, columns, table))
    return Answer(y, overflow, dict(count))


# Values.


def left_out(row: Left, column: Right, length: int) -> list[int]:
    """Positions of the sparse path."""
    return [k for k in range(length) if row.mask[k] or column.outlier[k] is not None]


def output(row: Left, column: Right, parts: Sequence[range], table: Sequence[int]) -> int:
    """One output, a word: a histogram for each part, one sum over all of them, then what was left out."""
    b_bits = len(row.centroids).bit_length() - 1
    inside = outside = 0
    for part in parts:
        tally: Counter[int] = Counter()
        for k in part:
            if not row.mask[k] and column.outlier[k] is None:
                q = column.index[k] if row.integers else formats.concat(row.index[k], column.index[k], b_bits)
                tally[q] += row.index[k] if row.integers else 1
        for q, word in enumerate(table):
            inside = fp16.add(inside, fp16.mul(fp16.from_float(float(tally[q])), word))
    for k in left_out(row, column, parts[-1].stop):
        apart = column.outlier[k]
        w = formats.dequantize(row.centroids[column.index[k]], column.scale) if apart is None else apart
        outside = fp16.add(outside, fp16.mul(row.value[k], w))
    y = fp16.add(fp16.mul(inside, fp16.mul(row.scale, column.scale)), outside)
    if row.shift is not None:
        y = fp16.add(y, fp16.mul(row.shift, column.row_sum) ^ fp16.SIGN)
    return y if column.bias is None else fp16.add(y, column.bias)


def work(count: Counter[str], row: Left, column: Right, parts: Sequence[range], table: Sequence[int]) -> None:
    """Operations of one output."""
    length = parts[-1].stop
    sparse = left_out(row, column, length)
    centroids = [(not row.integers and not row.mask[k], column.outlier[k] is None) for k in sparse]
    count["indices"] += length - len(sparse)
    count["lookups"] += len(parts) * len(table)
    count["macs_reduce"] += len(parts) * len(table)
    count["macs_sparse"] += len(sparse)
    count["dequants"] += sum(x + w for x, w in centroids)
    count["mults_scale"] += 1
    count["adds_merge"] += 1


# Times.


def passes(chip: Chip, m: int, length: int, width: int) -> Iterator[Pass]:
    """Tiles of a row: as many columns for each lane, in turn, as it has MACs."""
    size = chip.lanes * chip.macs
    step = chip.positions if chip.carry == "sums" else max(length, 1)
    for first in range(0, width, size):
        starts = range(first, first + size, chip.macs)
        lanes = [range(min(start, width), min(start + chip.macs, width)) for start in starts]
        for low in range(0, max(length, 1), step):
            yield Pass(m, lanes, low, min(low + step, length), length)


def turns(chip: Chip, one: Pass, columns: range) -> list[list[int]]:
    """Edges that a lane counts in, slab by slab, of every column, or of every group of columns that share them."""
    groups = len(columns) if chip.shared else -(-len(columns) // chip.counters)
    lows = range(one.low, max(one.high, one.low + 1), chip.positions)
    widths = [min(low + chip.positions, one.high) - low for low in lows]
    return [[max(1, -(-width // chip.turn)) for width in widths] for _ in range(groups)]


def span(one: Pass, rows: Sequence[Left], columns: Sequence[Right], entries: int) -> int:
    """Edges of the MACs: the column with most positions left out decides for all lanes."""
    if not one.closes:
        return entries
    row, tile = rows[one.row], [columns[j] for lane in one.lanes for j in lane]
    sparse = max(len(left_out(row, column, one.length)) for column in tile)
    return entries + sparse + 2 + (row.shift is not None) + (columns[0].bias is not None)


def timed(
    chip: Chip, plan: Sequence[Pass], rows: Sequence[Left], columns: Sequence[Right], table: Sequence[int]
) -> Counter[str]:
    """Cycles of the chip, and counters of what lanes did in them."""
    spans = [span(one, rows, columns, len(table)) for one in plan]
    schedules = together(chip, plan, spans)
    count: Counter[str] = Counter(cycles=0)
    for lane, times in enumerate(schedules):
        mine = [number for number, one in enumerate(plan) if one.lanes[lane]]
        count["count_cycles"] += sum(len(slab.turns) for slab in times.slabs)
        count["stalls"] += sum(int(slab.turns[0]) - slab.load - 1 for slab in times.slabs)
        count["merge_cycles"] += sum(len(column.merges) for column in times.columns)
        count["mac_cycles"] += sum(spans[number] for number in mine)
        count["tiles"] += len(mine)
        count["concats"] += 0 if rows and rows[0].integers else chip.concat * len(times.slabs)
        count["cycles"] = max([count["cycles"], *(int(tile.finish) + 1 for tile in times.tiles)])
        for number in mine:
            count += absent(chip, plan[number], plan[number].lanes[lane], table)
    return count


def absent(chip: Chip, one: Pass, columns: range, table: Sequence[int]) -> Counter[str]:
    """Operations on empty histograms: counters that each have a column are merged all at once, with or without one."""
    n = 0 if chip.shared else chip.counters * len(turns(chip, one, columns)) - len(columns)
    finite = all(word & 0x7C00 < 0x7C00 for word in table)
    closing = Counter(mults_scale=n, adds_merge=n, overflows=0 if finite else n)
    return Counter(lookups=n * len(table), macs_reduce=n * len(table)) + (closing if one.closes else Counter())


def together(chip: Chip, plan: Sequence[Pass], spans: Sequence[int]) -> list[Schedule]:
    """Schedules of the lanes: a pass begins in all its lanes when the last of them can."""
    begins: list[Edge] = [0] * len(plan)
    while True:
        schedules = [alone(chip, plan, spans, lane, begins) for lane in range(chip.lanes)]
        later = list(begins)
        for lane, times in enumerate(schedules):
            mine = [number for number, one in enumerate(plan) if one.lanes[lane]]
            for number, tile in zip(mine, times.tiles, strict=True):
                later[number] = max(later[number], tile.swap)
        if later == begins:
            return schedules
        begins = later


def alone(chip: Chip, plan: Sequence[Pass], spans: Sequence[int], lane: int, begins: Sequence[Edge]) -> Schedule:
    """Schedule of a lane whose passes begin no earlier than in `begins`."""
    mine = [number for number, one in enumerate(plan) if one.lanes[lane]]
    slabs = [
        (edges, int(s == len(column) - 1), int(s == len(column) - 1 and c == len(groups) - 1))
        for number in mine
        for groups in [turns(chip, plan[number], plan[number].lanes[lane])]
        for c, column in enumerate(groups)
        for s, edges in enumerate(column)
    ]
    offered, shapes = iter([*[True] * len(slabs), False]), iter(slabs)
    waiting, working = iter(mine), iter(mine)
    return schedule(
        lambda edge: edge if next(offered) else float("inf"),
        lambda _: next(shapes),
        lambda edge: max(edge, begins[next(waiting)]),
        lambda _: spans[next(working)],
        chip.counters if chip.shared and chip.merge == "serial" else 1,
        len(slabs) + 1,
    )


# Functions of the outputs.


class Applied(NamedTuple):
    """Results; the largest output, exponentials and their sum, as words, where the function is softmax."""

    z: list[int]
    top: int | None
    terms: list[int] | None
    total: int | None
    counters: dict[str, int]


def applied(function: str, y: Sequence[int], softmax: str = "fp16") -> Applied:
    """A function of every word, in one pass over them; of a row, softmax in three: the largest, sum, quotients."""
    pass_cycles = -(-len(y) // FUNCTIONAL)
    if function != "softmax":
        name = {"exp": "exps", "sqrt": "roots", "recip": "divides"}[function]
        counters = {"function_cycles": pass_cycles, name: len(y)}
        return Applied([functions.function16(function, word) for word in y], None, None, None, counters)
    row = functions.softmax_row(y, {"fp16": "paper", "softmax32": "exact"}[softmax])
    bits = fp16.from_float if softmax == "fp16" else fp16.f32_bits
    counters = {"function_cycles": 3 * pass_cycles, "exps": len(y), "divides": len(y)}
    return Applied(row.scores, row.top, [bits(term) for term in row.terms], fp16.f32_bits(row.total), counters)


# Tokens.


class Token(NamedTuple):
    """Outputs of a token and its counters."""

    y: list[int]
    overflow: list[int]
    a_index: list[int]
    a_mask: list[int]
    a_scale: int
    counters: dict[str, int]  #: `cycles` are those of the whole token, `edges` those of the lanes
    applied: Applied | None  #: what the Functional Unit answers


def token(
    chip: Chip,
    tree: int,
    pops: int,
    x: Sequence[int],
    a_codebook: Sequence[int],
    columns: Sequence[Right],
    b_codebook: Sequence[int],
    table: Sequence[int],
    function: str = "none",
    softmax: str = "fp16",
) -> Token:
    """A token by all columns, and a function of its outputs when all of them are there."""
    found = units.orizuru_passes(x, pops, tree).popped
    vector = formats.encode(x, a_codebook, pops)
    done = product(chip, [left(vector, b_codebook)], columns, table)
    inliers = vector.mask.count(0)
    count = dict(done.counters)
    count["edges"] = count.pop("cycles")
    count |= {"search_cycles": found.cycles, "cluster_cycles": -(-inliers // CLUSTERING)}
    count |= {"comparisons": found.comparisons, "distances": inliers * len(a_codebook)}
    answer = None if function == "none" else applied(function, done.y[0], softmax)
    count |= answer.counters if answer else {}
    parts = ("search_cycles", "cluster_cycles", "edges", "function_cycles")
    count["cycles"] = sum(count.get(part, 0) for part in parts)
    return Token(done.y[0], done.overflow[0], vector.index, vector.mask, vector.scale, count, answer)
