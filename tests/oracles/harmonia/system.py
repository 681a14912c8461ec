"""A decode step of one block of Llama-3.2-3B on Harmonia's accelerator, by hand: bytes, busy cycles, cycles, totals.

Paper: [harmonia §III-B, §IV-A, §V-A]. A row of the array is a token, or a query head of a KV head. Every operation is
stepped clock by clock, with its operands at hand: one part after the other takes a column.

block(low)          operations in order, with keys and values of `low` bits between the first 32 and the latest 64
"""

from math import ceil
from typing import NamedTuple

WIDTH, FFN, HEADS, KV_HEADS, DIM, BLOCKS, KEYS = 3072, 8192, 24, 8, 128, 28, 4097  #: the token after 4,096
PORT = 256e9 / 300e6  #: bytes a clock
PJ = 3.9  #: of a bit of the memory


class Operation(NamedTuple):
    """An operation: clocks with operands at hand, busy clocks, bits by stream, dense MACs."""

    name: str
    cycles: int
    busy: dict[str, int]
    bits: dict[str, int]
    macs: int = 0


def block(low: int) -> list[Operation]:
    """Operations with clocks of a block, in order."""
    kv = KV_HEADS * DIM
    offsets = {} if low == 8 else {"offsets": kv // 8}
    return [
        converted("attn_in.input", WIDTH),
        weighted("q", WIDTH, WIDTH, vector=DIM, exponents=True),
        weighted("k", WIDTH, kv, vector=DIM, exponents=True, offsets=offsets),
        weighted("v", WIDTH, kv),
        scores(low),
        context(low),
        weighted("o", WIDTH, WIDTH),
        converted("ffn_in.input", WIDTH),
        weighted("gate", WIDTH, FFN, vector=32),
        weighted("up", WIDTH, FFN),
        converted("down_in.input", FFN),
        weighted("down", FFN, WIDTH),
    ]


def converted(name: str, length: int) -> Operation:
    """Groups of 32 columns through comparators, then the aligner, a column a clock."""
    return Operation(name, length + 32, {"comparators": length + 32, "aligner": length + 32}, {})


def weighted(
    name: str,
    inputs: int,
    outputs: int,
    vector: int = 0,
    exponents: bool = False,
    offsets: dict[str, int] | None = None,
) -> Operation:
    """A row by INT4 weights with a factor of 128. vector: columns that the vector unit takes at once.

    exponents: whether the result is converted; others stay FP16.
    """
    groups, tiles = inputs // 32, outputs // 16
    busy = {"array": tiles * groups, "FP2Half": outputs}
    if vector:
        busy["vector unit"] = outputs // 8
    busy |= dict(offsets or {})
    if exponents:
        busy |= {"comparators": outputs, "aligner": outputs}
    again = ceil(outputs / 64)  # a tile of weights stays, the row comes for each of them
    row = min(again * inputs + inputs * outputs, inputs + inputs * outputs)
    assert row == inputs + inputs * outputs  # so the row stays, and weights pass
    bits = {"weights": 4 * inputs * outputs, "activations": 9 * inputs}
    bits["outputs"] = (9 if exponents else 16) * outputs
    bits["metadata"] = 5 * groups + 16 * outputs * inputs // 128 + (5 * outputs // 32 if exponents else 0)
    return Operation(name, stepped(groups, outputs, vector, exponents, bool(offsets)), busy, bits, inputs * outputs)


def stepped(groups: int, outputs: int, vector: int, exponents: bool, offsets: bool) -> int:
    """Clocks of a row: columns leave the array 16 at a time, every tile `groups` clocks after the one before."""
    ready = [tile * groups + groups + c for tile in range(outputs // 16) for c in range(16)]  # clock after each column
    half, clock = [], 0
    for left in range(0, outputs, 32):  # blocks of 32 columns pass FP2Half, a column a clock
        clock = max(clock, ready[left])
        clock = max(clock + 32, ready[left + 31] + 1)
        half.append(clock)
    done = [half[column // 32] for column in range(outputs)]
    if vector:
        clock = 0
        for left in range(0, outputs, vector):
            clock = max(clock, done[left + vector - 1]) + vector // 8
            done[left : left + vector] = [clock] * vector
    first = [0] * outputs
    if offsets:
        start = max(done)
        done = [start + outputs // 8] * outputs
        first = [start + 1] * outputs
    if exponents:
        return converting(done, [first[c] if offsets else done[c] for c in range(outputs)], vector // 8)
    left = 0
    for at in range(0, outputs, 32):
        left = max(left, done[at + 31]) + 32
    return max(left, *done)


def converting(done: list[int], first: list[int], vector: int) -> int:
    """Two banks of 32 columns; a bank fills from the first column on, and is full a clock after the last."""
    state = [0, 0, 0, 0]
    for left in range(0, len(done), 32):
        source = first[left] if first[left] != done[left] else done[left] - vector + 1
        converts(state, source, done[min(left + 31, len(done) - 1)], min(32, len(done) - left))
    return state[3]


def converts(state: list[int], source: int, done: int, columns: int) -> None:
    """A block. state: clocks at which both banks, the comparators and the aligner are free."""
    start = max(state[2], source, state[0])
    state[2] = max(start + columns, done + 1)
    state[3] = max(state[3], state[2]) + columns
    state[0], state[1] = state[1], state[3]


def wide() -> int:
    """Keys of 8 bits: the first 32, and the latest 64."""
    return 32 + 64


def scores(low: int) -> Operation:
    """Three rows of a KV head by 4,097 keys; softmax once the whole row is there; 8 heads, one after the other."""
    group, tiles = HEADS // KV_HEADS, ceil(KEYS / 16)
    slots = [4 if low == 4 and 16 * tile >= 32 and 16 * tile + 16 <= KEYS - 64 else 8 for tile in range(tiles)]
    own = (1 + 8) * wide() + (1 + low) * (KEYS - wide())
    blocks = ceil(KEYS / 32)
    busy = {"array": KV_HEADS * sum(max(16, each) for each in slots), "FP2Half": KV_HEADS * KEYS}
    busy |= {"vector unit": KV_HEADS * ceil(group * KEYS / 8), "comparators": KV_HEADS * KEYS}
    busy["aligner"] = KV_HEADS * KEYS
    bits = {
        "keys": KV_HEADS * DIM * own,
        "activations": KV_HEADS * group * DIM * 9,
        "outputs": KV_HEADS * group * KEYS * 9,
        "metadata": 5 * KV_HEADS * (group * DIM // 32 + KEYS * DIM // 32 + group * blocks),
    }
    return Operation("scores", softmaxes(slots, ceil(group * KEYS / 8)), busy, bits, HEADS * DIM * KEYS)


def softmaxes(slots: list[int], vector: int) -> int:
    """Clocks of the scores of all KV heads. slots: of the tiles of one; vector: clocks of a softmax."""
    array = half = soft = last = 0
    state = [0, 0, 0, 0]
    for _ in range(KV_HEADS):
        for at in range(0, len(slots), 2):
            ready = []
            for tile, each in enumerate(slots[at : at + 2], at):
                ready += [array + each + c for c in range(min(16, KEYS - 16 * tile))]
                last = array + each + 15  # the tile passes through all columns of the array
                array += max(16, each)
            half = max(half, ready[0])
            half = max(half + len(ready), last + 1)
        start = max(soft, half)
        soft = start + vector
        for left in range(0, KEYS, 32):
            converts(state, start + 1, soft, min(32, KEYS - left))
    return state[3]


def context(low: int) -> Operation:
    """Three rows of scores by 128 channels; 129 groups of tokens, of which the first and the latest have 8 bits."""
    groups = ceil(KEYS / 32)
    tokens = [min(32, KEYS - 32 * g) for g in range(groups)]
    eight = [low == 8 or g == 0 or 32 * g + 32 + 64 > KEYS for g in range(groups)]
    slots = sum(2 if each else 1 for each in eight)
    own = sum(count * (9 if each else 5) for count, each in zip(tokens, eight, strict=True))
    columns = KV_HEADS * DIM
    busy = {"array": columns // 16 * slots, "FP2Half": columns, "comparators": columns, "aligner": columns}
    bits = {
        "values": columns * own,
        "activations": HEADS * KEYS * 9,
        "outputs": HEADS * DIM * 9,
        "metadata": 5 * (HEADS * groups + columns * groups + HEADS * DIM // 32),
    }
    last = columns // 16 * slots + 15  # then a clock for FP2Half, one for the comparators, 32 for the aligner
    return Operation("context", last + 1 + 1 + 32, busy, bits, HEADS * DIM * KEYS)


def moved(operation: Operation) -> dict[str, int]:
    """Bytes by stream."""
    return {stream: ceil(bits / 8) for stream, bits in operation.bits.items() if bits}
