"""Requests of page_manager, checks, the pages of a call, and the memory they take. [leankv §5.2, §5.3, §7.2]"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, RefusedType, require_int
from refemu.arith.records import require_options
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.leankv.free_page_list import OutOfPages
from refemu.units.leankv.free_page_list.free_page_list import whole
from refemu.units.leankv.page_table import TableOverflow

NAME = "page_manager"

Number = TypeVar("Number", int, np.ndarray)


def up(tokens: Number, per_page: int) -> Number:
    """Pages of a number of tokens, rounded up. [leankv §5.2]"""
    return -(-tokens // per_page)


@dataclass(frozen=True)
class Shape:
    """Parameters of a manager."""

    pages: Annotated[int, 1, 1 << 24] = 32  #: pages of the pool
    layers: Annotated[int, 1, 1 << 24] = 1  #: layers of the model
    heads: Annotated[int, 1, 1 << 24] = 2  #: KV heads of a layer
    high_tokens: Annotated[int, 1, 1 << 24] = 2  #: TH, tokens of a high page
    low_tokens: int | None = 4  #: TL, tokens of a low page; None for one precision
    max_len: Annotated[int, 1, 1 << 24] = 12  #: most tokens of a prompt, and capacity of an entry
    slots: Annotated[int, 1, 1 << 24] = 2  #: simultaneous requests
    #: extra pages for the prompt of every head, 0 or 1, with two precisions (D-leankv-35)
    reserve_low: Annotated[int, 0, 1] = 0
    table_extra: Annotated[int, 0, 1 << 10] = 1  #: cells in addition to max_len / table_tokens (D-leankv-36)
    table_tokens: int | None = None  #: tokens for each cell of an entry; None = high_tokens
    lazy_pages: bool = True  #: a page when a token needs it; else one for every full section (D-leankv-34)
    scrub: bool = False  #: whether -1 is written into cells that are no longer used (D-leankv-40)

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Check sizes, and pages against each other.

        Raises Refused: a size or width is out of range. Raises RefusedType: a size has another type.
        """
        require_options(self, NAME)
        for name in ("low_tokens", "table_tokens"):
            if getattr(self, name) is not None:
                require_int(getattr(self, name), 1, 1 << 24, NAME, name)
        if self.low_tokens is not None and self.low_tokens < self.high_tokens:
            raise Refused(
                f"{NAME}: a low page must hold at least as many tokens as a high one, got {self.low_tokens} "
                f"and {self.high_tokens}"
            )

    @property
    def length(self) -> int:
        """Number of cells of an entry, L."""
        return int(up(self.max_len, self.table_tokens or self.high_tokens)) + self.table_extra

    @property
    def reserve(self) -> int:
        """Number of extra pages for the prompt of every head."""
        return self.reserve_low if self.low_tokens is not None else 0

    @property
    def entries(self) -> int:
        """Number of entries of the table."""
        return self.slots * self.layers * self.heads


@dataclass(frozen=True)
class Moved:
    """Pages allocated or recycled by one prefix sum, in the order sequence, layer, head (, high before low)."""

    counts: tuple[int, ...] = ()  #: pages
    prefix: tuple[int, ...] = ()  #: end of each region of the ring, from the base on
    ids: tuple[int, ...] = ()  #: page ids of all regions, one after the other


NOTHING = Moved()  #: no pages


@dataclass
class Request:
    """One sequence that the manager holds."""

    slot: int  #: slot of its entries
    prompt: int  #: tokens
    seen: int  #: tokens so far, pruned ones included
    running: bool  #: whether its prompt is compressed

    def fields(self) -> tuple[int, int, int, bool]:
        """Fields for a State."""
        return self.slot, self.prompt, self.seen, self.running


@dataclass
class Requests:
    """The sequences and their slots, with all checks; for the manager and its compiled form."""

    shape: Shape
    table: dict[int, Request] = field(default_factory=dict)
    free_slots: deque[int] = field(default_factory=deque)

    def __post_init__(self) -> None:
        if not self.table and not self.free_slots:
            self.free_slots.extend(range(self.shape.slots))

    def fork(self) -> "Requests":
        """A copy of the requests."""
        return Requests(
            self.shape, {name: replace(request) for name, request in self.table.items()}, deque(self.free_slots)
        )

    def entries(self, sequences: Sequence[int]) -> np.ndarray:
        """Numbers of the entries of all heads, in the order of every prefix sum: (S, layers, heads) int64."""
        return self.of_slots([self.table[s].slot for s in sequences])

    def of_slots(self, slots: Sequence[int]) -> np.ndarray:
        """Numbers of the entries of all heads of these slots: (S, layers, heads) int64."""
        per = self.shape.layers * self.shape.heads
        numbers = np.array(slots, np.int64)[:, None] * per + np.arange(per)
        return numbers.reshape(len(slots), self.shape.layers, self.shape.heads)

    def admit(self, prompts: Mapping[int, int]) -> None:
        """Put new requests into the first free slots, first in, first out; call `require_prompts` before."""
        for sequence, tokens in prompts.items():
            self.table[sequence] = Request(self.free_slots.popleft(), tokens, tokens, False)

    def remove(self, sequences: Sequence[int]) -> None:
        """Free their slots, in this order."""
        self.free_slots.extend(self.table.pop(s).slot for s in sequences)

    def require_prompts(self, prompts: Mapping[int, int]) -> dict[int, int]:
        """`prompts` with Python ints; raises for a known sequence, a prompt of 0 or too many tokens, or no slot."""
        clean = {}
        for name, length in prompts.items():
            sequence, tokens = whole(name, f"{NAME}: sequence"), whole(length, f"{NAME}: prompt of sequence {name}")
            if not 0 <= sequence < 1 << 31:
                raise Refused(f"{NAME}: sequence must be in [0, {1 << 31}), got {sequence}")
            if sequence in self.table:
                raise Refused(f"{NAME}: sequence {sequence} is admitted already")
            if not 1 <= tokens <= self.shape.max_len:
                raise Refused(
                    f"{NAME}: the prompt of sequence {sequence} must have 1 to {self.shape.max_len} tokens, "
                    f"got {tokens}"
                )
            clean[sequence] = tokens
        if len(clean) > len(self.free_slots):
            raise Refused(f"{NAME}: sequences must be at most {len(self.free_slots)}, the free slots, got {len(clean)}")
        return clean

    def require_known(self, sequences: Sequence[int], running: bool | None = None) -> list[int]:
        """`sequences` with Python ints; raises for unknown ones, one named twice, one in the other phase."""
        clean, before = [s if type(s) is int else whole(s, f"{NAME}: sequence") for s in sequences], set[int]()
        for sequence in clean:
            if sequence not in self.table:
                raise Refused(f"{NAME}: sequence {sequence} is unknown")
            if sequence in before:
                raise Refused(f"{NAME}: sequence {sequence} is named twice")
            if running is not None and self.table[sequence].running != running:
                phase = "is not compressed yet" if running else "is compressed already"
                raise Refused(f"{NAME}: the prompt of sequence {sequence} {phase}")
            before.add(sequence)
        return clean

    def require_heads(self, sequences: Sequence[int], values: ArrayLike, name: str) -> np.ndarray:
        """`values` as int64 (S, layers, heads)."""
        array = np.asarray(values)
        shape = (len(sequences), self.shape.layers, self.shape.heads)
        if (array.dtype.kind not in "iu" and array.size) or array.shape != shape:
            raise RefusedType(
                f"{NAME}: {name} must be integers of shape {shape}, got {array.dtype} of shape {array.shape}"
            )
        return array.astype(np.int64)

    def require_kept(self, sequences: Sequence[int], high: np.ndarray, low: np.ndarray) -> None:
        """Reject more tokens than a prompt has, negative numbers, and low tokens without a low precision."""
        prompt = np.array([self.table[s].prompt for s in sequences], np.int64).reshape(-1, 1, 1)
        self._require_low(sequences, low)
        self._refuse(
            sequences,
            (high < 0) | (low < 0) | (high + low > prompt),
            lambda s, i: f"keeps {high[i]} and {low[i]} of {self.table[s].prompt} tokens",
        )

    def require_deltas(self, sequences: Sequence[int], high: np.ndarray, low: np.ndarray) -> None:
        """Reject anything but a step of one token."""
        self._require_low(sequences, low)
        self._refuse(
            sequences,
            (high < 0) | (low < 0) | (high + low > 1),
            lambda s, i: f"must grow by at most one token in a step, got {high[i]} and {low[i]}",
        )

    def _require_low(self, sequences: Sequence[int], low: np.ndarray) -> None:
        if self.shape.low_tokens is None:
            self._refuse(sequences, low != 0, lambda s, i: f"has {low[i]} low tokens without a low precision")

    def _refuse(self, sequences: Sequence[int], bad: np.ndarray, message: Any) -> None:
        if bad.any():
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            sequence = sequences[index[0]]
            raise Refused(
                f"{NAME}: head {index[2]} of layer {index[1]} of sequence {sequence} {message(sequence, index)}"
            )

    def require_cells(self, used: np.ndarray, more: np.ndarray) -> None:
        """Raise TableOverflow if an entry with `used` pages (S, layers, heads) cannot take `more`."""
        bad = used + more > self.shape.length
        if bad.any():
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            raise TableOverflow(
                f"{NAME}: head {index[2]} of layer {index[1]} needs {int((used + more)[index])} cells "
                f"of {self.shape.length}"
            )


def require_pages(needed: int, free: int) -> None:
    """Raise OutOfPages unless `needed` pages are free."""
    if needed > free:
        raise OutOfPages(f"{NAME}: pages must be at most {free}, the free ones, got {needed}")


@dataclass(frozen=True)
class Memory:
    """Memory of a manager's tokens; ratios are a numerator and the bytes or bits of fp16 for all tokens.

    The percentages of [leankv §7.2] agree with `payload_ratio` only (D-leankv-55).
    """

    seen_tokens: int  #: tokens of all heads, pruned ones included
    high_tokens: int  #: stored tokens of the high precision
    low_tokens: int  #: stored tokens of the low precision
    pages: int  #: held
    payload_bits: int  #: bits of the codes
    token_bytes: int  #: bytes of the stored tokens with metadata, scores and positions
    page_bytes: int  #: bytes of the allocated pages
    fp16_bytes: int  #: bytes of all tokens in fp16
    table_bytes: int  #: bytes of the table's cells
    length_bytes: int  #: bytes of the tokens per entry
    count_bytes: int  #: bytes of the pages per entry

    @property
    def payload_ratio(self) -> tuple[int, int]:
        """Ratio of codes only, both in bits."""
        return self.payload_bits, 8 * self.fp16_bytes

    @property
    def token_ratio(self) -> tuple[int, int]:
        """Ratio of stored tokens."""
        return self.token_bytes, self.fp16_bytes

    @property
    def page_ratio(self) -> tuple[int, int]:
        """Ratio of whole pages."""
        return self.page_bytes, self.fp16_bytes


def memory(
    shape: Shape, seen: int, tokens: tuple[int, int], pages: int, high: UnifiedPage, low: UnifiedPage | None
) -> Memory:
    """Sum the memory of stored tokens, high and low. [leankv §7.2]"""
    second = low or high
    features = high.head_size
    payload = tokens[0] * high.config.payload_bytes(features) + tokens[1] * second.config.payload_bytes(features)
    raw = tokens[0] * high.config.token_bytes(features) + tokens[1] * second.config.token_bytes(features)
    held, cells = pages * high.size, 4 * shape.entries * shape.length
    counts = 8 * shape.entries, 8 * shape.entries
    return Memory(seen, *tokens, pages, 8 * payload, raw, held, seen * 4 * features, cells, *counts)
