"""Attention of one step over the pages of a KV head: high pages, then low pages, dequantized on the way.

Paper: [leankv §6.2]. Decisions: D-leankv-17 (a token's attention to itself), D-leankv-19 (heads that share a KV head),
D-leankv-41 (order of the sums),
D-leankv-42 (fused or not), D-leankv-43 (subtracted maximum), D-leankv-44 (exponential), D-leankv-45 (division of the
softmax), D-leankv-46 (partitions).
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, require_int
from refemu.formats import hetero_kv
from refemu.formats.kv_page import UnifiedPage
from refemu.units import attention_phases_parts as phases
from refemu.units import paged_attention_cases
from refemu.units.attention_phases_parts import Page
from refemu.units.paged_attention_heads_parts import add_scores, attend, step
from refemu.units.paged_attention_parts import (
    DIFFKV,
    EPSILON,
    PAPER,
    PRESETS,
    Arithmetic,
    Attended,
    Pages,
    require,
    require_distinct,
)
from refemu.units.paged_attention_ports_parts import COUNTERS, Result, State, ports_of
from refemu.units.unit import Cases, Config, Ports, Stepped, Unit, admit, choices, collect, fields
from refemu.units.unit_cases import Seeds

__all__ = [
    "DIFFKV",
    "EPSILON",
    "PAPER",
    "PRESETS",
    "Arithmetic",
    "Attended",
    "PagedAttention",
    "Pages",
    "add_scores",
    "attend",
    "step",
]

EVENTS = ("key_page", "softmax", "value_page", "tree", "combine", "score")
ARRAYS = ("logits", "chances", "tops", "totals", "acc", "parts")  #: registers kept as bytes


class PagedAttention(Stepped):
    """The block, one instance for a KV head of a request.

    An operation is `key_page` for every page, `softmax`, `value_page` for every page, `tree`; so for every partition,
    whose results `combine` joins; then `score`.
    """

    name = "paged_attention"

    def __init__(
        self,
        head_size: int = 64,
        heads: int = 2,
        high: str = "K8V4",
        low: str | None = "K4V2",
        page_bytes: int | None = 640,
        cells: int = 4,
        preset: str = "paper",
        **arithmetic: Any,
    ) -> None:
        """head_size: F. heads: G. high, low: precisions, low None for one. page_bytes: of a page.

        cells: of the table entry, and pages on the port. preset: of the formats. arithmetic: fields of `Arithmetic`.
        """
        require_int(heads, 1, 1 << 10, self.name, "heads")
        require_int(cells, 1, 1 << 16, self.name, "cells")
        self.arithmetic = Arithmetic(**arithmetic)
        self.layouts = Pages(
            UnifiedPage(head_size, hetero_kv.find(high), page_bytes),
            None if low is None else UnifiedPage(head_size, hetero_kv.find(low), page_bytes),
            preset,
        )
        self.heads, self.cells, self.given = heads, cells, (head_size, high, low, page_bytes)
        self.features = head_size
        self.ports = ports_of(self.layouts, heads, cells)
        registers: dict[str, Any] = {
            port.name: (0,) * port.lanes if port.lanes > 1 else port.limits[0] for port in self.ports.all
        }
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
            self.state = replace(
                self.state, index=self.state.index + 1, chunk=0, page=0, **zeros, **dict(zip(names, given, strict=True))
            )
        event = "key_page" if inputs else self._next()
        self.state = {
            "key_page": self._key_page,
            "softmax": self._softmax,
            "value_page": self._value_page,
            "tree": self._tree,
            "combine": self._combine,
            "score": self._score,
        }[event]()
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
        return replace(
            before,
            event="key_page",
            page=before.page + 1,
            pages=before.pages + 1,
            logits=np.concatenate(
                [self._array("logits", self.heads, -1) if before.logits else made[:, :0], made], axis=1
            ).tobytes(),
            key_words=before.key_words + page.tokens * _words(parts["key"]),
            key_meta_words=before.key_meta_words + page.tokens * _words(parts["key_meta"]),
            macs=before.macs + page.tokens * self.heads * self.features,
        )

    def _softmax(self) -> State:
        """Probabilities of the tokens of the chunk (D-leankv-43, D-leankv-44, D-leankv-45)."""
        before, values = self.state, self._array("logits", self.heads, -1)
        slots = np.concatenate([np.arange(page.tokens) for page in self._chunks()[before.chunk]])
        seen = slots % 4 == 0 if self.arithmetic.lane_max else np.ones(len(slots), np.bool_)
        p, top, total = phases.softmax(self.layouts, self.arithmetic, values, seen)
        earlier = self._array("chances", self.heads, -1) if before.chances else p[:, :0]
        divided = p.size if self.arithmetic.softmax_div == "div" else self.heads
        acc = np.zeros((self.heads, self.layouts.accumulators(self.arithmetic), self.features), np.float32)
        return replace(
            before,
            event="softmax",
            page=0,
            chances=np.concatenate([earlier, p], axis=1).tobytes(),
            tops=before.tops + top.tobytes(),
            totals=before.totals + total.tobytes(),
            acc=acc.tobytes(),
            exps=before.exps + p.size,
            divisions=before.divisions + divided,
        )

    def _value_page(self) -> State:
        """The values of the next page, each added to the accumulator of its slot (D-leankv-41)."""
        before, page = self.state, self._chunks()[self.state.chunk][self.state.page]
        values = phases.read(self.layouts, page, self._image(page)).value
        p = self._array("chances", self.heads, -1)[:, page.start : page.start + page.tokens]
        acc = phases.add_values(
            self.layouts, self.arithmetic, page, p, values.decode(), self._array("acc", self.heads, -1, self.features)
        )
        parts = self.layouts.sections[page.section].parts
        return replace(
            before,
            event="value_page",
            page=before.page + 1,
            acc=acc.tobytes(),
            val_words=before.val_words + page.tokens * _words(parts["val"]),
            val_meta_words=before.val_meta_words + page.tokens * _words(parts["val_meta"]),
            macs=before.macs + page.tokens * self.heads * self.features,
        )

    def _tree(self) -> State:
        """The sum of the accumulators; the result, if there is one chunk."""
        before, made = self.state, phases.tree(self._array("acc", self.heads, -1, self.features))
        state = replace(
            before, event="tree", chunk=before.chunk + 1, page=0, logits=b"", parts=before.parts + made.tobytes()
        )
        if len(self._chunks()) > 1:
            return state
        return replace(state, out=_out(made), p=self._padded(self._array("chances", self.heads, -1)))

    def _combine(self) -> State:
        """The result and the probabilities from those of the chunks (D-leankv-46)."""
        before, chunks = self.state, self._chunks()
        made, weights = phases.combine(
            self.arithmetic,
            self._array("parts", len(chunks), self.heads, self.features),
            self._array("tops", len(chunks), self.heads),
            self._array("totals", len(chunks), self.heads),
        )
        p = phases.weigh(
            self.layouts,
            self.arithmetic,
            self._array("chances", self.heads, -1),
            [chunk[0].start for chunk in chunks],
            weights,
        )
        return replace(
            before,
            event="combine",
            out=_out(made),
            p=self._padded(p),
            exps=before.exps + weights.size,
            divisions=before.divisions + self.heads,
        )

    def _score(self) -> State:
        """Scores of all tokens, after all query heads."""
        before, chunks = self.state, self._chunks()
        stored = [phases.read(self.layouts, page, self._image(page)) for chunk in chunks for page in chunk]
        score, position = (np.concatenate([getattr(page, name) for page in stored]) for name in ("score", "position"))
        p = np.array(before.p, np.uint32).view(np.float32).reshape(self.heads, -1)[:, : len(score)]
        made = phases.add_score(score, position, p, before.newest, self.arithmetic)
        padded = np.zeros(len(before.score), np.uint32)
        padded[: len(made)] = made.view(np.uint32)
        return replace(
            before,
            event="score",
            score=tuple(padded.tolist()),
            score_words=before.score_words + 2 * len(score),
            pos_words=before.pos_words + 2 * len(score) * (not self.arithmetic.include_self),
        )

    def _padded(self, p: np.ndarray) -> tuple[int, ...]:
        full = np.zeros((self.heads, len(self.state.score)), np.float32)
        full[:, : p.shape[1]] = p
        return tuple(full.view(np.uint32).ravel().tolist())

    def _require(self, given: list[Any]) -> None:
        q, images, entry, n_high, n_low = (np.array(fields(value)) for value in given[:5])
        require(self.layouts, *self.operands(q[None], images[None], entry[None], n_high, n_low))

    def operands(
        self, q: np.ndarray, images: np.ndarray, cells: np.ndarray, n_high: np.ndarray, n_low: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
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
        columns = [
            array.reshape(arrays[-1].size, *((port.lanes,) if port.lanes > 1 else ())).tolist()
            for array, port in zip(arrays, self.ports.inputs, strict=True)
        ]
        for row in zip(*columns, strict=True):
            yield self.step(*row)
            while self.busy:
                yield self.step()

    def __repr__(self) -> str:
        head_size, high, low, page_bytes = self.given
        arithmetic = "".join(f", {name}={value!r}" for name, value in asdict(self.arithmetic).items())
        return (
            f"PagedAttention(head_size={head_size}, heads={self.heads}, high={high!r}, low={low!r}, "
            f"page_bytes={page_bytes}, cells={self.cells}, preset={self.layouts.preset!r}{arithmetic})"
        )


def _words(part: slice) -> int:
    return int(part.stop - part.start)


def _out(values: np.ndarray) -> tuple[int, ...]:
    """fp16 patterns of float32 values."""
    return tuple(fp16.bits(fp16.narrow(fp16.canonical(values))).ravel().tolist())


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
    return Result(
        **collect(states, device.ports.outputs, arrays[-1].shape),
        **{name: getattr(device.state, name) for name in COUNTERS},
    )


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    return PagedAttention(**config).ports


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with pages of moderate metadata, each in one cell, and no more tokens than there are cells for."""
    return paged_attention_cases.legal(PagedAttention(**config).layouts, config, inputs)


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see paged_attention_cases.py."""
    device = PagedAttention(**config)
    return paged_attention_cases.cases(device.layouts, config, device.ports.inputs, kind, seed)


SMALL = {"head_size": 64, "heads": 2, "high": "K8V4", "low": "K4V2", "page_bytes": 384, "cells": 6}

UNIT = Unit(
    name="paged_attention",
    version=2,
    paper="leankv §6.2",
    meaning="attention of one step over the pages of a KV head",
    configs={
        "paper": Config(**SMALL, preset="paper", **asdict(PAPER)),
        "diffkv": Config(**SMALL, preset="diffkv", **{**asdict(DIFFKV), "partition_tokens": 1}),
        "one_precision": Config(
            **{**SMALL, "low": None, "high": "K4V4"},
            preset="paper",
            **{**asdict(PAPER), "order": "sequential", "fma": False},
        ),
    },
    ports=ports,
    run=run,
    twin="refemu.units.paged_attention_jit:run",
    unit_class=PagedAttention,
    cases=cases,
    legal=legal,
    alternatives=(
        *choices("D-leankv-17", "include_self", True, False),
        *choices("D-leankv-19", "gqa", "mean"),
        *choices("D-leankv-41", "order", "kernel", "sequential"),
        *choices("D-leankv-42", "fma", True, False),
        *choices("D-leankv-43", "lane_max", True),
        *choices("D-leankv-45", "softmax_div", "div", "recip_mul"),
        *choices("D-leankv-46", "partition_tokens", 0, 1),
    ),
)
