"""A buffer that the port of the memory fills and an engine empties, tile by tile: edge by edge, and for whole runs.

The port moves `rate` bytes an edge into the tiles of the buffer, in their order, and waits while none is free. It may
end one tile and begin the next in one edge. The engine begins a tile at the first edge at which the tile is complete
and the tile before has ended; then the tile's place in the buffer is free.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from refemu.arith.checks import Refused


@dataclass(frozen=True)
class Run:
    """Tiles of one size in sequence."""

    size: int  #: bytes of a tile
    cycles: int  #: edges in which the engine works on it
    count: int = 1  #: tiles

    @property
    def one(self) -> "Run":
        """One of the tiles."""
        return replace(self, count=1)


@dataclass(frozen=True)
class Fed:
    """Edges of an operation whose buffer the port fills."""

    cycles: int  #: edges until the engine ends
    stalls: int  #: edges in which it waits for the port


def stepped(runs: Sequence[Run], rate: Fraction, places: int = 2) -> Fed:
    """Step the port and the engine edge by edge.

    Parameters
    ----------
    runs : sequence of Run
        Tiles, in order.
    rate : Fraction
        Bytes that the port moves in an edge.
    places : int
        Tiles that the buffer holds, the one at work included; 1: nothing overlaps.

    Returns
    -------
    Fed
        Edges and stalls.

    Raises
    ------
    Refused
        The buffer holds no tile, or the port moves nothing.
    """
    tiles = list(_tiles(runs, rate, places))
    left = [Fraction(size) for size, _ in tiles]
    arriving = begun = ended = edges = stalls = remaining = 0
    while ended < len(tiles):
        if not remaining and begun < len(tiles) and not left[begun]:
            remaining, begun = tiles[begun][1], begun + 1
            if not remaining:
                ended += 1
                continue
        credit = rate
        while credit and arriving < min(len(tiles), ended + places):
            moved = min(credit, left[arriving])
            left[arriving], credit = left[arriving] - moved, credit - moved
            arriving += not left[arriving]
        stalls += not remaining
        remaining -= bool(remaining)
        ended = begun if not remaining else begun - 1
        edges += 1
    return Fed(edges, stalls)


def closed(runs: Sequence[Run], rate: Fraction, places: int = 2) -> Fed:
    """What `stepped` returns, from the times of tiles; equal tiles repeat as soon as their times do."""
    filling = Filling(rate, places)
    for run in runs:
        filling.add((run.one,), run.count)
    return filling.fed


class Filling:
    """Like `closed`, for a sequence of different tiles that repeats as a whole."""

    def __init__(self, rate: Fraction, places: int = 2) -> None:
        """Raises Refused for a buffer that holds no tile, and for a port that moves nothing."""
        list(_tiles((), rate, places))
        self._rate = rate
        self._arrived, self._ends, self._working = Fraction(0), [0] * places, 0

    def __repr__(self) -> str:
        return f"Filling({self.fed})"

    @property
    def fed(self) -> Fed:
        """Edges so far."""
        return Fed(self._ends[-1], self._ends[-1] - self._working)

    def add(self, runs: Sequence[Run], times: int = 1) -> None:
        """Add the tiles of some runs, the whole sequence `times` times."""
        seen: dict[tuple[Fraction, ...], tuple[int, int]] = {}
        done = 0
        while done < times:
            state = (self._arrived - self._ends[-1], *(Fraction(end - self._ends[-1]) for end in self._ends))
            if state in seen:
                before, end = seen[state]
                period, ahead = done - before, self._ends[-1] - end
                again = (times - done) // period
                self._ends = [each + again * ahead for each in self._ends]
                self._arrived, done = self._arrived + again * ahead, done + again * period
                self._working += again * period * sum(int(run.cycles * run.count) for run in runs)
                seen = {}
                if done == times:
                    break
            seen[state] = (done, self._ends[-1])
            for run in runs:
                if run.count == 1:
                    self._tile(run)
                else:
                    self.add((run.one,), run.count)
            done += 1

    def _tile(self, run: Run) -> None:
        self._arrived = max(self._arrived, Fraction(self._ends[0])) + Fraction(run.size) / self._rate
        start = max(self._ends[-1], -(-self._arrived.numerator // self._arrived.denominator))
        self._ends = [*self._ends[1:], start + run.cycles]
        self._working += run.cycles


def _tiles(runs: Iterable[Run], rate: Fraction, places: int) -> Iterable[tuple[int, int]]:
    if rate <= 0 or places < 1:
        raise Refused(f"fill: rate must be above 0 and places at least 1, got {rate} and {places}")
    for run in runs:
        yield from [(run.size, run.cycles)] * run.count
