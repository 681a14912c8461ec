"""A block of LLaMA-7B on KLLM's chip, by hand: bytes, busy cycles, edges and totals [kllm §IV, §V-A, Table I].

lane(...)           edges of a product, lane 0 stepped edge by edge while its Weight Buffer fills
block(...)          operations of a block with their numbers, in a decode step or a prompt of a batch
schedule(...)       cycles of the block if nothing, tiles or operations overlap
"""

from fractions import Fraction
from functools import cache
from math import ceil
from typing import NamedTuple

import numba
import numpy as np

LANES, MACS, TURN, SLAB = 16, 32, 512, 4096
PORT = Fraction(24 * 64 * 10**9, 500 * 10**6)  #: bytes a cycle: 3,072
BUFFER = 2048  #: bytes of a Weight Buffer
INDEX, OUT_BUFFER = 32 * 1024 * 8, 136 * 1024 * 8  #: bits
BITS = 4


class Operation(NamedTuple):
    """An operation: engine that it holds, edges alone and fed, busy cycles, bits by stream, what it waits for."""

    name: str
    holds: tuple[str, ...]
    alone: int | None
    fed: int | None
    busy: dict[str, int]
    bits: dict[str, int]
    after: tuple[str, ...]
    macs: int = 0
    #: it starts some cycles after the start of these, and ends some after their end
    follows: dict[str, tuple[int, int]] = {}  # nobody changes it


class Part(NamedTuple):
    """Rows of a batch that pass all columns together."""

    rows: int
    columns: int
    k: int
    outliers: int


def parts(rows: list[tuple[int, int, int]], a_bits: int) -> list[Part]:
    """Rows that buffers and MACs hold at once. rows: positions, columns and outliers of each.

    16 rows of 4,096 indices fill the Act Index Buffer; an output has 17 bits of the Out Buffer.
    """
    longest, widest = max(row[0] for row in rows), max(row[1] for row in rows)
    some = min(len(rows), MACS, INDEX // (longest * a_bits), OUT_BUFFER // (widest * 17))
    groups = [rows[first : first + some] for first in range(0, len(rows), some)]
    return [Part(len(each), *(max(row[at] for row in each) for at in (1, 0, 2))) for each in groups]


def lane(
    columns: int, k: int, entries: int, outliers: int, heads: int = 1, port: Fraction | None = PORT, rows: int = 1
) -> list[int]:
    """Edges until the last output, edges that count, edges of the MACs.

    columns: of a head. Every column is counted 512 positions an edge; 32 are reduced while the next are counted.
    rows: of a batch, which all pass a slab before the next one comes; a MAC has a column of a row.
    """
    return stepped((Part(rows, columns, k, outliers),), entries, heads, port)


@cache
def stepped(batch: tuple[Part, ...], entries: int, heads: int = 1, port: Fraction | None = PORT) -> list[int]:
    """As `lane`, of parts of a batch in sequence, which read all columns again."""
    tiles: list[tuple[int, int, int, int]] = []  # columns of lane 0, rows, positions, edges of the MACs
    for part in batch:
        wide = max(1, MACS // part.rows)
        full, rest = heads * (part.columns // wide), part.columns % wide  # blocks of columns, of which a lane gets one
        blocks = full + heads * (rest > 0)
        for at in range(0, blocks, LANES):
            tiles.append((wide if at < full else rest, part.rows, part.k, entries + part.outliers + 2))
    share = Fraction(0) if port is None else port / LANES
    scale = 2 * share.denominator  # arrivals as integers: half a byte is an index
    return [int(count) for count in _edges(np.array(tiles, np.int64), share.numerator * 2, scale)]


@numba.njit(cache=True)
def _edges(tiles: np.ndarray, arrives: int, scale: int) -> tuple[int, int, int]:
    """Edge by edge. arrives: in units of 1 / scale of a byte; 0: weights are there."""
    tile, column, slab, row = 0, 0, 0, 0  # what comes next: a slab of a column for a row
    level, edge, counting, held = 0, 0, 0, False
    bank, swapped, merging, reducing, done = 0, 0, False, 0, 0
    counted, reduced, ready = 0, 0, True
    while done < len(tiles) or reducing:
        edge += 1
        level += arrives
        # the MACs, and the swap of the banks at the edge at which they are free
        if reducing:
            reducing -= 1
            reduced += 1
            done += int(not reducing)
        goal = 0  # histograms of a tile that the bank adds up
        if swapped < len(tiles):
            n, rows, k, _ = tiles[swapped]
            goal = n * rows * (-(-k // SLAB) if rows > 1 else 1)
        if swapped < len(tiles) and bank == goal and reducing == 0 and swapped == done:
            reducing, bank, swapped, merges = tiles[swapped][3], 0, swapped + 1, merging
        else:
            merges = merging and bank != goal
        if merges:
            bank, merging = bank + 1, False
        if counting and not merging:
            counting -= 1
            counted += 1
            if not counting and held:
                merging = True
        if ready and not counting and tile < len(tiles):
            n, rows, k, _ = tiles[tile]
            length, slabs = min(SLAB, k - slab * SLAB), -(-k // SLAB)
            need = 0 if row else length * BITS * scale // 8  # the rows of a batch pass a slab that is there
            if not arrives or level >= need:
                level -= need
                held = slab == slabs - 1 or rows > 1
                counting = max(1, -(-length // TURN))
                row += 1
                if row == rows:
                    row, slab = 0, slab + 1
                if slab == slabs:
                    slab, column = 0, column + 1
                if column == n:
                    column, tile = 0, tile + 1
        level = min(level, BUFFER * scale)
        # a slab may come into the last edge of counting only if no full bank may stop it (D-kllm-45)
        stops = False
        if merging and swapped < len(tiles):
            n, rows, k, _ = tiles[swapped]
            stops = bank == n * rows * (-(-k // SLAB) if rows > 1 else 1)
        ready = counting == 0 or (counting == 1 and not stops)
    return edge, counted, reduced


WIDTH, FFN, HEADS, DIM = 4096, 11008, 32, 128  #: LLaMA-7B, and LLaMA-2-7B
#: outliers of both sides at 1 %: 21 and 56 of each
OUT = {WIDTH: 42, FFN: 112}
#: by hand: a tree of 4,096 settles in 12 cycles, and each of 21 pops takes 13; 11,008 take passes of 4,096, 4,096 and
#: 2,816 values with 56 pops, and one of 171 candidates, of 8 levels
SEARCH = {WIDTH: 12 + 21 * 13, FFN: 3 * (12 + 56 * 13) + 8 + 56 * 9}
#: 4,054 inliers by 16, and 10,896
CLUSTER = {WIDTH: 254, FFN: 681}


class Run(NamedTuple):
    """What a block computes."""

    rows: int  #: new tokens of all requests
    seen: tuple[int, ...]  #: keys that each new token of a request sees
    requests: int


def decode(tokens: int, requests: int) -> Run:
    """A token after some, of each request."""
    return Run(requests, (tokens + 1,), requests)


def prompt(tokens: int, requests: int) -> Run:
    """All tokens of the requests; each sees itself and those before it."""
    return Run(tokens * requests, tuple(range(1, tokens + 1)), requests)


def block(run: Run) -> list[Operation]:
    """Every operation with cycles of a block of LLaMA-7B, in order, at W4A4 with 1 % outliers."""
    found = quantized(run, "attn_in", WIDTH, ())
    found += [normed(run, "attn_in"), *(linear(run, name, "attn_in", WIDTH, WIDTH) for name in "qkv")]
    for name, stream in (("q", ""), ("k", "keys"), ("v", "values")):
        found += quantized(run, name, WIDTH, (name,), stream)
    attended = attention(run)
    found += [*attended, *quantized(run, "o_in", WIDTH, (attended[-1].name,))]
    found += [linear(run, "o", "o_in", WIDTH, WIDTH), *quantized(run, "ffn_in", WIDTH, ("o",)), normed(run, "ffn_in")]
    for name in ("gate", "up"):
        found += [linear(run, name, "ffn_in", FFN, WIDTH)]
    found += [*quantized(run, "gate", FFN, ("gate",)), *quantized(run, "up", FFN, ("up",))]
    found += quantized(run, "down_in", FFN, ("index.gate", "index.up"))
    return [*found, linear(run, "down", "down_in", WIDTH, FFN)]


def quantized(run: Run, name: str, size: int, after: tuple[str, ...], stream: str = "") -> list[Operation]:
    """A search, then clusters of sixteen, token by token. Stored: indices, mask bits, a scale, outliers in fp16."""
    search, cluster = run.rows * SEARCH[size], run.rows * CLUSTER[size]
    bits = {stream: run.rows * size * BITS, "metadata": run.rows * (size + 16 + OUT[size] * 16)} if stream else {}
    first = Operation(f"search.{name}", ("search",), search, search, {"search": search}, {}, after)
    busy, token = {"clustering": cluster}, {first.name: (SEARCH[size], CLUSTER[size])}
    return [first, Operation(f"index.{name}", ("clustering",), cluster, cluster, busy, bits, (), 0, token)]


def normed(run: Run, name: str) -> Operation:
    """Eight edges of counting, then sixteen squares of centroids and those of the outliers, for each token."""
    counts, macs = WIDTH // TURN, 16 + OUT[WIDTH]
    busy = {"counters": run.rows * counts, "MACs": run.rows * macs}
    token = {f"index.{name}": (CLUSTER[WIDTH], counts + macs)}
    return Operation(f"norm.{name}", ("counters", "MACs"), run.rows * (counts + macs), None, busy, {}, (), 0, token)


def linear(run: Run, name: str, reads: str, outputs: int, k: int) -> Operation:
    """Indices of weights; a scale of each output, 16 centroids and 256 products in fp16, for each part of the batch.

    A batch beyond the buffers reads its inputs, and writes its outputs.
    """
    batch = parts([(k, outputs, OUT[k])] * run.rows, BITS)
    fed, alone = stepped(tuple(batch), 256), stepped(tuple(batch), 256, port=None)[0]
    bits = {"weights": len(batch) * outputs * k * BITS, "metadata": len(batch) * (outputs + 16 + 256) * 16}
    if len(batch) > 1:
        bits |= {"activations": run.rows * (k * (BITS + 1) + OUT[k] * 16), "outputs": run.rows * outputs * 16}
    busy = {"counters": fed[1], "MACs": fed[2]}
    last = stepped((batch[-1],), 256)[0]
    first = {f"index.{reads}": (batch[0].rows * CLUSTER[k], last)}
    follows = {f"norm.{reads}": (0, 0), **first} if reads in ("attn_in", "ffn_in") else first
    return Operation(name, ("lanes",), alone, fed[0], busy, bits, (), run.rows * outputs * k, follows)


def attention(run: Run) -> list[Operation]:
    """Heads at once, on lanes of their own: in a decode step four, as 128 values of a head take four lanes of sixteen.

    A head has 42 of 4,096 outliers, so at most two of 128 on either side; 2,049 values of a column have 22. Scores are
    integers of `BITS` bits.
    """
    keys = run.seen[-1]
    out = ceil(Fraction(42, 4096) * DIM * keys)
    both = {
        "logits": ("keys", [(DIM, seen, 4) for seen in run.seen], 256),
        "context": ("values", [(seen, DIM, ceil(Fraction(42, 4096) * seen)) for seen in run.seen], 16),
    }
    columns = max(1, MACS // max(part.rows for part in parts(both["logits"][1], BITS)))
    together = max(1, LANES // min(ceil(keys / columns), ceil(DIM / columns)))
    found = []
    for first in range(0, HEADS * run.requests, together):
        heads = min(together, HEADS * run.requests - first)
        macs = heads * sum(run.seen) * DIM
        products = []
        for name, (stream, rows, entries) in both.items():
            batch = tuple(parts(rows, BITS))
            fed, alone = stepped(batch, entries, heads), stepped(batch, entries, heads, port=None)[0]
            read = heads * sum(part.columns * part.k for part in batch)
            bits = {stream: read * BITS, "metadata": heads * len(batch) * (keys * (DIM + 16) + out * 16)}
            after = ("index.q", "index.k") if name == "logits" else (f"softmax.{first}", "index.v")
            busy = {"counters": fed[1], "MACs": fed[2]}
            products += [Operation(f"{name}.{first}", ("lanes",), alone, fed[0], busy, bits, after, macs)]
        eighths = heads * sum(3 * ceil(seen / 8) for seen in run.seen)
        after = (f"logits.{first}",)
        softmax = Operation(f"softmax.{first}", ("functional",), eighths, None, {"functional": eighths}, {}, after)
        found += [products[0], softmax, products[1]]
    return found


def moved(operation: Operation) -> dict[str, int]:
    """Bytes by stream."""
    return {stream: ceil(bits / 8) for stream, bits in operation.bits.items()}


def transfer(operation: Operation) -> int:
    """Cycles of the port."""
    return ceil(sum(moved(operation).values()) / PORT)


def length(operation: Operation, overlap: str) -> int:
    """Cycles of an operation by itself."""
    assert operation.alone is not None
    if overlap == "none":
        return transfer(operation) + operation.alone
    return max(transfer(operation), operation.alone if operation.fed is None else operation.fed)


def schedule(operations: list[Operation], overlap: str) -> int:
    """Cycles of a block: in sequence, or by looking at every time at which something may start."""
    if overlap != "operations":
        return sum(length(each, overlap) for each in operations)
    starts: dict[str, int] = {}
    ends: dict[str, int] = {}
    free: dict[str, int] = {}
    waiting, clock, port = list(operations), 0, 0
    while waiting:
        later = set()
        for each in list(waiting):
            named = (*each.after, *each.follows)
            if not all(name in ends for name in named):
                continue
            begun = [starts[name] + lead for name, (lead, _) in each.follows.items()]
            at = max([0, *(ends[name] for name in each.after), *begun, *(free.get(name, 0) for name in each.holds)])
            if at > clock:
                later.add(at)
                continue
            begins = max(clock, port)
            tails = [ends[name] + tail for name, (_, tail) in each.follows.items()]
            starts[each.name] = clock
            ends[each.name] = max(clock + length(each, overlap), begins + transfer(each), *tails, 0)
            port = begins + transfer(each) if transfer(each) else port
            free |= dict.fromkeys(each.holds, ends[each.name])
            waiting.remove(each)
            later.add(clock)
        clock = min(later, default=clock)
    return max(ends.values())
