"""The feed of a lane: slabs while it is ready, a tile's operands when it is full, entries, outliers.

Paper: [kllm §IV-A, Fig. 6]. Lanes of the chip and golden cases use the same feed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from refemu.units.declaration import DeclaredState
from refemu.units.kllm.pe_lane.macs import Macs
from refemu.units.kllm.pe_lane.registers import SPARSE

Edges = dict[str, np.ndarray]  #: inputs by port, the first axis is that of edges


class Slab(NamedTuple):
    """Positions that the Concat units take at once, with padding that does not count."""

    a: np.ndarray  #: (positions,) indices of A, or integers
    b: np.ndarray  #: (concat,) indices of B
    valid: np.ndarray  #: (concat,) 0 or 1
    turns: int  #: counting edges of the slab
    last: int  #: 1 for the last slab of a column
    tile_end: int  #: 1 if the column is the last of the tile


class Tile(NamedTuple):
    """Operands of the columns that the MACs reduce in parallel; fp16 words."""

    a_scale: int  #: scale of A's row
    b_scale: np.ndarray  #: (macs,)
    sparse: np.ndarray  #: (outliers, macs) 0 or 1: the column has a product in this edge
    x: np.ndarray  #: (outliers, macs)
    w: np.ndarray  #: (outliers, macs)
    x_coded: np.ndarray  #: (outliers, macs): 1 if x is a centroid
    w_coded: np.ndarray  #: (outliers, macs): 1 if w is a centroid
    opens: int = 1  #: 1 if sums start from 0
    closes: int = 1  #: 1 if outputs follow
    shifts: int = 0  #: 1 if a shift is subtracted
    shift: int = 0  #: mean over deviation
    row_sum: np.ndarray | None = None  #: (macs,)
    biases: int = 0  #: 1 if a bias is added
    bias: np.ndarray | None = None  #: (macs,)


class Pick(NamedTuple):
    """Numbers of the inputs of one edge; -1 for none."""

    slab: int  #: slab that is loaded
    tile: int  #: tile that waits
    entry: int  #: entry of the codebook
    outlier: int  #: outlier of the tile under reduction, `work`
    work: int  #: tile under reduction


def slabs(lane: Macs, a: np.ndarray, b: np.ndarray, valid: np.ndarray, closing: bool = True) -> Iterator[Slab]:
    """Yield the slabs of one tile in the order of the lane. [kllm §IV-A]

    a: row of A (K,). b, valid: columns of B (n, K), at most as many as MACs, and which positions count. closing:
    whether the last column ends the tile.
    """
    together = lane.counters if lane.lane_mapping == "counter" else 1
    group = lane.inputs * (1 if together > 1 or lane.lane_mapping == "counter" else lane.counters)
    for first in range(0, len(b), together):
        for low in range(0, max(a.size, 1), lane.positions):
            part, columns = slice(low, low + lane.positions), slice(first, first + together)
            width = a[part].size
            row, indices, used = np.zeros(lane.positions, np.int64), *np.zeros((2, together, lane.positions), np.int64)
            row[:width], indices[: len(b[columns]), :width] = a[part], b[columns, part]
            used[: len(b[columns]), :width] = valid[columns, part]
            last = low + lane.positions >= a.size
            end = last and closing and first + together >= len(b)
            yield Slab(row, indices.reshape(-1), used.reshape(-1), max(1, -(-width // group)), int(last), int(end))


class Feeder:
    """Inputs of a lane, edge by edge, from its registers."""

    def __init__(self, lane: Macs, stream: Sequence[Slab], tiles: Sequence[Tile], table: np.ndarray) -> None:
        """Take a product. lane: between products. table: words of the codebook, (entries,)."""
        self._idle: dict[str, Any] = {port.name: np.zeros(port.count, np.int64) for port in lane.ports.inputs}
        self._wide = {port.name for port in lane.ports.inputs if port.lanes}
        self._stream, self._tiles, self._table = stream, tiles, table
        self.first: int = lane.state.tiles  #: tiles that the lane began before
        self.taken: int = 0  #: slabs

    def __repr__(self) -> str:
        return f"<Feeder of {len(self._stream)} slabs, {len(self._tiles)} tiles>"

    def done(self, state: DeclaredState) -> bool:
        """Whether the MACs have finished the last tile."""
        return state.tiles - self.first == len(self._tiles) and state.phase == 0

    def pick(self, state: DeclaredState, there: bool = True) -> Pick:
        """Numbers of the inputs of the next edge; there: whether the next slab is in the Weight Buffer."""
        begun = state.tiles - self.first
        slab = self.taken if there and state.ready and self.taken < len(self._stream) else -1
        self.taken += slab >= 0
        tile = begun if begun < len(self._tiles) else -1
        outlier = len(self._tiles[begun - 1].sparse) - state.left if state.phase == SPARSE else -1
        return Pick(slab, tile, state.address, outlier, begun - 1)

    def inputs(self, pick: Pick, go: int = 1) -> dict[str, Any]:
        """Values of the ports; go: whether the MACs may begin the tile that waits."""
        words = {**self._idle, "turns": 1, "entry": self._table[pick.entry], "go": go}
        if pick.slab >= 0:
            words |= {"load": 1, **self._stream[pick.slab]._asdict()}
        if pick.tile >= 0:
            tile = self._tiles[pick.tile]._asdict()
            words |= {name: value for name, value in tile.items() if name in words and value is not None}
            words["outliers"] = len(tile["sparse"])
        for name in ("sparse", "x", "w", "x_coded", "w_coded"):
            row = None if pick.outlier < 0 else getattr(self._tiles[pick.work], name)[pick.outlier]
            words[name] = self._idle[name] if row is None else row
        return {name: value if name in self._wide else int(np.ravel(value)[0]) for name, value in words.items()}


def picks(lane: Macs, stream: Sequence[Slab], tiles: Sequence[Tile], waits: Sequence[int] = ()) -> list[Pick]:
    """Inputs of every edge of a product by number, which depend on sizes alone."""
    feeder = Feeder(lane, stream, tiles, np.zeros(lane.entries, np.int64))
    chosen = []
    while not feeder.done(lane.state):
        chosen.append(feeder.pick(lane.state))
        lane.step(**feeder.inputs(chosen[-1], int(len(chosen) - 1 not in waits)))
    return chosen


def edges(
    lane: Macs,
    chosen: Sequence[Pick],
    stream: Sequence[Slab],
    tiles: Sequence[Tile],
    table: np.ndarray,
    waits: Sequence[int] = (),
) -> Edges:
    """Inputs of all edges."""
    feeder = Feeder(lane, stream, tiles, table)
    rows = [feeder.inputs(pick, int(edge not in waits)) for edge, pick in enumerate(chosen)]
    return {
        port.name: np.array([row[port.name] for row in rows], np.int64).reshape(len(rows), *port.shape)
        for port in lane.ports.inputs
    }
