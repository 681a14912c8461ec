"""Ports and states of paged_attention: the attention of a KV head of [leankv §6.2]."""

from dataclasses import dataclass

from refemu.units.leankv.paged_attention.arithmetic import Pages
from refemu.units.ports import Lanes, Port, Ports

SEGMENTS = ("key_words", "key_meta_words", "val_words", "val_meta_words", "score_words", "pos_words")
#: Counters of a State, in a Result
COUNTERS = ("pages", *SEGMENTS, "macs", "exps", "divisions")


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset. Arrays as float32 bytes, heads first."""

    event: str  #: "reset" or one of EVENTS
    index: int  #: number of the operation, -1 for the reset
    q: tuple[int, ...]
    images: tuple[int, ...]
    entry: Lanes  #: of the table
    n_high: int
    n_low: int
    newest: int
    out: tuple[int, ...]
    p: tuple[int, ...]
    score: tuple[int, ...]
    chunk: int  #: partition on its way
    page: int  #: pages of it that this phase has done
    logits: bytes  #: of the tokens of this chunk so far
    chances: bytes  #: p of all chunks so far, before chunks are combined
    tops: bytes  #: subtracted maxima, chunk by chunk
    totals: bytes  #: sums of exponentials, chunk by chunk
    acc: bytes  #: accumulators of this chunk
    parts: bytes  #: sums of the chunks done
    pages: int  #: read, keys and values together once
    key_words: int  #: 16-bit words read of every segment
    key_meta_words: int
    val_words: int
    val_meta_words: int
    score_words: int
    pos_words: int
    macs: int  #: 2 F for every token and query head
    exps: int
    divisions: int


def ports_of(layouts: Pages, heads: int, cells: int) -> Ports:
    """Widths for pages of these layouts, `heads` query heads and a table entry of so many cells."""
    high, low = layouts.sections
    most = [cells * high.tokens, cells * low.tokens if layouts.low else 0]
    tokens = cells * max(high.tokens, low.tokens)
    return Ports(
        inputs=(
            Port("q", 16, heads * high.head_size, encoding="f16", meaning="queries, head by head"),
            Port("images", 16, cells * high.size // 2, meaning="pages, word by word"),
            Port("entry", 32, cells, most=cells - 1, meaning="of the table: high pages from left, low from right"),
            Port("n_high", 32, least=1, most=most[0], meaning="tokens in high pages"),
            Port("n_low", 32, most=most[1], meaning="tokens in low pages"),
            Port("newest", 32, most=(1 << 31) - 1, meaning="position of the newest token"),
        ),
        outputs=(
            Port("out", 16, heads * high.head_size, encoding="f16", meaning="attention, head by head"),
            Port("p", 32, heads * tokens, encoding="f32", meaning="probabilities, head by head: high, low slots"),
            Port("score", 32, tokens, encoding="f32", meaning="scores after the step: high slots, low slots"),
        ),
    )
