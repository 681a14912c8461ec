"""Prompts and batches of Llama-3.2-3B on Harmonia's accelerator: every block of every product, one after the other.

Paper: [harmonia §III-B, §IV-A, §IV-C, §IV-D, §V-A]. For keys and values of 4 bits between the first 32 tokens and the
latest 64. Decode steps have one token for each request. Nothing of refemu.

block(requests, tokens, decode)          operations with clocks of a block, in order
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from tests.oracles.harmonia.units import choose

WIDTH, FFN, HEADS, KV_HEADS, DIM = 3072, 8192, 24, 8, 128
SHARE, TILE = HEADS // KV_HEADS, 64


class Operation(NamedTuple):
    """Clocks with operands at hand and with the memory, busy clocks by engine, bits by stream, dense MACs."""

    name: str
    cycles: int
    fed: int | None
    busy: dict[str, int]
    bits: dict[str, int]
    macs: int = 0


Bits = tuple[int, int]  #: of elements, of what groups share
Tile = tuple[int, int, int, int]  #: first row, first column, row after the last, column after the last


@dataclass
class Job:
    """A product."""

    rows: int
    inner: int
    columns: int
    a: Callable[[int, int], Bits]  #: of rows from, to
    b: Callable[[int, int, int, int], Bits]  #: of columns from, to, for rows from, to
    slots: Callable[[int, int, int, int], list[int]]  #: of the passes of a tile of the array
    vector: int = 0  #: columns that the vector unit takes at once
    code: int = 16  #: bits of a result
    final: bool = True  #: whether results stay FP16
    v: bool = False  #: whether results are grouped along the rows
    shifted: bool = False
    tracked: int = 0
    sees: Callable[[int], int] | None = None  #: columns of scores that a row may see

    def last(self, row: int) -> int:
        """Columns that exist for a row."""
        return self.columns if self.sees is None else self.sees(row)


@dataclass
class Line:
    """Clocks at which each part is free."""

    loads: bool  #: whether the memory takes clocks
    free: dict[str, int] = field(default_factory=dict)
    busy: dict[str, int] = field(default_factory=dict)
    banks: list[int] = field(default_factory=lambda: [0, 0])
    tiles: list[int] = field(default_factory=lambda: [0, 0])
    fresh: bool = False
    left: int = 0
    done: int = 0
    reads: list[tuple[int, int]] = field(default_factory=list)
    writes: list[tuple[int, int]] = field(default_factory=list)

    def clocks(self, bits: int) -> int:
        """Of 300 MHz for 256 GB/s."""
        return ceil(bits * 3 / 20480) if self.loads else 0

    def use(self, part: str, ready: int, clocks: int) -> int:
        """Start of a part that takes its next work."""
        start = max(self.free.get(part, 0), ready)
        self.free[part] = start + clocks
        self.busy[part] = self.busy.get(part, 0) + clocks
        return start

    def load(self, bits: Bits) -> None:
        """A tile, into the buffer that the array does not read."""
        start = self.use("load", self.tiles[0], self.clocks(bits[0] + bits[1]))
        self.reads.append((start, self.free["load"]))
        self.fresh = True

    def end(self) -> int:
        """Clock of the end, after the writes, which go between the reads."""
        clock, at = 0, 0
        for ready, count in self.writes:
            clock = max(clock, ready)
            while at < len(self.reads) and self.reads[at][0] < clock + count:
                start, stop = self.reads[at]
                if stop > clock:
                    count -= max(start - clock, 0)
                    clock = stop
                at += 1
            clock += count
        return max(clock, self.done, self.left)


class Run:
    """A product on a line."""

    def __init__(self, job: Job, line: Line) -> None:
        self.job, self.line = job, line
        self.times: dict[tuple[int, int], tuple[int, int]] = {}  #: band, block of columns -> first and last column
        self.parts: dict[tuple[int, int], int] = {}  #: band, head -> columns that are there
        self.complete: dict[int, int] = {}  #: band -> columns that are there
        self.given, self.gone, self.released = 0, 0, (0, 0)

    def tiles(self) -> Iterator[tuple[str, Tile]]:
        """Loads and tiles in the order of the dataflow; tiles that no row sees are left out."""
        job = self.job
        rows = [(top, min(top + TILE, job.rows)) for top in range(0, job.rows, TILE)]
        columns = [(left, min(left + TILE, job.columns)) for left in range(0, job.columns, TILE)]
        first = choose(job.rows, job.inner, job.columns)
        for one in columns if first == 1 else rows:
            begun = False
            for other in rows if first == 1 else columns:
                (top, bottom), (left, right) = (other, one) if first == 1 else (one, other)
                if job.sees is not None and job.sees(bottom - 1) <= left:
                    continue
                if not begun:
                    yield ("b" if first == 1 else "a"), (0 if first == 1 else top, left, bottom, right)
                    begun = True
                yield ("a" if first == 1 else "b"), (top, left, bottom, right)
                yield "tile", (top, left, bottom, right)

    def run(self) -> tuple[Bits, Bits]:
        """All of it; bits of A and of B."""
        job, sums = self.job, {"a": (0, 0), "b": (0, 0)}
        by_columns = choose(job.rows, job.inner, job.columns) == 1
        for what, (top, left, bottom, right) in self.tiles():
            if what == "tile":
                self.tile((top, left, bottom, right), by_columns)
                continue
            whole = (0, job.rows) if by_columns else (top, bottom)
            bits = job.a(top, bottom) if what == "a" else job.b(left, right, *whole)
            self.line.load(bits)
            sums[what] = (sums[what][0] + bits[0], sums[what][1] + bits[1])
        return sums["a"], sums["b"]

    def tile(self, tile: Tile, by_columns: bool) -> None:
        """Its blocks of 8 by 32, or for V 32 by 16."""
        top, left, bottom, right = tile
        tall, broad = (32, 16) if self.job.v else (8, 32)
        places = [(row, column) for row in range(top, bottom, tall) for column in range(left, right, broad)]
        for row, column in sorted(places, key=lambda each: each[::-1]) if by_columns else places:
            below = min(row + tall, bottom)
            if self.job.sees is None or self.job.sees(below - 1) > column:
                self.block(row, column, below, min(column + broad, right))

    def block(self, row: int, column: int, below: int, right: int) -> None:
        """The array, FP2Half, and what is complete with it."""
        job, line = self.job, self.line
        start = max(line.free.get("array", 0), line.free.get("load", 0))
        clock, first, end, count = start, 0, start, 0
        for band in range(row, below, 8):
            under = min(band + 8, below)
            for left in range(column, right, 16):
                if job.sees is not None and job.sees(under - 1) <= left:
                    continue
                for slots in job.slots(band, under, left, min(left + 16, right)):
                    first = first or clock + slots
                    end = clock + slots + 15
                    clock += max(slots, 16)
                count += min(16, right - left)
        line.busy["array"] = line.busy.get("array", 0) + clock - start
        line.free["array"] = clock
        line.tiles = [line.tiles[1] if line.fresh else line.tiles[0], end]
        line.fresh = False
        begun = line.use("FP2Half", first, count)
        line.free["FP2Half"] = max(line.free["FP2Half"], end + 1)
        line.done = max(line.done, line.free["FP2Half"])
        band, there = row // 8, line.free["FP2Half"]
        if job.v:
            self.leave(row, column, below, right, begun + 1, there, direct=True)
            return
        self.complete[band] = self.complete.get(band, 0) + right - column
        if not job.vector:
            if not job.shifted:
                self.leave(row, column, below, right, begun + 1, there, direct=True)
        else:
            self.vector(row, column, below, right, there)
        if job.shifted:
            self.keys()

    def vector(self, row: int, column: int, below: int, right: int, there: int) -> None:
        """A head, a row of scores or a block with an activation, once it is complete."""
        job, band, head = self.job, row // 8, column // self.job.vector
        left = head * job.vector
        last = min(left + job.vector, job.columns, 32 * ceil(job.last(below - 1) / 32))
        self.parts[band, head] = self.parts.get((band, head), 0) + right - column
        if self.parts[band, head] < last - left:
            return
        clocks = ceil((below - row) * (last - left) / 8)
        start = self.line.use("vector unit", there, clocks)
        self.line.done = max(self.line.done, start + clocks)
        self.times[band, head] = (start + 1, start + clocks)
        for group in range(left, last, 32) if not job.shifted else ():
            self.leave(row, group, below, min(group + 32, last), start + 1, start + clocks, direct=False)

    def keys(self) -> None:
        """Offsets of rows in order; those that choose them leave after the last of these."""
        job = self.job
        while self.given < job.rows and self.complete.get(self.given // 8, 0) == job.columns:
            below = min(self.given + 8, job.rows)
            ready = max(self.times[self.given // 8, head][1] for head in range(job.columns // job.vector))
            clocks = ceil((below - self.given) * job.columns / 8)
            start = self.line.use("offsets", ready, clocks)
            self.released = (start + 1, start + clocks)
            self.line.done = max(self.line.done, start + clocks)
            self.given = below
            while self.given >= job.tracked and self.gone < self.given:
                under = min(self.gone + 8, job.rows)
                for group in range(0, job.columns, 32):
                    self.leave(self.gone, group, under, group + 32, *self.released, direct=False)
                self.gone = under

    def leave(self, row: int, column: int, below: int, right: int, first: int, there: int, direct: bool) -> None:
        """Through the converter unless it stays FP16, and into the memory."""
        job, line = self.job, self.line
        bits = (below - row) * (right - column) * job.code
        if not job.final:
            clocks = 16 * ceil((below - row) / 8) if job.v else right - column
            begin = max(line.free.get("comparators", 0), first, line.banks[0])
            if direct:
                for part in ("array", "FP2Half"):
                    line.free[part] += begin - first
            line.use("comparators", begin, clocks)
            line.free["comparators"] = max(begin + clocks, there + 1)
            line.use("aligner", line.free["comparators"], clocks)
            there = line.free["aligner"]
            line.banks = [line.banks[1], there]
            bits += 5 * (right - column if job.v else below - row)
        else:
            line.left = max(line.left, there) + right - column
        line.done = max(line.done, there)
        line.writes.append((there, line.clocks(bits)))


def weighted(name: str, rows: int, inputs: int, outputs: int, **more: object) -> Operation:
    """A linear layer: INT4 weights with a factor for 128."""

    def a(top: int, bottom: int) -> Bits:
        return 9 * (bottom - top) * inputs, 5 * (bottom - top) * inputs // 32

    def b(left: int, right: int, *_: int) -> Bits:
        return 4 * (right - left) * inputs, 16 * (right - left) * inputs // 128

    job = Job(rows, inputs, outputs, a, b, lambda *_: [inputs // 32], **more)  # type: ignore[arg-type]
    return operation(name, "weights", job, 1)


def operation(name: str, stream: str, job: Job, times: int) -> Operation:
    """Some products of one size, one after the other."""
    lines = [Line(loads) for loads in (False, True)]
    for line in lines:
        for _ in range(times):
            a, b = Run(job, line).run()
    stored = [
        (min(row + 8, job.rows) - row, min(job.columns, 32 * ceil(job.last(min(row + 8, job.rows) - 1) / 32)))
        for row in range(0, job.rows, 8)
    ]
    codes = job.code * sum(high * wide for high, wide in stored)
    shared = 5 * sum(high * ceil(wide / 32) for high, wide in stored)
    if job.v:
        shared = 5 * ceil(job.rows / 32) * job.columns
    shared = 0 if job.final else shared
    bits = {stream: b[0], "activations": a[0], "outputs": codes, "metadata": a[1] + b[1] + shared}
    busy = {part: clocks for part, clocks in lines[0].busy.items() if clocks and part != "load"}
    macs = times * job.rows * job.inner * job.columns
    return Operation(name, lines[0].end(), lines[1].end(), busy, {k: times * v for k, v in bits.items()}, macs)


def converted(name: str, rows: int, length: int) -> Operation:
    """Blocks of 8 by 32, one after the other: comparators, then the aligner."""
    clocks = ceil(rows / 8) * length + 32
    return Operation(name, clocks, None, {"comparators": clocks, "aligner": clocks}, {})


def narrow(fall: int, seen: int, length: int) -> bool:
    """Whether what falls at a cache length has 4 bits for a row that sees `seen` tokens."""
    return fall <= seen and fall <= length


def attended(requests: int, tokens: Sequence[int], length: int) -> list[Operation]:
    """Scores and context. tokens: those that each new token may see, of one request."""
    seen = [number for number in tokens for _ in range(SHARE)]
    rows, times = len(seen), requests * KV_HEADS

    def key(j: int, row: int) -> bool:
        return j >= 32 and narrow(j + 65, seen[row], length)

    def group(g: int, row: int) -> bool:
        return g >= 1 and narrow(32 * g + 96, seen[row], length)

    def queries(top: int, bottom: int) -> Bits:
        return 9 * (bottom - top) * DIM, 5 * (bottom - top) * DIM // 32

    def keys(left: int, right: int, top: int, bottom: int) -> Bits:
        codes = count = 0
        for j in range(left, right):
            sees = [row for row in range(top, bottom) if seen[row] > j][:1]
            codes += sum(DIM * (5 if key(j, row) else 9) for row in sees)
            count += len(sees)
        return codes, 5 * count * DIM // 32

    def passes(top: int, bottom: int, left: int, right: int) -> list[int]:
        sets = dict.fromkeys(tuple(key(j, row) for j in range(left, right)) for row in range(top, bottom))
        return [4 if all(each) else 8 for each in sets]

    def probabilities(top: int, bottom: int) -> Bits:
        wide = min(length, 32 * ceil(seen[bottom - 1] / 32))
        return 9 * (bottom - top) * wide, 5 * (bottom - top) * ceil(wide / 32)

    def values(left: int, right: int, top: int, bottom: int) -> Bits:
        codes = count = 0
        for g in range(ceil(length / 32)):
            sees = [row for row in range(top, bottom) if seen[row] > 32 * g][:1]
            codes += sum(min(32, length - 32 * g) * (5 if group(g, row) else 9) for row in sees)
            count += len(sees)
        return (right - left) * codes, 5 * (right - left) * count

    def sums(top: int, bottom: int, *_: int) -> list[int]:
        groups = ceil(seen[bottom - 1] / 32)
        sets = dict.fromkeys(tuple(group(g, row) for g in range(groups)) for row in range(top, bottom))
        return [sum(1 if low else 2 for low in each) for each in sets]

    score = Job(rows, DIM, length, queries, keys, passes, length, 9, False, sees=lambda row: seen[row])
    mixed = Job(rows, length, DIM, probabilities, values, sums, 0, 9, False)
    return [operation("scores", "keys", score, times), operation("context", "values", mixed, times)]


def block(requests: int, tokens: int, decode: bool) -> list[Operation]:
    """Operations of a block. tokens: of each prompt, or before the decode step."""
    new = requests * (1 if decode else tokens)
    kv, length = KV_HEADS * DIM, tokens + decode
    tracked = 0 if decode else min(32, length, new)
    v = {} if decode else {"v": True, "code": 9, "final": False}
    return [
        converted("attn_in.input", new, WIDTH),
        weighted("q", new, WIDTH, WIDTH, vector=DIM, code=9, final=False),
        weighted("k", new, WIDTH, kv, vector=DIM, code=9, final=False, shifted=True, tracked=tracked),
        weighted("v", new, WIDTH, kv, **v),
        *attended(requests, [length] if decode else range(1, tokens + 1), length),
        weighted("o", new, WIDTH, WIDTH),
        converted("ffn_in.input", new, WIDTH),
        weighted("gate", new, WIDTH, FFN, vector=32),
        weighted("up", new, WIDTH, FFN),
        converted("down_in.input", new, FFN),
        weighted("down", new, FFN, WIDTH),
    ]
