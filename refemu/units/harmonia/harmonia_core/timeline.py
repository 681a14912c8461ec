"""One timeline of the accelerator: when each part works on what the events of harmonia_core did, and what waits.

Paper: [harmonia §IV-A, Fig. 12, §IV-C, §IV-D, §V-A]. The parts work side by side, each on one event after the other.
Decisions: D-harmonia-49 (what overlaps), D-harmonia-50 (widths and rates). A Timeline goes through several products, so
that a block that is still aligned delays the first ones of the next product.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from refemu.units.harmonia.bfp_pe_array import COLUMNS, ROWS
from refemu.units.harmonia.harmonia_core.core import HarmoniaCore
from refemu.units.harmonia.harmonia_core.plan import LANES, Action, vector_width
from refemu.units.harmonia.harmonia_core.ports import State

PARTS = ("load", "array", "fp2half", "vector", "offset", "compare", "align")


@dataclass(frozen=True)
class Rates:
    """Rates that the paper states, and the width that it leaves open (D-harmonia-50).

    References
    ----------
    [harmonia §V-A]
    """

    bytes_per_second: int = 256 * 10**9  #: of the memory, HBM2 [harmonia §V-A]
    clock: int = 300 * 10**6  #: [harmonia §V-A]
    lanes: int = ROWS  #: values that the vector unit and the K-offset generator take in a clock

    def clocks(self, bits: Fraction) -> int:
        """Count the clocks in which the memory moves some bits.

        Parameters
        ----------
        bits : Fraction
            Bits.

        Returns
        -------
        int
            Clocks, the last one begun.
        """
        return -(-bits.numerator * self.clock // (bits.denominator * 8 * self.bytes_per_second))


PAPER = Rates()


class Event(NamedTuple):
    """One event of a product, and what the array did in it."""

    action: Action
    cycles: int = 0  #: of the array
    passes: int = 0


class Waits(NamedTuple):
    """Clocks in which a part had work and waited for another."""

    load: int = 0  #: the array, for operands
    buffer: int = 0  #: the memory, for a buffer that the array still reads
    bank: int = 0  #: columns, for a bank of the converter
    aligner: int = 0  #: a block whose maxima stand, for the aligner


class Timeline:
    """Clocks of every part of the accelerator, product after product.

    References
    ----------
    [harmonia §IV-A, Fig. 12, §IV-C]
    """

    def __init__(self, rates: Rates = PAPER) -> None:
        """Begin at clock 0.

        Parameters
        ----------
        rates : Rates
            Of the memory, the clock and the vector unit.
        """
        self.rates: Rates = rates
        self.free: dict[str, int] = dict.fromkeys(PARTS, 0)  #: clock from which a part takes the next event
        self.busy: dict[str, int] = {**self.free, "store": 0}  #: clocks in which it worked
        self.waits: Waits = Waits()
        self.banks: tuple[int, int] = (0, 0)  #: clocks at which the last two blocks left the converter
        self.tiles: tuple[int, int] = (0, 0)  #: clocks at which the array was done with the last two tiles
        self.reads: list[tuple[int, int]] = []  #: clocks from and to which the memory is read
        self.writes: list[tuple[int, int]] = []  #: clock from which something may be written, and clocks that it takes

    def __repr__(self) -> str:
        return f"Timeline(clock={self.clock}, waits={self.waits})"

    @property
    def clock(self) -> int:
        """Clocks until every part is done.

        Returns
        -------
        int
            From the first load on.
        """
        return max(*self.free.values(), self._written())

    def product(self, core: HarmoniaCore, events: Iterable[Event]) -> None:
        """Go through one product.

        Parameters
        ----------
        core : HarmoniaCore
            Its configuration.
        events : iterable of Event
            In order.
        """
        shape, self._new = (-(-core.rows // ROWS), core.columns), False
        self._bits = bits_of(core)
        self._there: np.ndarray = np.zeros(shape, np.int64)  #: when each column of 8 rows has left the last part
        self._first: np.ndarray = np.zeros(shape, np.int64)  #: when the first column of the same event has
        self._direct = not vector_width(core.shape) and not core.shape.shifted
        for event in events:
            work = getattr(self, f"_{event.action.event}", None)
            if work is not None:
                work(core, event)

    def _take(self, part: str, ready: int, clocks: int) -> tuple[int, int]:
        """The part works as soon as it is free: from this clock on, to that one."""
        start = max(self.free[part], ready)
        self.free[part] = start + clocks
        self.busy[part] += clocks
        return start, start + clocks

    def _wait(self, name: str, clocks: int) -> None:
        self.waits = self.waits._replace(**{name: getattr(self.waits, name) + max(clocks, 0)})

    def _load(self, core: HarmoniaCore, event: Event) -> None:
        """Into the buffer that the array does not read: that of the tile before the last one."""
        self._wait("buffer", self.tiles[0] - self.free["load"])
        bits = event.action.number * self._bits[0 if event.action.rows else 1]
        self.reads.append(self._take("load", self.tiles[0], self.rates.clocks(bits)))
        self._new = True

    def _compute(self, core: HarmoniaCore, event: Event) -> None:
        loaded = self.free["load"]
        self._wait("load", loaded - self.free["array"])
        start, end = self._take("array", loaded, event.cycles)
        self.tiles, self._new = (self.tiles[int(self._new)], end), False
        some = place(event.action)
        self._there[some], self._first[some] = end, start + event.cycles // event.passes - (COLUMNS - 1)

    def _fp2half(self, core: HarmoniaCore, event: Event) -> None:
        self._stream("fp2half", event, event.action.number)

    def _bias(self, core: HarmoniaCore, event: Event) -> None:
        self._stream("vector", event, self._lanes(event.action))

    def _stream(self, part: str, event: Event, clocks: int) -> None:
        """A part that takes columns as they come: it ends a clock behind the last one, or later."""
        some = place(event.action)
        start, end = self._take(part, int(self._first[some].min()), clocks)
        self.free[part] = max(end, int(self._there[some].max()) + 1)
        self._there[some], self._first[some] = self.free[part], start + 1

    def _vector(self, core: HarmoniaCore, event: Event) -> None:
        self._whole("vector", event)

    def _offset(self, core: HarmoniaCore, event: Event) -> None:
        self._whole("offset", event)

    def _whole(self, part: str, event: Event) -> None:
        """Heads, rows of scores or tokens, once they are in the temporary SRAM."""
        some = place(event.action)
        start, end = self._take(part, int(self._there[some].max()), self._lanes(event.action))
        self._there[some], self._first[some] = end, start + 1

    def _lanes(self, action: Action) -> int:
        return -(-action.rows * action.columns // self.rates.lanes)

    def _convert(self, core: HarmoniaCore, event: Event) -> None:
        """Into a bank as columns come, then through the aligner, which both banks share [harmonia §IV-C]."""
        some, clocks = place(event.action), columns(core, event.action)
        source = int(self._first[some].min() if self._direct else self._first[some].max())
        late = self.banks[0] - max(source, self.free["compare"])
        self._wait("bank", late)
        start, end = self._take("compare", max(source, self.banks[0]), clocks)
        end = max(end, int(self._there[some].max()) + 1)
        self.free["compare"] = end
        if self._direct and start > source:  # columns without a bank stop what they come from
            for part in ("array", "fp2half"):
                self.free[part] += start - source
        self._wait("aligner", self.free["align"] - end)
        done = self._take("align", end, clocks)[1]
        self.banks, self._there[some] = (self.banks[1], done), done

    def _store(self, core: HarmoniaCore, event: Event) -> None:
        clocks = self.rates.clocks(event.action.number * self._bits[2])
        self.busy["store"] += clocks
        self.writes.append((int(self._there[place(event.action)].max()), clocks))

    def _written(self) -> int:
        """Clock at which the last result is in the memory: results go between the reads, one after the other."""
        clock, at = 0, 0
        for ready, left in self.writes:
            clock = max(clock, ready)
            while at < len(self.reads) and self.reads[at][0] < clock + left:
                start, end = self.reads[at]
                if end > clock:
                    left, clock = left - max(start - clock, 0), end
                at += 1
            clock += left
        return clock


def place(action: Action) -> tuple[slice, slice]:
    """The rectangle of an event in bands of 8 rows."""
    bands = slice(action.row // ROWS, -(-(action.row + action.rows) // ROWS))
    return bands, slice(action.column, action.column + action.columns)


def columns(core: HarmoniaCore, action: Action) -> int:
    """Columns of a block of the converter: a V block has 16 in each loop."""
    return -(-action.rows // ROWS) * COLUMNS if core.kind == "v" else action.columns


def bits_of(core: HarmoniaCore) -> tuple[Fraction, Fraction, Fraction]:
    """Bits of an element of A, of B and of C in the memory, with its share of exponents and factors."""
    groups = {m: 1 + m + Fraction(5, LANES) for m in (4, 8, core.m)}
    b = {"int4": 4 + Fraction(16, 128), "bfp4": groups[4]}.get(core.b_type, groups[8])
    return groups[8], b, Fraction(16) if core.kind == "final" else groups[core.m]


def stepped(core: HarmoniaCore, states: Iterable[State]) -> Iterator[Event]:
    """The events of one product as its states tell them."""
    cycles = passes = 0
    for state in states:
        yield Event(core.action(state), state.cycles - cycles, state.passes - passes)
        cycles, passes = state.cycles, state.passes
