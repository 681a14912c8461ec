"""The memory manager: gives pages to all heads of all requests of a call at once, and takes them back.

Paper: [leankv §5.2, §5.3, Fig. 5]. Composed of prefix_sum, free_page_list and page_table. Decisions: D-leankv-34 (pages
of a step), D-leankv-35 (pages of a prompt), D-leankv-36 (length of an entry), D-leankv-38 (order of heads),
D-leankv-40 (cells that are no longer used), D-leankv-53 (too few pages).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.units import page_manager_cases
from refemu.units.free_page_list import OutOfPages
from refemu.units.page_manager_parts import Memory, Moved, Shape, require_pages, up
from refemu.units.page_manager_pool_parts import Pool, total
from refemu.units.page_manager_ports_parts import (
    EVENTS,
    FINISH,
    PROMPT,
    RELEASE,
    STEP,
    TOTALS,
    Result,
    State,
    ports,
)
from refemu.units.page_table import HIGH, LOW, TableOverflow
from refemu.units.prefix_sum import scan
from refemu.units.unit import Cases, Config, Unit, admit_events, choices, collect, fields
from refemu.units.unit_cases import Seeds

__all__ = ["Memory", "Moved", "OutOfPages", "PageManager", "Shape", "TableOverflow"]


class PageManager(Pool):
    """The manager. Its four events are the calls of [leankv §5.3]; each serves all sequences, layers and heads at once.

    Order of every prefix sum: sequence (as the call names them), layer, head, high before low (D-leankv-38). A call
    that is refused, for want of pages too (D-leankv-53), has changed nothing.
    """

    name = "page_manager"

    def __init__(
        self,
        pages: int = 32,
        layers: int = 1,
        heads: int = 2,
        high_tokens: int = 2,
        low_tokens: int | None = 4,
        max_len: int = 12,
        slots: int = 2,
        reserve_low: int = 0,
        table_extra: int = 1,
        table_tokens: int | None = None,
        lazy_pages: bool = True,
        scrub: bool = False,
    ) -> None:
        """Parameters: see `Shape`."""
        super().__init__(
            Shape(
                pages,
                layers,
                heads,
                high_tokens,
                low_tokens,
                max_len,
                slots,
                reserve_low,
                table_extra,
                table_tokens,
                lazy_pages,
                scrub,
            )
        )

    # The four events.

    def prompt_allocate(self, prompts: Mapping[int, int]) -> Moved:
        """Admit sequences: name -> tokens of the prompt. Every head gets pages for all of them [leankv §5.3].

        Raises OutOfPages and TableOverflow. Refused: a known sequence, an empty prompt or one above max_len, no slot.
        """
        clean = self.requests.require_prompts(prompts)
        per_head = {s: up(n, self.shape.high_tokens) + self.shape.reserve for s, n in clean.items()}
        counts = [per_head[s] for s in clean for _ in range(self.shape.layers * self.shape.heads)]
        shape = (len(clean), self.shape.layers, self.shape.heads)
        self.requests.require_cells(np.zeros(shape, np.int64), np.array(counts, np.int64).reshape(shape))
        require_pages(total(counts), self.free)
        self.requests.admit(clean)
        moved = self._allocated(counts)
        for (sequence, entry), count, page in _regions(self._heads(list(clean)), moved):
            self.table.append(entry, HIGH, moved.ids[page : page + count])
            self.table.set_tokens(entry, clean[sequence], 0)
        return self._done(PROMPT, moved, Moved(), sequences=list(clean), prompts=list(clean.values()))

    def prompt_release(self, sequences: Sequence[int], high: Any, low: Any) -> tuple[Moved, Moved]:
        """Compressed prompts: keep pages for `high` and `low` tokens, arrays (S, layers, heads), recycle the others.

        A head whose two runs need a page more than the prompt had gets it first, by a prefix sum of its own.
        Returns what was recycled, and what was allocated. Raises OutOfPages and TableOverflow.
        """
        known = self.requests.require_known(sequences, running=False)
        n_high, n_low = (self.requests.require_heads(known, x, name) for x, name in ((high, "high"), (low, "low")))
        self.requests.require_kept(known, n_high, n_low)
        pages = np.stack([up(n_high, self.shape.high_tokens), up(n_low, self.shape.low_tokens or 1)], axis=-1)
        held = self.used(known)[..., 0]
        lacking = np.maximum(pages[..., 0] + pages[..., 1] - held, 0)
        self.requests.require_cells(held, lacking)
        require_pages(total(lacking.ravel().tolist()), self.free)
        heads = self._heads(known)
        came = self._allocated(lacking.ravel().tolist()) if lacking.any() else Moved()
        for (_, entry), count, page in _regions(heads, came):
            self.table.append(entry, HIGH, came.ids[page : page + count])
        self.counters.shortfall += len(came.ids)
        went = self._recycled(
            [
                self.table.split(entry, *kept)
                for (_, entry), kept in zip(heads, pages.reshape(-1, 2).tolist(), strict=True)
            ]
        )
        tokens = np.stack([n_high, n_low], axis=-1).reshape(-1, 2).tolist()
        for (sequence, entry), (stays_high, stays_low) in zip(heads, tokens, strict=True):
            self.table.set_tokens(entry, stays_high, stays_low)
            self.counters.pruned += self.requests.table[sequence].prompt - stays_high - stays_low
        for sequence in known:
            self.requests.table[sequence].running = True
        return self._done(RELEASE, went, came, sequences=known, high=n_high, low=n_low), came

    def step_allocate(self, sequences: Sequence[int], high: Any, low: Any) -> Moved:
        """One step of running sequences: the sections grow by `high` and `low`, (S, layers, heads), 0 or 1 together.

        A head gets a page where a full section grows, so one at most; if not `lazy_pages` wherever one is full.
        Raises OutOfPages and TableOverflow.
        """
        known = self.requests.require_known(sequences, running=True)
        grow = [self.requests.require_heads(known, x, name) for x, name in ((high, "high"), (low, "low"))]
        self.requests.require_deltas(known, *grow)
        delta = np.stack(grow, axis=-1)
        wanted = self._full(known) & ((delta > 0) | (not self.shape.lazy_pages))
        need = np.count_nonzero(wanted, axis=-1)
        held = self.used(known)
        self.requests.require_cells(held[..., 0] + held[..., 1], need)
        require_pages(int(np.count_nonzero(wanted)), self.free)
        moved = self._allocated(wanted.ravel().astype(np.int64).tolist())
        entries = self._entries(known)
        sections = [(entry, section) for entry in entries for section in (HIGH, LOW)]
        for (entry, section), count, page in _regions(sections, moved):
            self.table.append(entry, section, moved.ids[page : page + count])
        for entry, (more_high, more_low) in zip(entries, delta.reshape(-1, 2).tolist(), strict=True):
            stored = self.table.tokens(entry)
            self.table.set_tokens(entry, stored[HIGH] + more_high, stored[LOW] + more_low)
            self.counters.pruned += 1 - more_high - more_low
        self.counters.step_pages = max(self.counters.step_pages, int(need.max(initial=0)))
        for sequence in known:
            self.requests.table[sequence].seen += 1
        return self._done(STEP, moved, Moved(), sequences=known, high=grow[0], low=grow[1])

    def finish(self, sequences: Sequence[int]) -> Moved:
        """Recycle all pages of sequences, by one prefix sum, and free their slots."""
        known = self.requests.require_known(sequences)
        entries = self._entries(known)
        counts = [count for entry in entries for count in self.table.used(entry)]
        ids = [self.table.clear(entry) for entry in entries]
        moved = self._recycled(ids, counts)
        self.requests.remove(known)
        return self._done(FINISH, moved, Moved(), sequences=known)

    # Their parts.

    def _heads(self, sequences: Sequence[int]) -> list[tuple[int, int]]:
        """(sequence, entry) of all heads."""
        owners = [s for s in sequences for _ in range(self.shape.layers * self.shape.heads)]
        return list(zip(owners, self._entries(sequences), strict=True))

    def _full(self, sequences: Sequence[int]) -> np.ndarray:
        """Which sections have no room for a token: (S, layers, heads, 2)."""
        per_page = np.array([self.shape.high_tokens, self.shape.low_tokens or 1])
        full = self.lengths(sequences) == self.used(sequences) * per_page
        return full & np.array([True, self.shape.low_tokens is not None])

    def _allocated(self, counts: Sequence[int]) -> Moved:
        base = self.list.start
        sums = self._scan(counts, base)
        return Moved(tuple(counts), sums, tuple(self.list.allocate(total(counts))))

    def _recycled(self, parts: Sequence[Sequence[int]], counts: Sequence[int] | None = None) -> Moved:
        base = self.list.tail % self.shape.pages
        sizes = [len(part) for part in parts] if counts is None else list(counts)
        sums = self._scan(sizes, base)
        ids = tuple(page for part in parts for page in part)
        self.list.recycle(ids)
        return Moved(tuple(sizes), sums, ids)

    def _scan(self, counts: Sequence[int], base: int) -> tuple[int, ...]:
        found = scan(counts, base)
        self.counters.levels += found.levels
        self.counters.adds += found.adds
        return found.inclusive

    def _done(self, op: int, moved: Moved, came: Moved, **inputs: Any) -> Moved:
        self._event = {
            "event": EVENTS[op],
            "index": self._event["index"] + 1,
            "op": op,
            "moved": moved,
            "came": came,
            **inputs,
        }
        return moved

    # The same by ports.

    def step(self, op: int, members: int, sequences: Any, prompts: Any, high: Any, low: Any) -> State:
        """One event: 0 prompt_allocate, 1 prompt_release, 2 step_allocate, 3 finish. Returns the State.

        The call names the first `members` lanes of `sequences`; prompts: their lengths; high, low: of all their heads.
        """
        values = self.accept(op, members, sequences, prompts, high, low)
        named, lengths = list(fields(values[2]))[: values[1]], fields(values[3])[: values[1]]
        heads = values[1] * self.shape.layers * self.shape.heads
        kept = [
            np.array(fields(value)[:heads], np.int64).reshape(values[1], self.shape.layers, self.shape.heads)
            for value in values[4:]
        ]
        if op == PROMPT:
            if len(set(named)) < len(named):
                raise Refused(f"{self.name}: sequences must differ, got {named}")
            self.prompt_allocate(dict(zip(named, lengths, strict=True)))
        elif op == RELEASE:
            self.prompt_release(named, *kept)
        elif op == STEP:
            self.step_allocate(named, *kept)
        else:
            self.finish(named)
        self._event |= {
            "op": values[0],
            "members": values[1],
            "sequences": fields(values[2]),
            "prompts": fields(values[3]),
            "high": fields(values[4]),
            "low": fields(values[5]),
        }
        return self.snapshot()

    def steps(self, op: Any, members: Any, sequences: Any, prompts: Any, high: Any, low: Any) -> Iterator[State]:
        """Yield the State after every event of one device; the arguments, (events,) beside lanes, broadcast."""
        arrays = admit_events(self.name, self.ports.inputs, (op, members, sequences, prompts, high, low))
        if arrays[0].ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of events, got shape {arrays[0].shape}")
        for event in zip(*(array.tolist() for array in arrays), strict=True):
            yield self.step(*event)

    def __repr__(self) -> str:
        return "PageManager(" + ", ".join(f"{name}={value!r}" for name, value in asdict(self.shape).items()) + ")"


def _regions(places: Sequence[tuple[int, int]], moved: Moved) -> Iterator[tuple[tuple[int, int], int, int]]:
    """(place, pages, number of the first of them) of every region with pages."""
    if not moved.counts:
        return
    at = 0
    for place, count in zip(places, moved.counts, strict=True):
        if count:
            yield place, count, at
        at += count


def run(op: Any, members: Any, sequences: Any, prompts: Any, high: Any, low: Any, **parameters: Any) -> Result:
    """Every event of one manager or of many.

    op: 0 prompt_allocate, 1 prompt_release, 2 step_allocate, 3 finish. members: sequences of the call. sequences:
    (..., slots) their names. prompts: (..., slots) lengths, for op 0. high, low: (..., slots * layers * heads), by
    sequence of the call, layer, head: tokens kept (op 1), or growth (op 2). All (..., events) beside the lanes; each
    device starts with all pages free. parameters: those of `Shape`.
    Returns the Result, arrays of the common shape. Raises OutOfPages and TableOverflow; refuses unknown sequences,
    prompts that do not fit, and more tokens than there are. Paper: [leankv §5.3].
    """
    model = PageManager(**parameters)
    declared = model.ports
    arrays = admit_events(model.name, declared.inputs, (op, members, sequences, prompts, high, low))
    shape = arrays[0].shape
    flat = prod(shape[:-1]), shape[-1]
    columns = [array.reshape(*flat, *array.shape[len(shape) :]) for array in arrays]
    states, last = list[State](), list[State]()
    for device in range(flat[0]):
        one = PageManager(**parameters)
        states += [one.step(*event) for event in zip(*(column[device].tolist() for column in columns), strict=True)]
        last.append(one.snapshot())
    totals: dict[str, Any] = {name: total([getattr(state, name) for state in last]) for name in TOTALS}
    totals["step_pages"] = max([state.step_pages for state in last], default=0)
    return Result(**collect(states, declared.outputs + declared.state, shape), **totals)


def legal(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` as calls that a manager admits."""
    return page_manager_cases.legal(config, inputs)


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see page_manager_cases.py."""
    return page_manager_cases.cases(config, ports(config).inputs, kind, seed)


FIG5 = {
    "pages": 32,
    "layers": 1,
    "heads": 2,
    "high_tokens": 2,
    "low_tokens": 4,
    "max_len": 12,
    "slots": 2,
    "table_extra": 1,
    "scrub": False,
}  #: sizes of [leankv Fig. 5]

UNIT = Unit(
    name="page_manager",
    paper="leankv §5.3, Fig. 5",
    meaning="pages for all heads of all requests, call by call",
    configs={
        "paper": Config(**FIG5, reserve_low=0, lazy_pages=True),
        "diffkv": Config(**FIG5, reserve_low=1, lazy_pages=False),
    },
    ports=ports,
    run=run,
    twin="refemu.units.page_manager_jit:run",
    unit_class=PageManager,
    timing="event",
    cases=cases,
    legal=legal,
    alternatives=(*choices("D-leankv-34", "lazy_pages", True, False), *choices("D-leankv-35", "reserve_low", 0, 1)),
)
