"""Ports, registers and counters of paged_attention: the attention of a KV head of [leankv §6.2]."""

import numpy as np

from refemu.arith import fp16
from refemu.units.leankv.paged_attention.arithmetic import Arithmetic, Pages
from refemu.units.ports import Lanes, Port, Ports

SEGMENTS = ("key_words", "key_meta_words", "val_words", "val_meta_words", "score_words", "pos_words")
SECTORS = tuple(name.replace("words", "sectors") for name in SEGMENTS)
REGISTERS = {
    "logits": "scaled products of queries and keys so far, by query head and token: float32 patterns",
    "tops": "maxima that the softmax subtracts, by partition and query head: float32 patterns",
    "totals": "sums of exponentials, by partition and query head: float32 patterns",
    "chances": (
        "probabilities within each partition, before partitions are joined, by query head and token: float32 patterns"
    ),
    "acc": "accumulators of the partition under way, by query head, accumulator and feature: float32 patterns",
    "sums": ("joined accumulators, not rounded to fp16, by partition, query head and feature: float32 patterns"),
    "chunk": "number of the partition under way",
    "page": "pages of the partition that this phase, keys or values, has done",
}  #: registers; those of the float32 stages may be ports
#: Counters of a State, in a Result
COUNTERS = {
    "pages": "pages read, counted once, though keys and values are read in two events",
    "key_words": "16-bit words of key codes read",
    "key_meta_words": "16-bit words of the scales and zero points of keys read",
    "val_words": "16-bit words of value codes read",
    "val_meta_words": "16-bit words of the scales and zero points of values read",
    "score_words": "16-bit words of scores read, to add to them",
    "pos_words": "16-bit words of positions read, if the score of the newest token is unchanged",
    "key_sectors": "32-byte sectors touched by the loads of key codes (D-leankv-58)",
    "key_meta_sectors": "32-byte sectors touched by the loads of the scales and zero points of keys",
    "val_sectors": "32-byte sectors touched by the loads of value codes",
    "val_meta_sectors": "32-byte sectors touched by the loads of the scales and zero points of values",
    "score_sectors": "32-byte sectors touched by the loads of scores",
    "pos_sectors": "32-byte sectors touched by the loads of positions",
    "macs": "multiply-adds, two for each token, query head and feature",
    "exps": "exponentials of the softmax, and to join partitions",
    "divisions": "divisions of the softmax, and to join partitions",
}


def values(register: Lanes, *shape: int) -> np.ndarray:
    """float32 values (shape) of the patterns of a register."""
    return np.array(register, np.uint32).view(np.float32).reshape(shape)


def patterns(array: np.ndarray) -> Lanes:
    """Patterns of float32 values for a register; a NaN is the positive quiet one."""
    return tuple(fp16.canonical(array).view(np.uint32).ravel().tolist())


def stages_of(layouts: Pages, arithmetic: Arithmetic, heads: int, cells: int) -> tuple[Port, ...]:
    """Registers of the float32 stages: after an operation they hold the last chunk or all chunks."""
    tokens, chunks = most_tokens(layouts, cells), layouts.most_chunks(arithmetic, cells)
    features, slots = layouts.high.head_size, layouts.accumulators(arithmetic)
    return (
        Port("logits", 32, heads * tokens, encoding="f32", meaning="products of query and key, scaled, as p"),
        Port("tops", 32, chunks * heads, encoding="f32", meaning="subtracted maxima, chunk by chunk"),
        Port("totals", 32, chunks * heads, encoding="f32", meaning="sums of exponentials, chunk by chunk"),
        Port("chances", 32, heads * tokens, encoding="f32", meaning="probabilities within each chunk, as p"),
        Port("acc", 32, heads * slots * features, encoding="f32", meaning="accumulators of the last chunk by head"),
        Port("sums", 32, chunks * heads * features, encoding="f32", meaning="sums of accumulators, chunk by chunk"),
    )


def most_tokens(layouts: Pages, cells: int) -> int:
    """Lanes of a port with a value for each token."""
    high, low = layouts.sections
    return cells * max(high.tokens, low.tokens)


def ports_of(layouts: Pages, heads: int, cells: int, stages: tuple[Port, ...] = ()) -> Ports:
    """Ports for pages of these layouts, `heads` query heads and a table entry of `cells` cells."""
    high, low = layouts.sections
    most = [cells * high.tokens, cells * low.tokens if layouts.low else 0]
    tokens = most_tokens(layouts, cells)
    return Ports(
        inputs=(
            Port("q", 16, heads * high.head_size, encoding="f16", meaning="queries, head by head"),
            Port("images", 16, cells * high.size // 2, meaning="pages, word by word"),
            Port("entry", 32, cells, most=cells - 1, meaning="table entry: high pages from left, low from right"),
            Port("n_high", 32, least=1, most=most[0], meaning="tokens in high pages"),
            Port("n_low", 32, most=most[1], meaning="tokens in low pages"),
            Port("newest", 32, most=(1 << 31) - 1, meaning="position of the newest token"),
        ),
        outputs=(
            Port("out", 16, heads * high.head_size, encoding="f16", meaning="attention, head by head"),
            Port("p", 32, heads * tokens, encoding="f32", meaning="probabilities, head by head: high, low slots"),
            Port("score", 32, tokens, encoding="f32", meaning="scores after the step: high slots, low slots"),
        ),
        state=stages,
    )
