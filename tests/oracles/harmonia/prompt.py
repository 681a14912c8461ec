"""Prompts and batches of Llama-3.2-3B on Harmonia's accelerator: every block of every product, one after the other.

Paper: [harmonia §III-B, §IV-A, §IV-C, §IV-D, §V-A]. For keys and values of 4 bits between the first 32 tokens and the
latest 64. Decode steps have one token for each request. Nothing of refemu.

block(requests, tokens, decode)          operations with clocks of a block, in order
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np

from tests.oracles.harmonia.prompt_line import BUSY, LENGTH, PARTS, Sizes, end, run
from tests.oracles.harmonia.units import choose

WIDTH, FFN, HEADS, KV_HEADS, DIM = 3072, 8192, 24, 8, 128
SHARE, TILE, SRAM = HEADS // KV_HEADS, 64, 4096 * 1024 * 8  #: query heads of a KV head; rows of a tile; bits
A, B = 0, 1  #: loads among the events of a product; 2 or 3 is a tile by columns or by rows


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
    vector: int = 0  #: columns that the vector unit takes at once
    code: int = 16  #: bits of a result
    final: bool = True  #: whether results stay FP16
    v: bool = False  #: whether results are grouped along the rows
    shifted: bool = False
    tracked: int = 0
    score: bool = False
    seen: Sequence[int] = ()  #: tokens that each row of scores, or of scores times values, may see

    def last(self, row: int) -> int:
        """Columns that exist for a row."""
        return self.seen[row] if self.score else self.columns

    def tile(self) -> tuple[int, int]:
        """Rows and columns of a tile: the buffers hold two of A and of B."""
        high, wide, eight = TILE, TILE, 9 * self.inner + 5 * ceil(self.inner / 32)
        right = eight if self.seen else 4 * self.inner + 16 * self.inner // 128
        while 2 * (high * eight + wide * right) > SRAM:
            if high * eight >= wide * right:
                high -= 32
            else:
                wide -= 32
        return high, wide

    def events(self) -> Iterator[tuple[int, Tile, Bits]]:
        """Loads and tiles in the order of the dataflow; tiles that no row sees are left out."""
        high, wide = self.tile()
        rows = [(top, min(top + high, self.rows)) for top in range(0, self.rows, high)]
        columns = [(left, min(left + wide, self.columns)) for left in range(0, self.columns, wide)]
        first = choose(self.rows, self.inner, self.columns, high, wide)
        for one in columns if first == 1 else rows:
            begun = False
            for other in rows if first == 1 else columns:
                (top, bottom), (left, right) = (other, one) if first == 1 else (one, other)
                if self.last(bottom - 1) <= left:
                    continue
                here = 0 if first == 1 else top, self.rows if first == 1 else bottom
                tile, loads = (top, left, bottom, right), (self.a(top, bottom), self.b(left, right, *here))
                if not begun:
                    yield (B if first == 1 else A), tile, loads[B if first == 1 else A]
                    begun = True
                yield (A if first == 1 else B), tile, loads[A if first == 1 else B]
                yield 1 + first, tile, (0, 0)


def weighted(name: str, rows: int, inputs: int, outputs: int, **more: object) -> Operation:
    """A linear layer: INT4 weights with a factor for 128."""

    def a(top: int, bottom: int) -> Bits:
        return 9 * (bottom - top) * inputs, 5 * (bottom - top) * inputs // 32

    def b(left: int, right: int, *_: int) -> Bits:
        return 4 * (right - left) * inputs, 16 * (right - left) * inputs // 128

    job = Job(rows, inputs, outputs, a, b, **more)  # type: ignore[arg-type]
    return operation(name, "weights", job, 1)


def operation(name: str, stream: str, job: Job, times: int) -> Operation:
    """Some products of one size, one after the other."""
    events = list(job.events())
    listed = np.array([(what, *tile, sum(bits)) for what, tile, bits in events])
    a, b = ([sum(bits[at] for each, _, bits in events if each == what) for at in (0, 1)] for what in (A, B))
    seen, ends = np.array(job.seen, np.int64), []
    for loads in (0, 1):
        given = Sizes(**{name: int(getattr(job, name)) for name in Sizes._fields if name != "loads"}, loads=loads)
        line = np.zeros(LENGTH, np.int64)
        blocks = times * ceil(job.rows / 8) * ceil(job.columns / (16 if job.v else 32))
        reads, writes = (np.zeros((most, 2), np.int64) for most in (times * len(events), blocks))
        for _ in range(times):
            run(given, seen, listed, line, reads, writes)
        ends.append(end(line, reads, writes))
    busy = {part: int(line[BUSY + at]) for at, part in enumerate(PARTS) if at and line[BUSY + at]}
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
    macs = times * job.rows * job.inner * job.columns
    return Operation(name, *ends, busy, {k: times * v for k, v in bits.items()}, macs)


def converted(name: str, rows: int, length: int) -> Operation:
    """Blocks of 8 by 32, one after the other: comparators, then the aligner."""
    clocks = ceil(rows / 8) * length + 32
    return Operation(name, clocks, None, {"comparators": clocks, "aligner": clocks}, {})


def attended(requests: int, tokens: Sequence[int], length: int) -> list[Operation]:
    """Scores and context. tokens: those that each new token may see, of one request, ascending."""
    seen = [number for number in tokens for _ in range(SHARE)]
    rows, times = len(seen), requests * KV_HEADS

    def first(j: int, top: int, bottom: int) -> list[int]:
        """The first row from `top` on that sees a token, if any."""
        row = bisect_right(seen, j, top, bottom)
        return [row] if row < bottom else []

    def queries(top: int, bottom: int) -> Bits:
        return 9 * (bottom - top) * DIM, 5 * (bottom - top) * DIM // 32

    def keys(left: int, right: int, top: int, bottom: int) -> Bits:
        codes = count = 0
        for j in range(left, right):
            sees = first(j, top, bottom)
            codes += sum(DIM * (5 if 32 <= j <= seen[row] - 65 else 9) for row in sees)
            count += len(sees)
        return codes, 5 * count * DIM // 32

    def probabilities(top: int, bottom: int) -> Bits:
        wide = min(length, 32 * ceil(seen[bottom - 1] / 32))
        return 9 * (bottom - top) * wide, 5 * (bottom - top) * ceil(wide / 32)

    def values(left: int, right: int, top: int, bottom: int) -> Bits:
        codes = count = 0
        for g in range(ceil(length / 32)):
            sees = first(32 * g, top, bottom)
            codes += sum(min(32, length - 32 * g) * (5 if g >= 1 and 32 * g + 96 <= seen[row] else 9) for row in sees)
            count += len(sees)
        return (right - left) * codes, 5 * (right - left) * count

    score = Job(rows, DIM, length, queries, keys, length, 9, False, score=True, seen=seen)
    mixed = Job(rows, length, DIM, probabilities, values, 0, 9, False, seen=seen)
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
