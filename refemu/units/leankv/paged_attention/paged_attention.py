"""Attention of one step over the pages of a KV head: high pages, then low pages, dequantized on the way.

Paper: [leankv §6.2].
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields as fields_of
from typing import Annotated, Any, ClassVar

import numpy as np

from refemu.arith import fp16
from refemu.arith.fp32 import exp32
from refemu.units import AnyUnit, Changes, Combinational, DeclaredState, Port, Ports, Result, Unit, constant, decides
from refemu.units.leankv.paged_attention import phases
from refemu.units.leankv.paged_attention.arithmetic import Arithmetic, Paging, require, require_distinct
from refemu.units.leankv.paged_attention.configurations import CONFIGS
from refemu.units.leankv.paged_attention.loads import traffic
from refemu.units.leankv.paged_attention.phases import Page
from refemu.units.leankv.paged_attention.ports import COUNTERS, REGISTERS, patterns, ports_of, stages_of, values
from refemu.units.unit import RunFunction


class PagedAttention(Combinational, Arithmetic, Paging):
    """Paged attention of one KV head of a request. [leankv §6.2]

    An operation is, for every partition, `key_page` for every page, `softmax`, `value_page` for every page, `tree`;
    then `combine`, which joins partitions, and `score`.
    """

    name = "paged_attention"
    events: ClassVar[tuple[str, ...]] = ("key_page", "softmax", "value_page", "tree", "combine", "score")
    counters: ClassVar[dict[str, str]] = COUNTERS
    registers: ClassVar[dict[str, str]] = REGISTERS
    heads: Annotated[int, 1, 1 << 10] = 2  #: G, query heads, 1 to 1024
    cells: Annotated[int, 1, 1 << 16] = 4  #: cells of the table entry, and pages on the port, 1 to 65536
    stages: bool = False  #: whether the registers of the float32 stages are ports

    def check(self) -> None:
        self.layouts.key_order(self.arithmetic)  # raises for threads that cannot share a key

    @constant
    def arithmetic(self) -> Arithmetic:
        """Options that decide bits of the result."""
        return Arithmetic(**{field.name: getattr(self, field.name) for field in fields_of(Arithmetic)})

    @constant
    def stage_ports(self) -> tuple[Port, ...]:
        """Registers of the float32 stages; ports with `stages`."""
        return stages_of(self.layouts, self.arithmetic, self.heads, self.cells)

    @constant
    def ports(self) -> Ports:
        shown = tuple(each for each in self.stage_ports if self.stages and each.name != "chances")
        return ports_of(self.layouts, self.heads, self.cells, shown)

    @constant
    def _cleared(self) -> dict[str, Any]:
        """Outputs and registers before the first event of an operation."""
        zeros = {port.name: port.filled(0) for port in (*self.ports.outputs, *self.stage_ports)}
        return {**zeros, "chunk": 0, "page": 0}

    @constant
    def initial(self) -> Mapping[str, Any]:
        return {"n_high": 1, **self._cleared}

    @property
    def busy(self) -> bool:
        """Whether an operation is under way."""
        return self.state.event not in ("reset", "score")

    def _open(self, *inputs: Any) -> DeclaredState:
        """Every event, the first one too, reads the operands in the State."""
        self._commit("key_page", inputs, self._cleared)
        return self._continue()

    def follows(self) -> str:
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

    def _read(self, page: Page, *segments: str) -> dict[str, int]:
        """Counters of a warp's loads of these segments of a page: words of the tokens, sectors of the loads."""
        layout, number = self.layouts.sections[page.section], self.state.entry[page.cell]
        loads, counted = traffic(layout, page.tokens, base=number * layout.size), dict[str, int]()
        for name in segments:
            counted[f"{name}_words"] = page.tokens * _words(layout.parts[name])
            counted[f"{name}_sectors"] = loads[name].sectors
        return counted

    def _image(self, page: Page) -> np.ndarray:
        words = self.layouts.high.size // 2
        number = self.state.entry[page.cell]
        return np.array(self.state.images[number * words : (number + 1) * words], np.uint16)

    def _q(self) -> np.ndarray:
        return fp16.to_f32(fp16.values(np.array(self.state.q, np.uint16))).reshape(self.heads, self.head_size)

    def key_page(self) -> Changes:
        """Compute the logits of the tokens of one page."""
        before, page = self.state, self._chunks()[self.state.chunk][self.state.page]
        keys = phases.read(self.layouts, page, self._image(page)).key
        logits = self._stage("logits", self.heads, -1)
        logits[:, page.start : page.start + page.tokens] = self._logits(self._q(), keys.dequantize())
        return {
            "page": before.page + 1,
            "pages": 1,
            "logits": patterns(logits),
            "macs": page.tokens * self.heads * self.head_size,
            **self._read(page, "key", "key_meta"),
        }

    @decides("D-leankv-41", "D-leankv-42")
    def _logits(self, q: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Logits (G, tokens) of queries (G, F) and keys (tokens, F)."""
        return phases.logits(self.layouts, self.arithmetic, q, keys)

    @decides("D-leankv-44")
    def _exp(self, x: np.ndarray) -> np.ndarray:
        """The exponential, correctly rounded."""
        return exp32(x)

    def softmax(self) -> Changes:
        """Compute the probabilities of a partition."""
        before, chunk = self.state, self._chunks()[self.state.chunk]
        slots = np.concatenate([np.arange(page.tokens) for page in chunk])
        tokens = slice(chunk[0].start, chunk[0].start + len(slots))
        seen = slots % 4 == 0 if self.arithmetic.lane_max else np.ones(len(slots), np.bool_)
        logits = self._stage("logits", self.heads, -1)[:, tokens]
        # D-leankv-43, D-leankv-44, D-leankv-45
        p, top, total = phases.softmax(self.layouts, self.arithmetic, logits, seen, self._exp)
        chances, tops, totals = (
            self._stage(name, *shape)
            for name, shape in (("chances", (self.heads, -1)), ("tops", (-1, self.heads)), ("totals", (-1, self.heads)))
        )
        chances[:, tokens], tops[before.chunk], totals[before.chunk] = p, top, total
        return {
            "page": 0,
            "chances": patterns(chances),
            "tops": patterns(tops),
            "totals": patterns(totals),
            "acc": self._cleared["acc"],
            "exps": p.size,
            "divisions": p.size if self.arithmetic.softmax_div == "div" else self.heads,
        }

    def value_page(self) -> Changes:
        """Add the values of one page, times the probabilities, to accumulators."""
        before, page = self.state, self._chunks()[self.state.chunk][self.state.page]
        value = phases.read(self.layouts, page, self._image(page)).value
        p = self._stage("chances", self.heads, -1)[:, page.start : page.start + page.tokens]
        # D-leankv-41
        acc = self._added(page, p, value.dequantize(), self._stage("acc", self.heads, -1, self.head_size))
        return {
            "page": before.page + 1,
            "acc": patterns(acc),
            "macs": page.tokens * self.heads * self.head_size,
            **self._read(page, "val", "val_meta"),
        }

    @decides("D-leankv-41")
    def _added(self, page: Page, p: np.ndarray, value: np.ndarray, acc: np.ndarray) -> np.ndarray:
        """Accumulators (G, accumulators, F) after a page's slots in turn; p (G, slots), value (slots, F)."""
        return phases.add_values(self.layouts, self.arithmetic, page, p, value, acc)

    @decides("D-leankv-41", "D-leankv-56")
    def _joined(self, acc: np.ndarray) -> np.ndarray:
        """(G, F) sum of the accumulators, by halves or in turn."""
        return phases.join(self.arithmetic, acc)

    @decides("D-arith-2")
    def _narrowed(self, exact: np.ndarray) -> np.ndarray:
        """float32 results as fp16."""
        return fp16.narrow(fp16.canonical(exact))

    def _out(self, exact: np.ndarray) -> tuple[int, ...]:
        return tuple(fp16.bits(self._narrowed(exact)).ravel().tolist())

    def tree(self) -> Changes:
        """Join the accumulators."""
        before, sums = self.state, self._stage("sums", -1, self.heads, self.head_size)
        total = sums[before.chunk] = self._joined(self._stage("acc", self.heads, -1, self.head_size))
        alone = {} if len(self._chunks()) > 1 else {"out": self._out(total), "p": before.chances}
        return {"chunk": before.chunk + 1, "page": 0, "sums": patterns(sums), **alone}

    def combine(self) -> Changes:
        """Join the partitions, if there are several."""
        before, chunks = self.state, self._chunks()
        out, weights = phases.combine(  # D-leankv-46
            self.arithmetic,
            self._stage("sums", -1, self.heads, self.head_size)[: len(chunks)],
            self._stage("tops", -1, self.heads)[: len(chunks)],
            self._stage("totals", -1, self.heads)[: len(chunks)],
            self._exp,
        )
        p, starts = self._stage("chances", self.heads, -1), [chunk[0].start for chunk in chunks]
        used = slice(0, before.n_high + before.n_low)
        p[:, used] = phases.weigh(self.layouts, self.arithmetic, p[:, used], starts, weights)
        exps, divisions = weights.size, self.heads
        return {"out": self._out(out), "p": patterns(p), "exps": exps, "divisions": divisions}

    def score(self) -> Changes:
        """Add the attention of the step to the scores of the stored tokens."""
        pages = [page for chunk in self._chunks() for page in chunk]
        stored = [phases.read(self.layouts, page, self._image(page)) for page in pages]
        score, position = (np.concatenate([getattr(page, name) for page in stored]) for name in ("score", "position"))
        segments, read = ("score",) if self.arithmetic.include_self else ("score", "pos"), Counter[str]()
        for page in pages:
            read.update(self._read(page, *segments))
        p = self._stage("p", self.heads, -1)[:, : len(score)]
        scores = np.zeros(len(self.state.score), np.float32)
        scores[: len(score)] = phases.add_score(score, position, p, self.state.newest, self.arithmetic)
        return {"score": patterns(scores), **read}

    def _require(self, *inputs: np.ndarray) -> None:
        """Check inputs as `attend` does, and that no page is in two cells."""
        q, images, entry, n_high, n_low, _ = inputs
        require(self.layouts, *self.operands(q, images, entry, n_high, n_low))

    def operands(
        self, q: np.ndarray, images: np.ndarray, cells: np.ndarray, n_high: np.ndarray, n_low: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Arrange port values of rows for `attend`: one pool of the pages of all rows."""
        rows = n_high.size
        entries = cells.reshape(rows, self.cells).astype(np.int64)
        lengths = np.stack([n_high.reshape(-1), n_low.reshape(-1)], axis=-1).astype(np.int64)
        require_distinct(self.layouts, entries, lengths)
        pool = images.reshape(rows * self.cells, self.layouts.high.size // 2).astype(np.uint16)
        queries = fp16.values(q.reshape(rows, self.heads, self.head_size).astype(np.uint16))
        return queries, pool, (entries + self.cells * np.arange(rows)[:, None]).astype(np.int32), lengths


def _words(part: slice) -> int:
    return int(part.stop - part.start)


UNIT: AnyUnit = Unit(
    unit_class=PagedAttention,
    version=2,
    paper="leankv §6.2",
    meaning="attention of one step over the pages of a KV head",
    configs=CONFIGS,
)
State: type[DeclaredState] = PagedAttention.State
run: RunFunction[Result] = UNIT.run
