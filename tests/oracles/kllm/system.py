"""A decode step of one block on KLLM's chip, by hand: bytes, busy cycles, edges and totals [kllm §IV, §V-A, Table I].

lane(...)           edges of a product, lane 0 stepped edge by edge while its Weight Buffer fills
block(...)          operations of a block with their numbers
schedule(...)       cycles of the block if nothing, tiles or operations overlap
"""

from fractions import Fraction
from math import ceil
from typing import NamedTuple

LANES, MACS, TURN, SLAB = 16, 32, 512, 4096
PORT = Fraction(24 * 64 * 10**9, 500 * 10**6)  #: bytes a cycle: 3,072
BUFFER = 2048  #: bytes of a Weight Buffer
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


def lane(
    columns: int, k: int, entries: int, outliers: int, heads: int = 1, port: Fraction | None = PORT, rows: int = 1
) -> list[int]:
    """Edges until the last output, edges that count, edges of the MACs.

    columns: of a head. Every column is counted 512 positions an edge; 32 are reduced while the next are counted.
    rows: of a batch, which all pass a slab before the next one comes; a MAC has a column of a row.
    """
    wide = MACS // rows
    blocks = sorted(min(wide, columns - first) for first in range(0, columns, wide) for _ in range(heads))[::-1]
    mine = [blocks[at] for at in range(0, len(blocks), LANES)]  # columns of lane 0 in every tile
    slabs = [min(SLAB, k - low) for low in range(0, k, SLAB)]
    # of every row in every slab: positions, whether its histogram is then merged, positions that must have arrived
    todo = [
        (length, last or rows > 1, 0 if row else length)
        for n in mine
        for _ in range(n)
        for last, length in _column(slabs)
        for row in range(rows)
    ]
    work = [n * rows * (len(slabs) if rows > 1 else 1) for n in mine]  # merges of every tile
    share = None if port is None else port / LANES
    level, edge, counting, held = Fraction(0), 0, 0, None
    bank, swapped, merging, reducing, done = 0, 0, False, 0, 0
    counted = reduced = 0
    while done < len(work) or reducing:
        edge += 1
        if share is not None:
            level += share
        # the MACs, and the swap of the banks at the edge at which they are free
        if reducing:
            reducing -= 1
            reduced += 1
            done += not reducing
        if bank == work[min(swapped, len(work) - 1)] and swapped < len(work) and reducing == 0 and swapped == done:
            bank, swapped, reducing = -1, swapped + 1, entries + outliers + 2
        merges = merging and bank != (work[swapped] if swapped < len(work) else 0)
        if bank == -1:
            bank = 0
            merges = merging
        if merges:
            bank, merging = bank + 1, False
        if counting and not merging:
            counting -= 1
            counted += 1
            if not counting and held:
                merging = True
        if not counting and todo:
            need = Fraction(todo[0][2] * BITS, 8)
            if share is None or level >= need:
                level -= need if share is not None else 0
                length, held, _ = todo.pop(0)
                counting = max(1, ceil(length / TURN))
        level = min(level, Fraction(BUFFER))
    return [edge, counted, reduced]


def _column(slabs: list[int]) -> list[tuple[bool, int]]:
    return [(number == len(slabs) - 1, length) for number, length in enumerate(slabs)]


WIDTH, FFN, HEADS, DIM, KEYS = 4096, 11008, 32, 128, 2049  #: LLaMA-7B, the token after 2,048
#: outliers of both sides at 1 %: 21 and 56 of each
OUT = {WIDTH: 42, FFN: 112}
#: by hand: a tree of 4,096 settles in 12 cycles, and each of 21 pops takes 13; 11,008 take passes of 4,096, 4,096 and
#: 2,816 values with 56 pops, and one of 171 candidates, of 8 levels
SEARCH = {WIDTH: 12 + 21 * 13, FFN: 3 * (12 + 56 * 13) + 8 + 56 * 9}
#: 4,054 inliers by 16, and 10,896
CLUSTER = {WIDTH: 254, FFN: 681}


def block() -> list[Operation]:
    """Every operation with cycles of a block of LLaMA-7B in a decode step, in order, at W4A4 with 1 % outliers."""
    found = quantized("attn_in", WIDTH, ())
    found += [normed("attn_in"), *(linear(name, "attn_in", WIDTH, WIDTH) for name in "qkv")]
    for name, stream in (("q", ""), ("k", "keys"), ("v", "values")):
        found += quantized(name, WIDTH, (name,), stream)
    for head in range(0, HEADS, 4):
        found += attention(head)
    found += quantized("o_in", WIDTH, tuple(f"context.{head}" for head in range(0, HEADS, 4)))
    found += [linear("o", "o_in", WIDTH, WIDTH), *quantized("ffn_in", WIDTH, ("o",)), normed("ffn_in")]
    for name in ("gate", "up"):
        found += [linear(name, "ffn_in", FFN, WIDTH)]
    found += [*quantized("gate", FFN, ("gate",)), *quantized("up", FFN, ("up",))]
    found += quantized("down_in", FFN, ("index.gate", "index.up"))
    return [*found, linear("down", "down_in", WIDTH, FFN)]


def quantized(name: str, size: int, after: tuple[str, ...], stream: str = "") -> list[Operation]:
    """A search, then clusters of sixteen. Stored: indices, a mask bit each, a scale, outliers in fp16."""
    search, cluster = SEARCH[size], CLUSTER[size]
    bits = {stream: size * BITS, "metadata": size + 16 + OUT[size] * 16} if stream else {}
    first = Operation(f"search.{name}", ("search",), search, search, {"search": search}, {}, after)
    busy = {"clustering": cluster}
    return [first, Operation(f"index.{name}", ("clustering",), cluster, cluster, busy, bits, (first.name,))]


def normed(name: str) -> Operation:
    """Eight edges of counting, then sixteen squares of centroids and those of the outliers."""
    counts, macs = WIDTH // TURN, 16 + OUT[WIDTH]
    busy = {"counters": counts, "MACs": macs}
    return Operation(f"norm.{name}", ("counters", "MACs"), counts + macs, None, busy, {}, (f"index.{name}",))


def linear(name: str, reads: str, outputs: int, k: int) -> Operation:
    """Indices of weights; a scale of each output, 16 centroids and 256 products in fp16."""
    fed = lane(outputs, k, 256, OUT[k])
    bits = {"weights": outputs * k * BITS, "metadata": (outputs + 16 + 256) * 16}
    alone = lane(outputs, k, 256, OUT[k], port=None)[0]
    busy = {"counters": fed[1], "MACs": fed[2]}
    return Operation(name, ("lanes",), alone, fed[0], busy, bits, (f"index.{reads}",), outputs * k)


def attention(first: int) -> list[Operation]:
    """Four heads at once: 128 values a head take four lanes of sixteen.

    A head has 42 of 4,096 outliers, so at most two of 128 on either side; 2,049 values of a column have 22.
    """
    row = KEYS * (DIM + 16)  # a mask bit of every value, and a scale of every key
    found = []
    for name, stream, sizes in (
        ("logits", "keys", (KEYS, DIM, 256, 4)),
        ("context", "values", (DIM, KEYS, 16, ceil(42 / 4096 * KEYS))),
    ):
        fed, alone = lane(*sizes, heads=4), lane(*sizes, heads=4, port=None)[0]
        outliers = ceil(42 / 4096 * DIM * KEYS)
        bits = {stream: 4 * KEYS * DIM * BITS, "metadata": 4 * (row + outliers * 16)}
        after = ("index.q", "index.k") if name == "logits" else (f"softmax.{first}", "index.v")
        busy = {"counters": fed[1], "MACs": fed[2]}
        macs = 4 * KEYS * DIM
        found += [Operation(f"{name}.{first}", ("lanes",), alone, fed[0], busy, bits, after, macs)]
    softmax = 4 * 3 * ceil(KEYS / 8)
    middle = Operation(f"softmax.{first}", ("functional",), softmax, None, {"functional": softmax}, {}, ())
    return [found[0], middle._replace(after=(f"logits.{first}",)), found[1]]


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
    """Cycles of a block: in sequence, or by looking at every cycle for what can start."""
    if overlap != "operations":
        return sum(length(each, overlap) for each in operations)
    ends: dict[str, int] = {}
    free: dict[str, int] = {}
    waiting, clock, port = list(operations), 0, 0
    while waiting:
        for each in list(waiting):
            engines = all(free.get(engine, 0) <= clock for engine in each.holds)
            if engines and all(ends.get(name, clock + 1) <= clock for name in each.after):
                begins = max(clock, port)
                ends[each.name] = max(clock + length(each, overlap), begins + transfer(each))
                port = begins + transfer(each) if transfer(each) else port
                free |= dict.fromkeys(each.holds, ends[each.name])
                waiting.remove(each)
        clock += 1
    return max(ends.values())
