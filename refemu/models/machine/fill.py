"""A buffer that the port of the memory fills and an engine empties, tile by tile: edge by edge, and for whole runs.

The port moves `rate` bytes an edge into the tiles of the buffer, in their order, and waits while none is free. It may
end one tile and begin the next in one edge. The engine begins a tile at the first edge at which the tile is complete
and the tile before has ended; then the tile's place in the buffer is free.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from refemu.arith.checks import Refused


@dataclass(frozen=True)
class Run:
    """Tiles of one size in sequence."""

    size: int  #: bytes of a tile
    cycles: int  #: edges in which the engine works on it
    count: int = 1  #: tiles


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
    list(_tiles(runs[:0], rate, places))
    arrived, ends, working = Fraction(0), [0] * places, 0
    for run in runs:
        seen: dict[tuple[Fraction, ...], tuple[int, Fraction, int]] = {}
        done = 0
        while done < run.count:
            state = (arrived - ends[-1], *(Fraction(end - ends[-1]) for end in ends))
            if state in seen:
                before, _, end = seen[state]
                period, ahead = done - before, ends[-1] - end
                times = (run.count - done) // period
                ends = [each + times * ahead for each in ends]
                arrived, done = arrived + times * ahead, done + times * period
                seen = {}
                if done == run.count:
                    break
            seen[state] = (done, arrived, ends[-1])
            arrived = max(arrived, Fraction(ends[0])) + Fraction(run.size) / rate
            start = max(ends[-1], -(-arrived.numerator // arrived.denominator))
            ends = [*ends[1:], start + run.cycles]
            done += 1
        working += run.cycles * run.count
    return Fed(ends[-1], ends[-1] - working)


def _tiles(runs: Iterable[Run], rate: Fraction, places: int) -> Iterable[tuple[int, int]]:
    if rate <= 0 or places < 1:
        raise Refused(f"fill: rate must be above 0 and places at least 1, got {rate} and {places}")
    for run in runs:
        yield from [(run.size, run.cycles)] * run.count
