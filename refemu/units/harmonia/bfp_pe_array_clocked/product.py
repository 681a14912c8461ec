"""Whole products on the clocked array, and the schedule of their edges. [harmonia §IV-A]"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from refemu.arith import fp16, integers
from refemu.arith.checks import Refused
from refemu.units import Port, stepping
from refemu.units.declaration import decides
from refemu.units.harmonia.bfp_accumulator import Precision
from refemu.units.harmonia.bfp_pe import LANES, NIBBLES, SLOTS, BfpPe
from refemu.units.harmonia.bfp_pe_array_clocked.bfp_pe_array_clocked import COLUMNS, ROWS, BfpPeArrayClocked
from refemu.units.harmonia.bfp_pe_array_clocked.registers import Activity, width

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


OF_GROUP = ("mode", "clear")  #: ports of a PE that are of a group as a whole
#: fields of operands, with lanes of a group
FIELDS = tuple((replace(port, lanes=None), port.count) for port in BfpPe().ports.inputs if port.name not in OF_GROUP)


@dataclass(frozen=True, eq=False)
class Product(stepping.Result):
    """C = A x B, and counters of the array."""

    acc: np.ndarray  #: uint32 (M, N): words of float32
    flags: np.ndarray  #: uint8 (M, N): 1 FP16 overflow, 2 FP16 underflow, 4 NaN
    cycles: int  #: edges
    compute_cycles: int  #: edges in which a column has a slot
    macs: int  #: products of elements; one of M8M8 takes two products of 4 by 8 bits
    macs4x8: int  #: products of 4 by 8 bits
    psums: int  #: sums of sub-PEs
    fusions: int  #: sums of nibbles joined
    fp_converts: int  #: conversions to floating point
    scale_mults: int  #: products with a weight factor
    fp32_adds: int  #: additions in FP32
    act_hops: int  #: groups of activations passed from a PE to its neighbour
    weight_broadcasts: int  #: weights put on a column, of a group or a pass
    busy_pe_cycles: int  #: slots of PEs
    lost: int  #: always 0: the schedule never feeds faster than the array takes
    missed: int  #: 0


def multiply(
    operands: Mapping[str, np.ndarray],
    *,
    rows: int = ROWS,
    columns: int = COLUMNS,
    partial: Precision = "fp16",
    product: Precision = "fp32",
    activity: Activity = "by_slot",
    overlap: bool = False,
    jit: bool = True,
) -> Product:
    """Multiply matrices on the array, tile by tile. [harmonia §IV-A]

    operands: fields as `bfp_pe_array.operands` lays them out; `mode` may differ from group to group. overlap: whether
    tiles overlap (D-harmonia-43). jit: whether to use the compiled form; stepping the unit gives the same result.
    Raises Refused: the fields do not match, or a value is out of range.
    """
    array = BfpPeArrayClocked(rows, columns, partial, product, activity, overlap)
    validated = _validated(array.name, operands)
    size = len(validated["a_exp"]), len(validated["b_exp"])
    slots = slots_of(validated["mode"])
    plan = list(tiles(size, slots, array.rows, array.columns, array.overlap))
    return (_compiled if jit else _stepped)(array, validated, plan)


def _validated(name: str, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Checked fields: int64."""
    known = {"mode", *(port.name for port, _ in FIELDS)}
    if set(operands) != known:
        raise Refused(f"{name}: operands must be {', '.join(sorted(known))}, got {', '.join(operands)}")
    checked = {"mode": Port("mode", 2, most=2).validate(operands["mode"], name).reshape(-1).astype(np.int64)}
    groups = len(checked["mode"])
    for port, each in FIELDS:
        values = port.validate(operands[port.name], name).astype(np.int64)
        side = "a_exp" if port.name.startswith("a_") else "b_exp"
        shape = (len(np.atleast_2d(operands[side])), groups * each)
        if values.shape != shape or not values.size:
            raise Refused(f"{name}: {port.name} must have shape {shape} for {groups} groups, got {values.shape}")
        checked[port.name] = values
    if ((checked["w_scale"] & 0x7C00) == 0x7C00).any():
        raise Refused(f"{name}: w_scale must be finite, got infinity or NaN")
    return checked


def _stepped(array: BfpPeArrayClocked, operands: dict[str, np.ndarray], plan: list[Tile]) -> Product:
    """Run every edge on one device; the tiles of a column leave in order."""
    size = len(operands["a_exp"]), len(operands["b_exp"])
    acc, flags = np.zeros(size, np.uint32), np.zeros(size, np.uint8)
    of_column = [iter([tile for tile in plan if tile.columns > c]) for c in range(array.columns)]
    state = array.state
    for state in array.steps(**edges(operands, array.rows, array.columns, array.activity, array.overlap)):
        if any(state.valid):
            tile = next(of_column[state.col])
            some = slice(tile.top, tile.top + tile.rows), tile.left + state.col
            acc[some], flags[some] = state.acc[: tile.rows], state.flags[: tile.rows]
    return Product(acc, flags, **{name: getattr(state, name) for name in array.counters})


def _compiled(array: BfpPeArrayClocked, operands: dict[str, np.ndarray], plan: list[Tile]) -> Product:
    from refemu.units.harmonia.bfp_pe_array_clocked import compiled as bfp_pe_array_clocked_compiled
    from refemu.units.harmonia.kernels import bfp_array as kernels

    reduction = entries(operands["mode"], array.activity)
    groups = len(operands["mode"])
    ids = np.full((len(reduction), array.inputs), groups)
    for place, entry in enumerate(reduction):
        ids[place, : entry.groups] = np.arange(entry.group, entry.group + entry.groups)
    signed = np.where(operands["a_sign"], -operands["a_mag"], operands["a_mag"]).astype(np.int16)
    factor = fp16.values(operands["w_scale"].astype(np.uint16)).astype(np.float32)
    bytes_of = {name: each.astype(np.uint8) for name, each in operands.items()}
    x, x_exp = (_blocks(each, array.rows, groups, ids) for each in (signed, bytes_of["a_exp"]))
    weights = bytes_of["b"], bytes_of["b_sign"], bytes_of["b_exp"], factor
    y = [_blocks(each, array.columns, groups, ids) for each in weights]
    size = len(operands["a_exp"]), len(operands["b_exp"])
    acc, flags, totals = np.zeros(size, np.float32), np.zeros(size, np.uint8), np.zeros(kernels.TOTALS, np.int64)
    order = np.array([(entry.edge, entry.group, entry.groups, entry.mode) for entry in reduction])
    chosen, shape = bfp_pe_array_clocked_compiled.options(array), np.array([array.rows, array.columns])
    with np.errstate(all="ignore"):
        kernels.multiply(chosen, shape, order, np.array(plan), x, x_exp, *y, acc, flags, totals)
    counts: dict[str, Any] = dict(zip(array.counters, totals.tolist(), strict=True))
    return Product(acc.view(np.uint32), flags, **counts)


def _blocks(values: np.ndarray, lines: int, groups: int, ids: np.ndarray) -> np.ndarray:
    """What enters together, for rows or columns that work together: (blocks of `lines` times entries, lines, lanes).

    values: (rows or columns, groups and lanes). ids: groups of each entry, those beyond the last are zeros.
    """
    blocks, lanes = -(-len(values) // lines), values.shape[1] // groups
    whole = np.zeros((blocks * lines, groups + 1, lanes), values.dtype)
    whole[: len(values), :groups] = values.reshape(len(values), groups, lanes)
    chosen = whole.reshape(blocks, lines, groups + 1, lanes)[:, :, ids]  # blocks, lines, entries, groups, lanes
    together = np.moveaxis(chosen, 2, 1).reshape(blocks * len(ids), lines, -1)
    return np.ascontiguousarray(together)
