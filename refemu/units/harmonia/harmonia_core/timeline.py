"""Timeline of the accelerator: when each part works on the events of harmonia_core, and what waits.

The parts work in parallel, each on one event after the other. A Timeline covers several products, so that a block still
in the aligner delays the first blocks of the next product. [harmonia §IV-A, Fig. 12, §IV-C, §IV-D, §V-A]
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from refemu.arith.integers import total
from refemu.units.declaration import DeclaredState, decides
from refemu.units.harmonia.bfp_pe_array import COLUMNS, ROWS
from refemu.units.harmonia.harmonia_core.core import HarmoniaCore
from refemu.units.harmonia.harmonia_core.plan import LANES, Action, vector_width

PARTS = ("load", "array", "fp2half", "vector", "offset", "compare", "align")  #: Parts of a `Timeline`
#: when a pass of the array begins: as the last column of the one before leaves, a clock later as the array takes it, or
#: as soon as PEs are free (D-harmonia-58)
Passes: TypeAlias = Literal["adjacent", "drain", "overlap"]
PASSES: tuple[Passes, ...] = get_args(Passes)  #: The choices of `Passes`


@dataclass(frozen=True)
class Rates:
    """Rates that the paper states, and the width that it leaves open (D-harmonia-50). [harmonia §V-A]"""

    bytes_per_second: int = 256 * 10**9  #: rate of the memory, HBM2 [harmonia §V-A]
    clock: int = 300 * 10**6  #: [harmonia §V-A]
    lanes: int = ROWS  #: values that the vector unit and the K-offset generator take in a clock
    passes: Passes = "adjacent"  #: when a pass of the array begins (D-harmonia-58)

    def clocks(self, bits: Fraction) -> int:
        """Count the clocks in which the memory moves some bits."""
        return -(-bits.numerator * self.clock // (bits.denominator * 8 * self.bytes_per_second))


PAPER = Rates()


class Event(NamedTuple):
    """One event of a product, and the work of the array in it."""

    action: Action  #: step and rectangle
    cycles: int = 0  #: cycles of the array
    passes: int = 0  #: passes of the array
    slots: tuple[int, ...] = ()  #: clocks in which each pass enters; (): equal ones

    @property
    def entering(self) -> tuple[int, ...]:
        """Clocks in which each pass enters."""
        return self.slots or (self.cycles // self.passes - (COLUMNS - 1),) * self.passes


class Span(NamedTuple):
    """When a part works on an event."""

    part: str
    start: int  #: first clock
    end: int  #: clock after the last: its result is complete; for a store, written
    aligned: tuple[int, int] = (0, 0)  #: clocks from and to which the aligner puts out the block of a "compare"


class Waits(NamedTuple):
    """Clocks in which a part had work and waited for another: who waits, for what."""

    load: int = 0  #: the array, for operands
    buffer: int = 0  #: the memory, for a buffer that the array still reads
    bank: int = 0  #: columns, for a bank of the converter
    aligner: int = 0  #: a block whose maxima are final, for the aligner


class Timeline:
    """Clocks of every part of the accelerator, product after product. [harmonia §IV-A, Fig. 12, §IV-C]"""

    def __init__(self, rates: Rates = PAPER) -> None:
        """Begin at clock 0."""
        self.rates: Rates = rates
        self.free: dict[str, int] = dict.fromkeys(PARTS, 0)  #: clock at which a part can take the next event
        self.busy: dict[str, int] = {**self.free, "store": 0}  #: clocks in which each part worked
        self.done: int = 0  #: clock at which the last event so far is done
        self.waits: Waits = Waits()
        self.banks: tuple[int, int] = (0, 0)  #: clocks at which the last two blocks left the converter
        self.tiles: tuple[int, int] = (0, 0)  #: clocks at which the array was done with the last two tiles
        self.reads: list[tuple[int, int]] = []  #: clocks from and to which the memory is read
        self.writes: list[tuple[int, int]] = []  #: first clock of a write, and clocks that it takes
        self.left: int = 0  #: clock at which the last FP16 column has left

    def __repr__(self) -> str:
        return f"Timeline(clock={self.clock}, waits={self.waits})"

    @property
    def clock(self) -> int:
        """Clocks until every part is done."""
        return max(self.done, *self.written(), 0)

    def product(self, core: HarmoniaCore, events: Iterable[Event]) -> None:
        """Place one product on the timeline."""
        for _ in self.spans(core, events):
            pass

    def spans(self, core: HarmoniaCore, events: Iterable[Event]) -> Iterator[Span | None]:
        """Place one product on the timeline, event by event."""
        shape, self._new = (-(-core.rows // ROWS), core.columns), False
        self._released = 0, 0  # from when on the keys of the last offsets leave, and when all have
        self._bits, self._final = bits_of(core), core.kind == "final"
        self._there: np.ndarray = np.zeros(shape, np.int64)  #: when each column of 8 rows has left the last part
        self._first: np.ndarray = np.zeros(shape, np.int64)  #: when the first column of the same event has
        self._direct = not vector_width(core.shape) and not core.shape.shifted
        for event in events:
            work = getattr(self, f"_{event.action.event}", None)
            span: Span | None = None if work is None else work(core, event)
            if span is not None and span.part != "store":
                self.done = max(self.done, span.end, span.aligned[1])
            yield span

    def _take(self, part: str, ready: int, clocks: int) -> tuple[int, int]:
        """Run a part as soon as it is free: clocks from and to which it works."""
        start = max(self.free[part], ready)
        self.free[part] = start + clocks
        self.busy[part] += clocks
        return start, start + clocks

    def _wait(self, name: str, clocks: int) -> None:
        self.waits = self.waits._replace(**{name: getattr(self.waits, name) + max(clocks, 0)})

    def _load(self, core: HarmoniaCore, event: Event) -> Span:
        """Load into the buffer that the array does not read: that of the tile before the last one."""
        self._wait("buffer", self.tiles[0] - self.free["load"])
        bits = event.action.number * self._bits[0 if event.action.rows else 1]
        self.reads.append(self._take("load", self.tiles[0], self.rates.clocks(bits)))
        self._new = True
        return Span("load", *self.reads[-1])

    def _compute(self, core: HarmoniaCore, event: Event) -> Span:
        loaded = self.free["load"]
        self._wait("load", loaded - self.free["array"])
        clocks, left = self._pitch(event)
        start, _ = self._take("array", loaded, clocks)
        end = start + left
        self.tiles, self._new = (self.tiles[int(self._new)], end), False
        some = place(event.action)
        first = event.entering[0]
        if self.rates.passes == "adjacent":  # of the mean pass
            first = event.cycles // event.passes - (COLUMNS - 1)
        self._there[some], self._first[some] = end, start + first
        return Span("array", start, end)

    @decides("D-harmonia-58")
    def _pitch(self, event: Event) -> tuple[int, int]:
        """Clocks until the array takes the next pass, and until the last column of these has left."""
        slots = event.entering
        if self.rates.passes == "adjacent":
            return event.cycles, event.cycles
        if self.rates.passes == "drain":
            return event.cycles + len(slots), event.cycles + len(slots) - 1
        pitch = [max(each, COLUMNS) for each in slots]
        clocks = int(total(np.array(pitch)))
        return clocks, clocks - pitch[-1] + slots[-1] + COLUMNS - 1

    def _fp2half(self, core: HarmoniaCore, event: Event) -> Span:
        return self._stream("fp2half", event, event.action.number)

    def _bias(self, core: HarmoniaCore, event: Event) -> Span:
        return self._stream("vector", event, self._lanes(event.action))

    def _stream(self, part: str, event: Event, clocks: int) -> Span:
        """Run a part that takes columns as they come: it ends a clock after the last one, or later."""
        some = place(event.action)
        start, end = self._take(part, int(self._first[some].min()), clocks)
        self.free[part] = max(end, int(self._there[some].max()) + 1)
        self._there[some], self._first[some] = self.free[part], start + 1
        return Span(part, start, self.free[part])

    def _vector(self, core: HarmoniaCore, event: Event) -> Span:
        return self._whole("vector", event)

    def _offset(self, core: HarmoniaCore, event: Event) -> Span:
        span = self._whole("offset", event)
        self._released = span.start + 1, span.end
        return span

    def _whole(self, part: str, event: Event) -> Span:
        """Run a part on heads, rows of scores or tokens, once they are in the temporary SRAM."""
        some = place(event.action)
        start, end = self._take(part, int(self._there[some].max()), self._lanes(event.action))
        self._there[some], self._first[some] = end, start + 1
        return Span(part, start, end)

    def _lanes(self, action: Action) -> int:
        return -(-action.rows * action.columns // self.rates.lanes)

    def _convert(self, core: HarmoniaCore, event: Event) -> Span:
        """Fill a bank as columns come, then run the aligner, which both banks share [harmonia §IV-C]."""
        some, clocks = place(event.action), columns(core, event.action)
        if core.shape.shifted:  # keys of the window leave after the last of them has come
            for clock, known in zip(self._released, (self._first, self._there), strict=True):
                known[some] = np.maximum(known[some], clock)
        source = int(self._first[some].min() if self._direct else self._first[some].max())
        late = self.banks[0] - max(source, self.free["compare"])
        self._wait("bank", late)
        start, end = self._take("compare", max(source, self.banks[0]), clocks)
        end = max(end, int(self._there[some].max()) + 1)
        self.free["compare"] = end
        if self._direct and start > source:  # columns without a bank stall their source
            for part in ("array", "fp2half"):
                self.free[part] += start - source
        self._wait("aligner", self.free["align"] - end)
        aligned = self._take("align", end, clocks)
        self.banks, self._there[some] = (self.banks[1], aligned[1]), aligned[1]
        return Span("compare", start, end, aligned)

    def _store(self, core: HarmoniaCore, event: Event) -> Span:
        clocks = self.rates.clocks(event.action.number * self._bits[2])
        self.busy["store"] += clocks
        ready = int(self._there[place(event.action)].max())
        self.writes.append((ready, clocks))
        if self._final:  # FP16 leaves the temporary SRAM column by column
            self.left = max(self.left, ready) + event.action.columns
            self.done = max(self.done, self.left)
        return Span("store", ready, ready + clocks)

    def written(self) -> list[int]:
        """Clock at which each result is in the memory: writes go between the reads, one after the other."""
        clock, at, done = 0, 0, list[int]()
        for ready, left in self.writes:
            clock = max(clock, ready)
            while at < len(self.reads) and self.reads[at][0] < clock + left:
                start, end = self.reads[at]
                if end > clock:
                    left, clock = left - max(start - clock, 0), end
                at += 1
            clock += left
            done.append(clock)
        return done


def place(action: Action) -> tuple[slice, slice]:
    """The rectangle of an event in bands of 8 rows."""
    bands = slice(action.row // ROWS, -(-(action.row + action.rows) // ROWS))
    return bands, slice(action.column, action.column + action.columns)


def columns(core: HarmoniaCore, action: Action) -> int:
    """Columns of a block of the converter: a V block has 16 in each loop."""
    return -(-action.rows // ROWS) * COLUMNS if core.kind == "v" else action.columns


def bits_of(core: HarmoniaCore) -> tuple[Fraction, Fraction, Fraction]:
    """Bits of an element of A, of B and of C in the memory, including its share of exponents and factors."""
    groups = {m: 1 + m + Fraction(5, LANES) for m in (4, 8, core.m)}
    b = {"int4": 4 + Fraction(16, 128), "bfp4": groups[4]}.get(core.b_type, groups[8])
    return groups[8], b, Fraction(16) if core.kind == "final" else groups[core.m]


def stepped(core: HarmoniaCore, states: Iterable[DeclaredState]) -> Iterator[Event]:
    """Recover the events of one product from its states. [harmonia §IV-A, Fig. 12]"""
    cycles = passes = 0
    for state in states:
        yield Event(core.action(state), state.cycles - cycles, state.passes - passes)
        cycles, passes = state.cycles, state.passes
