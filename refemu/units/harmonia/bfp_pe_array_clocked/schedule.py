"""Edges that carry products through the cycle-accurate array [harmonia §IV-A (2)].

Groups enter at column 0; weights of column c come c edges later.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from refemu.arith import integers
from refemu.units.declaration import decides
from refemu.units.harmonia.bfp_pe import LANES, NIBBLES, SLOTS
from refemu.units.harmonia.bfp_pe_array_clocked.registers import width

Edges = dict[str, np.ndarray]  #: inputs by port, the first axis is that of edges


class Slot(NamedTuple):
    """What enters column 0 together."""

    edge: int  #: edge of the tile
    group: int  #: first group
    groups: int
    mode: int


class Tile(NamedTuple):
    """A part of the output."""

    edge: int  #: edge in which its first group enters
    top: int
    left: int
    rows: int
    columns: int


@decides("D-harmonia-40")
def entries(mode: np.ndarray, activity: str) -> list[Slot]:
    """Groups, or passes of one mode, of a reduction, and the edges in which they enter."""
    plan: list[Slot] = []
    edge, modes = 0, mode.tolist()
    for group, each in enumerate(modes):
        before = plan[-1] if plan else None
        if before and activity == "parallel" and before.mode == each and NIBBLES[each] * (before.groups + 1) <= SLOTS:
            plan[-1] = before._replace(groups=before.groups + 1)
        else:
            plan.append(Slot(edge, group, 1, each))
        edge += NIBBLES[each]
    return plan


def slots_of(mode: np.ndarray) -> int:
    """Cycles of a reduction in one column: T_0."""
    return int(integers.total(np.take(NIBBLES, mode)))


@decides("D-harmonia-22", "D-harmonia-43")
def tiles(size: tuple[int, int], slots: int, rows: int, columns: int, overlap: bool) -> Iterator[Tile]:
    """Tiles of an output, row blocks outside, and when each begins."""
    period, edge = (max(slots, columns) if overlap else slots + columns), 0
    for top in range(0, size[0], rows):
        for left in range(0, size[1], columns):
            yield Tile(edge, top, left, min(rows, size[0] - top), min(columns, size[1] - left))
            edge += period


def edges(
    operands: Mapping[str, np.ndarray], rows: int, columns: int, activity: str = "by_slot", overlap: bool = False
) -> Edges:
    """Inputs of every edge of a product, from its first group to its last column. [harmonia §IV-A]

    operands: fields as `bfp_pe_array.operands` returns them. overlap: as of the array.
    """
    mode, size = operands["mode"], (len(operands["a_exp"]), len(operands["b_exp"]))
    slots, plan = slots_of(mode), entries(mode, activity)
    places = list(tiles(size, slots, rows, columns, overlap))
    inputs = idle(places[-1].edge + slots + columns, rows, columns, activity)
    for tile in places:
        for entry in plan:
            edge = tile.edge + entry.edge
            inputs["mode"][edge] = entry.mode
            inputs["clear"][edge] = entry.group == 0
            inputs["last"][edge] = entry.group + entry.groups == len(mode)
            if "groups" in inputs:
                inputs["groups"][edge] = entry.groups
            inputs["a_valid"][edge, : tile.rows] = 1
            inputs["col_valid"][edge, : tile.columns] = 1
            for name, each in (("a_sign", LANES), ("a_mag", LANES), ("a_exp", 1)):
                part = operands[name][tile.top : tile.top + tile.rows]
                _lay(inputs[name][edge], part, entry, each, rows)
            for c in range(tile.columns):
                inputs["b_valid"][edge + c, c] = 1
                for name, each in (("b", LANES), ("b_sign", LANES), ("b_exp", 1), ("w_scale", 1)):
                    lanes = inputs[name][edge + c].reshape(columns, -1)
                    _lay(lanes[c], operands[name][tile.left + c : tile.left + c + 1], entry, each, 1)
    return inputs


def _lay(lanes: np.ndarray, part: np.ndarray, entry: Slot, each: int, count: int) -> None:
    """`each` lanes of every group of an entry into those of `count` rows or columns."""
    some = part[:, entry.group * each : (entry.group + entry.groups) * each]
    lanes.reshape(count, -1)[: len(some), : some.shape[1]] = some


def idle(count: int, rows: int, columns: int, activity: str) -> Edges:
    """Edges in which nothing enters."""
    groups = width(activity)
    sizes = {
        "a_valid": rows,
        "col_valid": columns,
        "a_sign": rows * groups * LANES,
        "a_mag": rows * groups * LANES,
        "a_exp": rows * groups,
        "b_valid": columns,
        "b": columns * groups * LANES,
        "b_sign": columns * groups * LANES,
        "b_exp": columns * groups,
        "w_scale": columns * groups,
    }
    scalars = ("mode", "clear", "last", *(["groups"] if groups > 1 else []))
    inputs: Edges = {name: np.zeros(count, np.int64) for name in scalars}
    return inputs | {name: np.zeros((count, size), np.int64) for name, size in sizes.items()}
