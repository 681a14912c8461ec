"""Clocks of one product: events that end, parts at work, columns of C that leave.

Paper: [harmonia §IV-A, Fig. 12, §IV-C]. The clocks are those of a Timeline; harmonia_core_clocked runs through them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from refemu.units.harmonia.bfp_pe_array import COLUMNS, ROWS
from refemu.units.harmonia.harmonia_core.core import HarmoniaCore
from refemu.units.harmonia.harmonia_core.plan import LANES, Action, group_edges, group_shape
from refemu.units.harmonia.harmonia_core.timeline import PARTS, Event, Span, Timeline, columns


class Leaving(NamedTuple):
    """A column of at most 8 rows."""

    row: int  #: first row
    column: int
    rows: int
    places: tuple[int, ...]  #: places of its elements in C
    groups: tuple[int, ...]  #: numbers of shared exponents of the activations


@dataclass
class Schedule:
    """Clocks of one product, from 0 on."""

    length: int = 0  #: clocks until the product is closed
    ends: list[tuple[int, int]] = field(default_factory=list)  #: clock of the end, and number of the event; ascending
    spans: list[Span] = field(default_factory=list)  #: when each part works
    leaving: dict[int, Leaving] = field(default_factory=dict)  #: column that leaves, by clock

    def ending(self, clock: int) -> list[int]:
        """List the events whose work ends in a clock."""
        first, last = (bisect_right(self.ends, (end, len(self.ends))) for end in (clock, clock + 1))
        return [number for _, number in self.ends[first:last]]

    def working(self, clock: int) -> tuple[int, ...]:
        """Find the parts that work on an event."""
        at_work = {span.part for span in self.spans if span.start <= clock < span.end}
        return tuple(int(part in at_work) for part in PARTS)


def scheduled(core: HarmoniaCore, events: Iterable[Event], timeline: Timeline) -> Schedule:
    """Place the events of one product on a timeline. [harmonia §IV-A, Fig. 12, §IV-C]"""
    planned, listed = Schedule(), list(events)
    spans = list(timeline.spans(core, listed))
    written, free = iter(timeline.written()), 0
    for number, (event, span) in enumerate(zip(listed, spans, strict=True)):
        at = span or spans[number + 1]  # what is dispatched is computed next
        assert at is not None
        planned.ends.append((next(written) if at.part == "store" else at.end, number))
        if span is None:
            continue
        planned.spans.append(span)
        if span.part == "compare":
            first = span.aligned[0]
            planned.spans.append(Span("align", *span.aligned))
        elif span.part == "store" and core.kind == "final":
            first = max(span.start, free)
        else:
            continue
        for place, column in _columns(core, event.action):
            planned.leaving[first + place], free = column, first + place + 1
    planned.ends = sorted(planned.ends)
    planned.length = max(timeline.clock, free)
    return planned


def _columns(core: HarmoniaCore, action: Action) -> Iterator[tuple[int, Leaving]]:
    """Columns of a block and their clocks in the aligner: V in loops of 16 columns [harmonia §IV-C]."""
    for band, row in enumerate(range(action.row, action.row + action.rows, ROWS)):
        for column in range(action.columns):
            yield band * COLUMNS + column, _leaving(core, row, action.column + column, action.row + action.rows)


def _leaving(core: HarmoniaCore, row: int, column: int, bottom: int) -> Leaving:
    """A column from a row on, of a block that ends before `bottom`."""
    shape, rows = core.shape, range(row, min(row + ROWS, bottom))
    if shape.kind == "v":
        groups = [row // LANES * shape.columns + column] * len(rows)
    else:
        width = group_shape(shape.kind, shape.rows, shape.columns, shape.head_dim)[1]
        place = bisect_right(group_edges(shape), column) - 1
        groups = [each * width + place for each in rows]
    return Leaving(row, column, len(rows), tuple(each * shape.columns + column for each in rows), tuple(groups))


def longest(core: HarmoniaCore, timeline: Timeline) -> int:
    """Bound the clocks of a product: no events overlap, and all rows see different codes. [harmonia §IV-A, Fig. 12]"""
    slots, clocks = core.groups * (2 if core.b_type in ("mixed", "bfp8") else 1), 0
    passes = ROWS if core.b_type == "mixed" else 1
    for action in core.plan:
        alone = Event(action, action.number * passes * (slots + COLUMNS - 1), max(action.number * passes, 1))
        for span in Timeline(timeline.rates).spans(core, [alone]):
            clocks += 0 if span is None else max(span.end, span.aligned[1]) - min(span.start, 0)
        clocks += columns(core, action) * (core.kind == "final") + 1
    return clocks
