"""Attention of one step over the pages of a KV head: high pages, then low pages, dequantized on the way.

Paper: [leankv §6.2]. Decisions: D-leankv-17 (a token's attention to itself), D-leankv-19 (heads that share a KV head),
D-leankv-41 (order of the sums), D-leankv-42 (fused or not), D-leankv-43 (subtracted maximum), D-leankv-44
(exponential), D-leankv-45 (division of the softmax), D-leankv-46 (partitions), D-leankv-56 (block of threads),
D-leankv-57 (loads of a warp), D-leankv-58 (sectors of a load), D-arith-2 (rounding of the output).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import plain, require_bool, require_int
from refemu.arith.fp32 import exp32
from refemu.formats.leankv.hetero_kv import PairName
from refemu.formats.leankv.kv_layout import ALIGN
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units.leankv.cases import paged_attention as paged_attention_cases
from refemu.units.leankv.kv_quantizer import Preset
from refemu.units.leankv.paged_attention import phases
from refemu.units.leankv.paged_attention.arithmetic import (
    CONSTANTS,
    DIFFKV,
    EPSILON,
    PAPER,
    PRESETS,
    Arithmetic,
    Attended,
    Join,
    Pages,
    SoftmaxDiv,
    SumOrder,
    require,
    require_distinct,
)
from refemu.units.leankv.paged_attention.configurations import CONFIGS
from refemu.units.leankv.paged_attention.heads import add_scores, attend, step
from refemu.units.leankv.paged_attention.loads import traffic
from refemu.units.leankv.paged_attention.phases import Page
from refemu.units.leankv.paged_attention.ports import COUNTERS, State, patterns, ports_of, stages_of, values
from refemu.units.leankv.significance import Gqa
from refemu.units.ports import Port, Ports, fields, lanes
from refemu.units.stepped import Result, Stepped
from refemu.units.unit import RunFunction, Unit

__all__ = [
    "CONSTANTS",
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


class PagedAttention(Stepped[State]):
    """Paged attention of one KV head of a request.

    An operation is `key_page` for every page, `softmax`, `value_page` for every page, `tree`; so for every partition,
    whose results `combine` joins; then `score`.

    References
    ----------
    [leankv §6.2]
    """

    name = "paged_attention"
    layout: ClassVar[type[Pages]] = Pages  #: of the orders of sums and the accumulators (D-leankv-41)

    def __init__(
        self,
        head_size: int = 64,
        heads: int = 2,
        high: PairName = "K8V4",
        low: PairName | None = "K4V2",
        page_bytes: int | None = 640,
        cells: int = 4,
        preset: Preset = "paper",
        order: SumOrder = PAPER.order,
        fma: bool = PAPER.fma,
        softmax_div: SoftmaxDiv = PAPER.softmax_div,
        softmax_eps: float = PAPER.softmax_eps,
        lane_max: bool = PAPER.lane_max,
        partition_tokens: int = PAPER.partition_tokens,
        partition_score: bool = PAPER.partition_score,
        include_self: bool = PAPER.include_self,
        gqa: Gqa = PAPER.gqa,
        warps: int = PAPER.warps,
        sum_threads: int = PAPER.sum_threads,
        key_threads: int = PAPER.key_threads,
        value_rows: int = PAPER.value_rows,
        value_slots: int = PAPER.value_slots,
        join: Join = PAPER.join,
        stages: bool = False,
        k_vec: int = UnifiedPage.k_vec,
        k_group: int = UnifiedPage.k_group,
        v_vec: int = UnifiedPage.v_vec,
        v_group: int = UnifiedPage.v_group,
        align: tuple[int, int] = ALIGN,
    ) -> None:
        """Configure pages and arithmetic.

        Parameters
        ----------
        head_size : int
            F, features of a key and of a value.
        heads : int
            G, query heads, 1 to 1024.
        high : str
            Ready pair of precisions, "K8V4" say.
        low : str or None
            The low pair; None for one precision.
        page_bytes : int or None
            Bytes of a page.
        cells : int
            Cells of the table entry, and pages on the port.
        preset : {"paper", "diffkv"}
            Preset of the codes.
        order : {"kernel", "sequential"}
            As for `Arithmetic`, like the following.
        fma : bool
            Products are added in one rounding.
        softmax_div : {"div", "recip_mul"}
            Division of the softmax.
        softmax_eps : float
            Added to the sum before it, a float32 value in [0, 1).
        lane_max : bool
            The maximum is that of slots 0, 4, 8, ... of the pages only.
        partition_tokens : int
            Tokens beyond which a head is cut into chunks; 0 = never.
        partition_score : bool
            p of token t is weighted as of chunk t // chunk.
        include_self : bool
            Whether the newest token's p is added to its own score.
        gqa : {"max", "mean"}
            Join of the heads.
        warps : int
            Warps of a block, which take the pages of a section in turn: a power of two, 1 to 32.
        sum_threads : int
            Threads that sum the exponentials: a power of two, 1 to 1024.
        key_threads : int
            Threads that share a key: a power of two up to 32; 0 = Kgroup.
        value_rows : int
            Accumulators of a warp: a power of two up to 32; 0 = 32 / Vgroup.
        value_slots : int
            Neighbouring slots of a page that meet in an accumulator; 0 = Vvec.
        join : {"tree", "sequential"}
            How the accumulators are added.
        stages : bool
            Whether the registers of the float32 stages are ports.
        k_vec, k_group, v_vec, v_group : int
            Constants of the pages, as for `UnifiedPage`, like the following.
        align : tuple of 2 int
            Bytes.

        Raises
        ------
        Refused
            A parameter is out of range or an option unknown, or the pages cannot be laid out.
        """
        self.heads: int = require_int(heads, 1, 1 << 10, self.name, "heads")
        self.cells: int = require_int(cells, 1, 1 << 16, self.name, "cells")
        require_bool(stages, self.name, "stages")
        scores = partition_score, include_self, gqa
        block = warps, sum_threads, key_threads, value_rows, value_slots, join
        options = order, fma, softmax_div, softmax_eps, lane_max, partition_tokens, *scores, *block
        self.arithmetic: Arithmetic = Arithmetic(*plain(options))
        self.features: int = plain(head_size)
        self.page_bytes: int | None = plain(page_bytes)
        self.high: PairName = plain(high)
        self.low: PairName | None = plain(low)
        constants: dict[str, Any] = dict(zip(CONSTANTS, plain((k_vec, k_group, v_vec, v_group, align)), strict=True))
        pairs = self.high, self.low
        self.layouts: Pages = self.layout.of(self.features, *pairs, self.page_bytes, plain(preset), **constants)
        self.layouts.key_order(self.arithmetic)  # refuses threads that cannot share a key
        #: registers of the float32 stages; ports where `stages` says so
        self.stages: tuple[Port, ...] = stages_of(self.layouts, self.arithmetic, self.heads, self.cells)
        shown = tuple(each for each in self.stages if stages and each.name != "chances")
        self.ports: Ports = ports_of(self.layouts, self.heads, self.cells, shown)
        self.state: State = self.reset(State, n_high=1, **{each.name: lanes((0,) * each.lanes) for each in self.stages})

    @property
    def busy(self) -> bool:
        """Whether an operation is on its way."""
        return self.state.event not in ("reset", "score")

    def step(
        self,
        q: Sequence[int] | None = None,
        images: Sequence[int] | None = None,
        entry: Sequence[int] | int | None = None,
        n_high: int | None = None,
        n_low: int | None = None,
        newest: int | None = None,
    ) -> State:
        """Begin an operation with its first key page; without inputs, execute the next event."""
        return self._stepped(q=q, images=images, entry=entry, n_high=n_high, n_low=n_low, newest=newest)

    def _open(self, *inputs: Any) -> State:
        zeros = {port.name: lanes((0,) * port.lanes) for port in (*self.ports.outputs, *self.stages)}
        self.state = self.latched(*inputs, chunk=0, page=0, **zeros)
        self.state = self._key_page()
        return self.state

    def _continue(self) -> State:
        events = {
            "key_page": self._key_page,
            "softmax": self._softmax,
            "value_page": self._value_page,
            "tree": self._tree,
            "combine": self._combine,
            "score": self._score,
        }
        self.state = events[self._next()]()
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

    def _stage(self, name: str, *shape: int) -> np.ndarray:
        """float32 values of a register: a copy of this shape."""
        return values(getattr(self.state, name), *shape)

    def _read(self, page: Page, *segments: str) -> dict[str, Any]:
        """Counters after a warp's loads of these segments of a page: words of the tokens, sectors of the loads."""
        layout, number = self.layouts.sections[page.section], fields(self.state.entry)[page.cell]
        loads, counted = traffic(layout, page.tokens, base=number * layout.size), {}
        for name in segments:
            words, sectors = f"{name}_words", f"{name}_sectors"
            counted[words] = getattr(self.state, words) + page.tokens * _words(layout.parts[name])
            counted[sectors] = getattr(self.state, sectors) + loads[name].sectors
        return counted

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
        logits = self._stage("logits", self.heads, -1)
        logits[:, page.start : page.start + page.tokens] = self._logits(self._q(), keys.decode())
        return replace(
            before,
            event="key_page",
            page=before.page + 1,
            pages=before.pages + 1,
            logits=patterns(logits),
            macs=before.macs + page.tokens * self.heads * self.features,
            **self._read(page, "key", "key_meta"),
        )

    def _logits(self, q: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """(G, tokens) of queries (G, F) and keys (tokens, F) (D-leankv-41, D-leankv-42)."""
        return phases.logits(self.layouts, self.arithmetic, q, keys)

    def _exp(self, x: np.ndarray) -> np.ndarray:
        """The exponential, correctly rounded (D-leankv-44)."""
        return exp32(x)

    def _softmax(self) -> State:
        """Probabilities of the tokens of the chunk (D-leankv-43, D-leankv-44, D-leankv-45)."""
        before, chunk = self.state, self._chunks()[self.state.chunk]
        slots = np.concatenate([np.arange(page.tokens) for page in chunk])
        tokens = slice(chunk[0].start, chunk[0].start + len(slots))
        seen = slots % 4 == 0 if self.arithmetic.lane_max else np.ones(len(slots), np.bool_)
        logits = self._stage("logits", self.heads, -1)[:, tokens]
        p, top, total = phases.softmax(self.layouts, self.arithmetic, logits, seen, self._exp)
        chances, tops, totals = (
            self._stage(name, *shape)
            for name, shape in (("chances", (self.heads, -1)), ("tops", (-1, self.heads)), ("totals", (-1, self.heads)))
        )
        chances[:, tokens], tops[before.chunk], totals[before.chunk] = p, top, total
        divided = p.size if self.arithmetic.softmax_div == "div" else self.heads
        return replace(
            before,
            event="softmax",
            page=0,
            chances=patterns(chances),
            tops=patterns(tops),
            totals=patterns(totals),
            acc=(0,) * len(fields(before.acc)),
            exps=before.exps + p.size,
            divisions=before.divisions + divided,
        )

    def _value_page(self) -> State:
        """The values of the next page, each added to the accumulator of its slot (D-leankv-41)."""
        before, page = self.state, self._chunks()[self.state.chunk][self.state.page]
        value = phases.read(self.layouts, page, self._image(page)).value
        p = self._stage("chances", self.heads, -1)[:, page.start : page.start + page.tokens]
        acc = self._added(page, p, value.decode(), self._stage("acc", self.heads, -1, self.features))
        return replace(
            before,
            event="value_page",
            page=before.page + 1,
            acc=patterns(acc),
            macs=before.macs + page.tokens * self.heads * self.features,
            **self._read(page, "val", "val_meta"),
        )

    def _added(self, page: Page, p: np.ndarray, value: np.ndarray, acc: np.ndarray) -> np.ndarray:
        """Accumulators (G, accumulators, F) after a page's slots in turn; p (G, slots), value (slots, F)."""
        return phases.add_values(self.layouts, self.arithmetic, page, p, value, acc)

    def _joined(self, acc: np.ndarray) -> np.ndarray:
        """(G, F) sum of the accumulators, by halves or in turn (D-leankv-41, D-leankv-56)."""
        return phases.join(self.arithmetic, acc)

    def _narrowed(self, exact: np.ndarray) -> np.ndarray:
        """float32 results as fp16 (D-arith-2)."""
        return fp16.narrow(fp16.canonical(exact))

    def _out(self, exact: np.ndarray) -> tuple[int, ...]:
        return tuple(fp16.bits(self._narrowed(exact)).ravel().tolist())

    def _tree(self) -> State:
        """The sum of the accumulators; the result, if there is one chunk."""
        before, sums = self.state, self._stage("sums", -1, self.heads, self.features)
        total = sums[before.chunk] = self._joined(self._stage("acc", self.heads, -1, self.features))
        state = replace(before, event="tree", chunk=before.chunk + 1, page=0, sums=patterns(sums))
        if len(self._chunks()) > 1:
            return state
        return replace(state, out=self._out(total), p=fields(state.chances))

    def _combine(self) -> State:
        """The result and the probabilities from those of the chunks (D-leankv-46)."""
        before, chunks = self.state, self._chunks()
        out, weights = phases.combine(
            self.arithmetic,
            self._stage("sums", -1, self.heads, self.features)[: len(chunks)],
            self._stage("tops", -1, self.heads)[: len(chunks)],
            self._stage("totals", -1, self.heads)[: len(chunks)],
            self._exp,
        )
        p, starts = self._stage("chances", self.heads, -1), [chunk[0].start for chunk in chunks]
        used = slice(0, before.n_high + before.n_low)
        p[:, used] = phases.weigh(self.layouts, self.arithmetic, p[:, used], starts, weights)
        return replace(
            before,
            event="combine",
            out=self._out(out),
            p=fields(patterns(p)),
            exps=before.exps + weights.size,
            divisions=before.divisions + self.heads,
        )

    def _score(self) -> State:
        """Scores of all tokens, after all query heads; positions are read where the newest token keeps its own."""
        pages = [page for chunk in self._chunks() for page in chunk]
        stored = [phases.read(self.layouts, page, self._image(page)) for page in pages]
        score, position = (np.concatenate([getattr(page, name) for page in stored]) for name in ("score", "position"))
        segments = ("score",) if self.arithmetic.include_self else ("score", "pos")
        for page in pages:
            self.state = replace(self.state, **self._read(page, *segments))
        p = values(self.state.p, self.heads, -1)[:, : len(score)]
        scores = np.zeros(len(self.state.score), np.float32)
        scores[: len(score)] = phases.add_score(score, position, p, self.state.newest, self.arithmetic)
        return replace(self.state, event="score", score=fields(patterns(scores)))

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse what `attend` does, and a page in two cells."""
        q, images, entry, n_high, n_low, _ = inputs
        require(self.layouts, *self.operands(q, images, entry, n_high, n_low))

    def operands(
        self, q: np.ndarray, images: np.ndarray, cells: np.ndarray, n_high: np.ndarray, n_low: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Arrange port values of rows as `attend` takes them: one pool of the pages of all rows.

        Parameters
        ----------
        q : ndarray of uint16 (rows, G * F)
            fp16 words.
        images : ndarray of uint16 (rows, cells * words)
            Pages of every row.
        cells : ndarray of int (rows, cells)
            Table entries.
        n_high, n_low : ndarray of int (rows,)
            Tokens.

        Returns
        -------
        tuple of 4 ndarray
            Queries, pool, entries and lengths.

        Raises
        ------
        Refused
            A page stands in two cells of a row.
        """
        rows = n_high.size
        entries = cells.reshape(rows, self.cells).astype(np.int64)
        lengths = np.stack([n_high.reshape(-1), n_low.reshape(-1)], axis=-1).astype(np.int64)
        require_distinct(self.layouts, entries, lengths)
        pool = images.reshape(rows * self.cells, self.layouts.high.size // 2).astype(np.uint16)
        queries = fp16.values(q.reshape(rows, self.heads, self.features).astype(np.uint16))
        return queries, pool, (entries + self.cells * np.arange(rows)[:, None]).astype(np.int32), lengths

    def __repr__(self) -> str:
        options = [*asdict(self.arithmetic).items(), ("stages", bool(self.ports.state)), *self._constants()]
        listed = "".join(f", {name}={value!r}" for name, value in options)
        return (
            f"PagedAttention(head_size={self.features}, heads={self.heads}, high={self.high!r}, low={self.low!r}, "
            f"page_bytes={self.page_bytes}, cells={self.cells}, preset={self.layouts.preset!r}{listed})"
        )

    def _constants(self) -> list[tuple[str, Any]]:
        """Constants of the pages that are not the usual ones."""
        pairs = [(name, getattr(self.layouts.high, name)) for name in CONSTANTS]
        return [(name, value) for name, value in pairs if value != getattr(UnifiedPage, name)]


def _words(part: slice) -> int:
    return int(part.stop - part.start)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    return PagedAttention(**config).ports


UNIT: Unit[State, Result] = Unit(
    name="paged_attention",
    version=2,
    paper="leankv §6.2",
    meaning="attention of one step over the pages of a KV head",
    configs=CONFIGS,
    ports=ports,
    unit_class=PagedAttention,
    cases=paged_attention_cases.cases,
    counters=COUNTERS,
    legal=paged_attention_cases.legal,
)
run: RunFunction[Result] = UNIT.run
