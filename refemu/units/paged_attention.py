"""Attention of one step over the pages of a KV head: high pages, then low pages, dequantized on the way.

Paper: [leankv §6.2]. Decisions: D-leankv-17 (a token's attention to itself), D-leankv-41 (order of the sums),
D-leankv-42 (fused or not), D-leankv-43 (subtracted maximum), D-leankv-44 (exponential), D-leankv-45 (division of the
softmax), D-leankv-46 (partitions).
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, require_int
from refemu.formats import hetero_kv
from refemu.formats.kv_page import UnifiedPage
from refemu.units import attention_phases_parts as phases
from refemu.units import paged_attention_cases, unit
from refemu.units.attention_phases_parts import Page
from refemu.units.paged_attention_parts import (
    DIFFKV,
    EPSILON,
    PAPER,
    PRESETS,
    Arithmetic,
    Attended,
    Pages,
    empty,
    require,
    require_distinct,
)
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit, choices, collect, fields

__all__ = ["DIFFKV", "EPSILON", "PAPER", "PRESETS", "Arithmetic", "Attended", "PagedAttention", "Pages", "add_scores",
           "attend"]

EVENTS = ("key_page", "softmax", "value_page", "tree", "combine", "score")
SEGMENTS = ("key_words", "key_meta_words", "val_words", "val_meta_words", "score_words", "pos_words")
ARRAYS = ("logits", "chances", "tops", "totals", "acc", "parts")  #: registers kept as bytes
COUNTERS = ("pages", *SEGMENTS, "macs", "exps", "divisions")


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset. Arrays as float32 bytes, heads first."""

    event: str  #: "reset" or one of EVENTS
    index: int  #: number of the operation, -1 for the reset
    q: tuple[int, ...]
    images: tuple[int, ...]
    entry: Any  #: of the table
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


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """One row per operation; p and score of high slots, then low slots, zeros behind the last token."""

    out: np.ndarray  #: (..., heads * F) uint16, fp16 patterns
    p: np.ndarray  #: (..., heads * tokens) uint32, float32 patterns
    score: np.ndarray  #: (..., tokens) uint32
    pages: int
    key_words: int
    key_meta_words: int
    val_words: int
    val_meta_words: int
    score_words: int
    pos_words: int
    macs: int
    exps: int
    divisions: int


class PagedAttention(Stepped):
    """The block, one instance for a KV head of a request.

    An operation is `key_page` for every page, `softmax`, `value_page` for every page, `tree`; so for every partition,
    whose results `combine` joins; then `score`.
    """

    name = "paged_attention"

    def __init__(self, head_size: int = 64, heads: int = 2, high: str = "K8V4", low: str | None = "K4V2",
                 page_bytes: int | None = 640, cells: int = 4, preset: str = "paper", **arithmetic: Any) -> None:
        """head_size: F. heads: G. high, low: precisions, low None for one. page_bytes: of a page.

        cells: of the table entry, and pages on the port. preset: of the formats. arithmetic: fields of `Arithmetic`.
        """
        require_int(heads, 1, 1 << 10, self.name, "heads")
        require_int(cells, 1, 1 << 16, self.name, "cells")
        self.arithmetic = Arithmetic(**arithmetic)
        self.layouts = Pages(UnifiedPage(head_size, hetero_kv.find(high), page_bytes),
                             None if low is None else UnifiedPage(head_size, hetero_kv.find(low), page_bytes), preset)
        self.heads, self.cells, self.given = heads, cells, (head_size, high, low, page_bytes)
        self.features = head_size
        self.ports = _ports(self.layouts, heads, cells)
        registers: dict[str, Any] = {port.name: (0,) * port.lanes if port.lanes > 1 else port.limits[0]
                                     for port in self.ports.all}
        registers |= dict.fromkeys(ARRAYS, b"") | dict.fromkeys(COUNTERS, 0)
        self.state = State(event="reset", index=-1, chunk=0, page=0, **registers)

    @property
    def busy(self) -> bool:
        """Whether an operation is on its way."""
        return self.state.event not in ("reset", "score")

    def step(self, *inputs: Any) -> State:
        """With the inputs, in the order of the ports: the first key page. Without: the next event."""
        if bool(inputs) == self.busy:
            raise Refused(f"{self.name}: step takes {'no inputs' if self.busy else 'the inputs of an operation'} now")
        if inputs:
            given = self.accept(*inputs)
            self._require(given)
            names = [port.name for port in self.ports.inputs]
            zeros: dict[str, Any] = {port.name: (0,) * port.lanes for port in self.ports.outputs}
            zeros |= dict.fromkeys(ARRAYS, b"")
            self.state = replace(self.state, index=self.state.index + 1, chunk=0, page=0, **zeros,
                                 **dict(zip(names, given, strict=True)))
        event = "key_page" if inputs else self._next()
        self.state = {"key_page": self._key_page, "softmax": self._softmax, "value_page": self._value_page,
                      "tree": self._tree, "combine": self._combine, "score": self._score}[event]()
        return self.state

    def _next(self) -> str:
        """The event that follows."""
        event, chunks = self.state.event, self._chunks()
        if event in ("key_page", "value_page"):
            again = self.state.page < len(chunks[self.state.chunk])
            return event if again else {"key_page": "softmax", "value_page": "tree"}[event]
        if event == "tree":
            left = self.state.chunk < len(chunks)
            return "key_page" if left else "combine" if len(chunks) > 1 else "score"
        return {"softmax": "value_page", "combine": "score"}[event]

    def _chunks(self) -> list[list[Page]]:
        return phases.chunks(self.layouts, self.arithmetic, self.cells, self.state.n_high, self.state.n_low)

    def _array(self, name: str, *shape: int) -> np.ndarray:
        return np.frombuffer(getattr(self.state, name), np.float32).reshape(*shape)

    def _image(self, page: Page) -> np.ndarray:
        words = self.layouts.high.size // 2
        number = fields(self.state.entry)[page.cell]
        return np.array(self.state.images[number * words : (number + 1) * words], np.uint16)

    def _q(self) -> np.ndarray:
        return fp16.to_f32(fp16.values(np.array(self.state.q, np.uint16))).reshape(self.heads, self.features)

    def _key_page(self) -> State:
        """The logits of the next page."""
        before, page = self.state, self._chunks()[self.state.chunk][self.state.page]
        keys = phases.read(self.layouts, page, self._image(page)).key
        made = phases.logits(self.layouts, self.arithmetic, self._q(), keys.decode())
        parts = self.layouts.sections[page.section].parts
        return replace(before, event="key_page", page=before.page + 1, pages=before.pages + 1,
                       logits=np.concatenate([self._array("logits", self.heads, -1) if before.logits else made[:, :0],
                                              made], axis=1).tobytes(),
                       key_words=before.key_words + page.tokens * _words(parts["key"]),
                       key_meta_words=before.key_meta_words + page.tokens * _words(parts["key_meta"]),
                       macs=before.macs + page.tokens * self.heads * self.features)

    def _softmax(self) -> State:
        """Probabilities of the tokens of the chunk (D-leankv-43, D-leankv-44, D-leankv-45)."""
        before, values = self.state, self._array("logits", self.heads, -1)
        slots = np.concatenate([np.arange(page.tokens) for page in self._chunks()[before.chunk]])
        seen = slots % 4 == 0 if self.arithmetic.lane_max else np.ones(len(slots), np.bool_)
        p, top, total = phases.softmax(self.layouts, self.arithmetic, values, seen)
        earlier = self._array("chances", self.heads, -1) if before.chances else p[:, :0]
        divided = p.size if self.arithmetic.softmax_div == "div" else self.heads
        acc = np.zeros((self.heads, self.layouts.accumulators(self.arithmetic), self.features), np.float32)
        return replace(before, event="softmax", page=0, chances=np.concatenate([earlier, p], axis=1).tobytes(),
                       tops=before.tops + top.tobytes(), totals=before.totals + total.tobytes(), acc=acc.tobytes(),
                       exps=before.exps + p.size, divisions=before.divisions + divided)

    def _value_page(self) -> State:
        """The values of the next page, each added to the accumulator of its slot (D-leankv-41)."""
        before, page = self.state, self._chunks()[self.state.chunk][self.state.page]
        values = phases.read(self.layouts, page, self._image(page)).value
        p = self._array("chances", self.heads, -1)[:, page.start : page.start + page.tokens]
        acc = phases.add_values(self.layouts, self.arithmetic, page, p, values.decode(),
                                self._array("acc", self.heads, -1, self.features))
        parts = self.layouts.sections[page.section].parts
        return replace(before, event="value_page", page=before.page + 1, acc=acc.tobytes(),
                       val_words=before.val_words + page.tokens * _words(parts["val"]),
                       val_meta_words=before.val_meta_words + page.tokens * _words(parts["val_meta"]),
                       macs=before.macs + page.tokens * self.heads * self.features)

    def _tree(self) -> State:
        """The sum of the accumulators; the result, if there is one chunk."""
        before, made = self.state, phases.tree(self._array("acc", self.heads, -1, self.features))
        state = replace(before, event="tree", chunk=before.chunk + 1, page=0, logits=b"",
                        parts=before.parts + made.tobytes())
        if len(self._chunks()) > 1:
            return state
        return replace(state, out=_out(made), p=self._padded(self._array("chances", self.heads, -1)))

    def _combine(self) -> State:
        """The result and the probabilities from those of the chunks (D-leankv-46)."""
        before, chunks = self.state, self._chunks()
        made, weights = phases.combine(self.arithmetic, self._array("parts", len(chunks), self.heads, self.features),
                                       self._array("tops", len(chunks), self.heads),
                                       self._array("totals", len(chunks), self.heads))
        p = phases.weigh(self.layouts, self.arithmetic, self._array("chances", self.heads, -1),
                         [chunk[0].start for chunk in chunks], weights)
        return replace(before, event="combine", out=_out(made), p=self._padded(p), exps=before.exps + weights.size,
                       divisions=before.divisions + self.heads)

    def _score(self) -> State:
        """Scores of all tokens, after all query heads."""
        before, chunks = self.state, self._chunks()
        stored = [phases.read(self.layouts, page, self._image(page)) for chunk in chunks for page in chunk]
        score, position = (np.concatenate([getattr(page, name) for page in stored]) for name in ("score", "position"))
        p = np.array(before.p, np.uint32).view(np.float32).reshape(self.heads, -1)[:, : len(score)]
        made = phases.add_score(score, position, p, before.newest, self.arithmetic)
        padded = np.zeros(len(before.score), np.uint32)
        padded[: len(made)] = made.view(np.uint32)
        return replace(before, event="score", score=tuple(padded.tolist()),
                       score_words=before.score_words + 2 * len(score),
                       pos_words=before.pos_words + 2 * len(score) * (not self.arithmetic.include_self))

    def _padded(self, p: np.ndarray) -> tuple[int, ...]:
        full = np.zeros((self.heads, len(self.state.score)), np.float32)
        full[:, : p.shape[1]] = p
        return tuple(full.view(np.uint32).ravel().tolist())

    def _require(self, given: list[Any]) -> None:
        q, images, entry, n_high, n_low = (np.array(fields(value)) for value in given[:5])
        require(self.layouts, *self.operands(q[None], images[None], entry[None], n_high, n_low))

    def operands(self, q: np.ndarray, images: np.ndarray, cells: np.ndarray, n_high: np.ndarray,
                 n_low: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Port values of rows as `attend` takes them: one pool of the pages of all rows, distinct ones in each."""
        rows = n_high.size
        entries = cells.reshape(rows, self.cells).astype(np.int64)
        lengths = np.stack([n_high.reshape(-1), n_low.reshape(-1)], axis=-1).astype(np.int64)
        require_distinct(self.layouts, entries, lengths)
        pool = images.reshape(rows * self.cells, self.layouts.high.size // 2).astype(np.uint16)
        queries = fp16.values(q.reshape(rows, self.heads, self.features).astype(np.uint16))
        return queries, pool, (entries + self.cells * np.arange(rows)[:, None]).astype(np.int32), lengths

    def steps(self, q: Any, images: Any, entry: Any, n_high: Any, n_low: Any, newest: Any) -> Iterator[State]:
        """Yield the State after every event of every operation, in C order; arguments broadcast beside their lanes."""
        arrays = admit(self.name, self.ports.inputs, (q, images, entry, n_high, n_low, newest))
        columns = [array.reshape(arrays[-1].size, *((port.lanes,) if port.lanes > 1 else ())).tolist()
                   for array, port in zip(arrays, self.ports.inputs, strict=True)]
        for row in zip(*columns, strict=True):
            yield self.step(*row)
            while self.busy:
                yield self.step()

    def __repr__(self) -> str:
        head_size, high, low, page_bytes = self.given
        arithmetic = "".join(f", {name}={value!r}" for name, value in asdict(self.arithmetic).items())
        return (f"PagedAttention(head_size={head_size}, heads={self.heads}, high={high!r}, low={low!r}, "
                f"page_bytes={page_bytes}, cells={self.cells}, preset={self.layouts.preset!r}{arithmetic})")


def _words(part: slice) -> int:
    return int(part.stop - part.start)


def _out(values: np.ndarray) -> tuple[int, ...]:
    """fp16 patterns of float32 values."""
    return tuple(fp16.bits(fp16.narrow(fp16.canonical(values))).ravel().tolist())


def attend(pages: Pages, q: np.ndarray, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray,
           arithmetic: Arithmetic = PAPER) -> Attended:
    """Attention of any number of KV heads over their pages.

    pages: layouts. q: (..., G, F) float16, finite. images: (pool, page_bytes / 2) uint16. cells: (..., L) table
    entries, high pages from the left, low ones from the right. lengths: (..., 2) tokens, high and low.
    Returns out (..., G, F) float16 and p (..., G, tokens) float32. Refuses a head without a token, one whose table is
    too short, and page ids outside the pool. Paper: [leankv §6.2].
    """
    require(pages, q, images, cells, lengths)
    out, p = empty(q, lengths)
    heads, features = q.shape[-2:]
    rows = zip(fp16.to_f32(q).reshape(-1, heads, features), cells.reshape(-1, cells.shape[-1]),
               lengths.reshape(-1, 2).tolist(), out.reshape(-1, heads, features), p.reshape(-1, heads, p.shape[-1]),
               strict=True)
    for query, entry, (high, low), result, chances in rows:
        result[:], chances[:, : high + low] = _head(pages, arithmetic, query, images[entry], len(entry), high, low)
    return Attended(fp16.narrow(out), p)


def _head(pages: Pages, arithmetic: Arithmetic, q: np.ndarray, images: np.ndarray, cells: int, high: int,
          low: int) -> tuple[np.ndarray, np.ndarray]:
    """out (G, F) and p (G, tokens) of one KV head; images: of its table entry, cell by cell."""
    cut, done = phases.chunks(pages, arithmetic, cells, high, low), []
    for chunk in cut:
        read = [(page, phases.read(pages, page, images[page.cell])) for page in chunk]
        logits = [phases.logits(pages, arithmetic, q, tokens.key.decode()) for _, tokens in read]
        slots = np.concatenate([np.arange(page.tokens) for page in chunk])
        seen = slots % 4 == 0 if arithmetic.lane_max else np.ones(len(slots), np.bool_)
        p, top, total = phases.softmax(pages, arithmetic, np.concatenate(logits, axis=1), seen)
        acc = np.zeros((len(q), pages.accumulators(arithmetic), q.shape[-1]), np.float32)
        for page, tokens in read:
            at = page.start - chunk[0].start
            acc = phases.add_values(pages, arithmetic, page, p[:, at : at + page.tokens], tokens.value.decode(), acc)
        done.append((phases.tree(acc), p, top, total))
    parts, chances, tops, totals = zip(*done, strict=True)
    p = np.concatenate(chances, axis=1)
    if len(cut) == 1:
        return fp16.canonical(parts[0]), p
    made, weights = phases.combine(arithmetic, np.stack(parts), np.stack(tops), np.stack(totals))
    return fp16.canonical(made), phases.weigh(pages, arithmetic, p, [chunk[0].start for chunk in cut], weights)


def add_scores(pages: Pages, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray, p: np.ndarray, newest: Any,
               include_self: bool = False) -> None:
    """Add to the scores in `images` what `attend` returned as p: for every stored token the largest of its heads.

    newest: (...) position of the newest token of each head, whose score stays unless `include_self` (D-leankv-17).
    Heads must not share pages.
    """
    arithmetic = Arithmetic(include_self=include_self)
    position = np.broadcast_to(np.asarray(newest, np.int64), lengths.shape[:-1]).reshape(-1)
    for row, (entry, (high, low)) in enumerate(zip(cells.reshape(-1, cells.shape[-1]),
                                                   lengths.reshape(-1, 2).tolist(), strict=True)):
        chances = p.reshape(-1, *p.shape[-2:])[row]
        for page in phases.chunks(pages, arithmetic, len(entry), high, low)[0]:
            layout, image = pages.sections[page.section], images[entry[page.cell]]
            slots = np.arange(page.tokens)
            made = phases.add_score(layout.score(image)[slots], layout.position(image)[slots],
                                    chances[:, page.start : page.start + page.tokens], int(position[row]), arithmetic)
            layout.set_score(image, slots, made)


def step(pages: Pages, q: np.ndarray, images: np.ndarray, cells: np.ndarray, lengths: np.ndarray, newest: Any,
         arithmetic: Arithmetic = PAPER) -> np.ndarray:
    """`attend`, then `add_scores`: what a model needs of one step. q: fp16 values in float32, as what it returns."""
    found = attend(pages, fp16.to_f16(q), images, cells, lengths, arithmetic)
    add_scores(pages, images, cells, lengths, found.p, newest, arithmetic.include_self)
    return found.out.astype(np.float32)


def run(q: Any, images: Any, entry: Any, n_high: Any, n_low: Any, newest: Any, **parameters: Any) -> Result:
    """One step of attention for any number of KV heads, each with pages of its own.

    q: fp16 patterns (..., heads * F), finite. images: (..., cells * page_bytes / 2) words. entry: (..., cells) numbers
    of pages in `images`, high ones from the left, low ones from the right. n_high, n_low: tokens stored. newest:
    position of the newest token. They broadcast beside the lanes. parameters: those of PagedAttention.
    Returns the Result, arrays (...). Refuses what `attend` refuses and a page in two cells. Paper: [leankv §6.2].
    """
    device = PagedAttention(**parameters)
    arrays = admit(device.name, device.ports.inputs, (q, images, entry, n_high, n_low, newest))
    require(device.layouts, *device.operands(*arrays[:5]))
    states = [state for state in device.steps(*arrays) if state.event == "score"]
    return Result(**collect(states, device.ports.outputs, arrays[-1].shape),
                  **{name: getattr(device.state, name) for name in COUNTERS})


def _ports(layouts: Pages, heads: int, cells: int) -> Ports:
    high, low = layouts.sections
    most = [cells * high.tokens, cells * low.tokens if layouts.low else 0]
    tokens = cells * max(high.tokens, low.tokens)
    return Ports(
        inputs=(Port("q", 16, heads * high.head_size, encoding="f16", meaning="queries, head by head"),
                Port("images", 16, cells * high.size // 2, meaning="pages, word by word"),
                Port("entry", 32, cells, most=cells - 1, meaning="of the table: high pages from left, low from right"),
                Port("n_high", 32, least=1, most=most[0], meaning="tokens in high pages"),
                Port("n_low", 32, most=most[1], meaning="tokens in low pages"),
                Port("newest", 32, most=(1 << 31) - 1, meaning="position of the newest token")),
        outputs=(Port("out", 16, heads * high.head_size, encoding="f16", meaning="attention, head by head"),
                 Port("p", 32, heads * tokens, encoding="f32", meaning="probabilities, head by head: high, low slots"),
                 Port("score", 32, tokens, encoding="f32", meaning="scores after the step: high slots, low slots")))


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    return PagedAttention(**config).ports


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with pages of moderate metadata, each in one cell, and no more tokens than there are cells for."""
    return paged_attention_cases.legal(PagedAttention(**config).layouts, config, inputs)


def cases(config: Config, kind: str, seed: int) -> Iterator[Cases]:
    """Golden cases of one kind; see paged_attention_cases.py."""
    device = PagedAttention(**config)
    return paged_attention_cases.cases(device.layouts, config, device.ports.inputs, kind, seed)


SMALL = {"head_size": 64, "heads": 2, "high": "K8V4", "low": "K4V2", "page_bytes": 384, "cells": 6}

UNIT = Unit(
    name="paged_attention", paper="leankv §6.2", meaning="attention of one step over the pages of a KV head",
    configs={"paper": Config(**SMALL, preset="paper", **asdict(PAPER)),
             "diffkv": Config(**SMALL, preset="diffkv", **{**asdict(DIFFKV), "partition_tokens": 1}),
             "one_precision": Config(**{**SMALL, "low": None, "high": "K4V4"}, preset="paper",
                                     **{**asdict(PAPER), "order": "sequential", "fma": False})},
    ports=ports, run=run, twin="refemu.units.paged_attention_jit:run", unit_class=PagedAttention, cases=cases,
    legal=legal,
    alternatives=(*choices("D-leankv-17", "include_self", True, False),
                  *choices("D-leankv-41", "order", "kernel", "sequential"), *choices("D-leankv-42", "fma", True, False),
                  *choices("D-leankv-43", "lane_max", True),
                  *choices("D-leankv-45", "softmax_div", "div", "recip_mul"),
                  *choices("D-leankv-46", "partition_tokens", 0, 1)),
)
