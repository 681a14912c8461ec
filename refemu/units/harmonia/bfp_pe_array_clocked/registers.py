"""Ports and control of the columns of the cycle-accurate array. [harmonia §IV-A, §IV-B, Fig. 13]"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from refemu.units import DeclaredState, Lanes, Port, Ports, decides
from refemu.units.harmonia.bfp_pe import LANES, SLOTS

Activity = Literal["by_slot", "parallel"]  #: whether sub-PEs of a pass work one per slot, or together (D-harmonia-40)


class Entry(NamedTuple):
    """What moves across the columns with the activations."""

    mode: int
    clear: int  #: 1 if the first group starts an output
    last: int  #: 1 if the last group ends an output
    rows: int  #: a bit for each row of the tile
    columns: int  #: a bit for each column of the tile
    groups: int  #: 1, or the groups of a pass


class Weights(NamedTuple):
    """Codes that a column broadcasts to its rows, for each group of an entry."""

    b: tuple[int, ...]
    b_sign: tuple[int, ...]
    b_exp: tuple[int, ...]
    w_scale: tuple[int, ...]


class Column(NamedTuple):
    """Control of a column; the rows of activations are in its PEs."""

    arrived: int  #: 1 if `next` was filled in this edge; it moves to the next column in the following one
    waiting: int  #: 1 if `next` has not begun
    next: Entry
    b_waiting: int  #: 1 if `next_b` has not begun
    next_b: Weights
    left: int  #: slots that `current` has left
    current: Entry
    current_b: Weights


def columns_of(state: DeclaredState, columns: int) -> list[Column]:
    """Control of every column, from the registers of a State."""

    def lanes(name: str, column: int) -> Lanes:
        values: Lanes = getattr(state, name)
        return of_place(values, column, len(values) // columns)

    def part(name: str, c: int) -> Any:
        if name in ("next", "current"):
            return Entry(*(lanes(f"{name}_{field}", c)[0] for field in Entry._fields))
        if name in ("next_b", "current_b"):
            return Weights(*(lanes(f"{name[:-2]}_{field}", c) for field in Weights._fields))
        return lanes(name, c)[0]

    return [Column(*(part(name, c) for name in Column._fields)) for c in range(columns)]


def column_registers(columns: Sequence[Column]) -> dict[str, Lanes]:
    """The control registers as fields of a State."""
    names = ("arrived", "waiting", "b_waiting", "left")
    registers = {name: tuple([getattr(column, name) for column in columns]) for name in names}
    for which in ("next", "current"):
        entries, weights = [getattr(c, which) for c in columns], [getattr(c, f"{which}_b") for c in columns]
        for name, values in zip(Entry._fields, zip(*entries, strict=True), strict=True):
            registers[f"{which}_{name}"] = tuple(values)
        for name, files in zip(Weights._fields, zip(*weights, strict=True), strict=True):
            registers[f"{which}_{name}"] = tuple([value for file in files for value in file])
    return registers


def of_place(value: Lanes, place: int, size: int) -> tuple[int, ...]:
    """The `size` lanes of a PE."""
    return value[place * size : (place + 1) * size]


@decides("D-harmonia-40")
def width(activity: str) -> int:
    """Number of groups that enter together: 1, or those of a pass."""
    return SLOTS if activity == "parallel" else 1


def ports(rows: int, columns: int, groups: int, hold: bool) -> Ports:
    """Ports of an array. groups: number of groups that enter together; hold: whether it can be stopped."""
    stops = [Port("hold", 1, meaning="1 stops the array for this edge; operands at the ports do not enter")]
    more = [Port("groups", 3, least=0, most=SLOTS, meaning="groups of the pass, 1 to 4, in M8M8 1 or 2")]
    return Ports(
        inputs=(
            Port("mode", 2, most=2, meaning="mode of the group that enters: 0 M8W4, 1 M8M4, 2 M8M8"),
            Port("clear", 1, meaning="the group starts an output: accumulators +0, flags 0"),
            Port("last", 1, meaning="the group ends an output: sums leave, column after column"),
            *(more if groups > 1 else []),
            Port("a_valid", 1, rows, meaning="rows that have a group; none: nothing enters"),
            Port("col_valid", 1, columns, meaning="columns that the tile has"),
            Port("a_sign", 1, rows * groups * LANES, meaning="signs of the activations, row after row"),
            Port("a_mag", 8, rows * groups * LANES, meaning="8-bit mantissas of the activations"),
            Port("a_exp", 5, rows * groups, meaning="shared exponents of the activations"),
            Port("b_valid", 1, columns, meaning="columns that get a group of weights"),
            Port("b", 8, columns * groups * LANES, meaning="INT4, 4-bit or 8-bit mantissas, column after column"),
            Port("b_sign", 1, columns * groups * LANES, meaning="signs of the weights; not read in M8W4"),
            Port("b_exp", 5, columns * groups, meaning="shared exponents of the weights; not read in M8W4"),
            Port("w_scale", 16, columns * groups, encoding="f16", meaning="weight factors, finite; read in M8W4"),
            *(stops if hold else []),
        ),
        outputs=(
            Port("acc", 32, rows, encoding="f32", meaning="accumulators of the column that leaves, else +0"),
            Port("flags", 3, rows, meaning="1 FP16 overflow, 2 FP16 underflow, 4 NaN"),
            Port("valid", 1, rows, meaning="rows of the column that leaves"),
            Port("col", max(1, (columns - 1).bit_length()), meaning="number of the column that leaves"),
            Port("busy", 1, meaning="a column holds a group"),
            Port("arrived", 1, columns, meaning="columns into which activations moved in this edge"),
            Port("sub_pes", SLOTS, columns, meaning="sub-PEs of each column that multiply in this edge, one bit each"),
        ),
        state=(*_of_columns(rows, columns, groups), *_of_pes(rows * columns, groups)),
    )


def _of_columns(rows: int, columns: int, groups: int) -> list[Port]:
    """Registers of the columns."""
    listed = [
        Port("waiting", 1, columns, meaning="the next group has not begun"),
        Port("b_waiting", 1, columns, meaning="the next weights have not begun"),
        Port("left", 2 if groups > 1 else 1, columns, meaning="remaining slots of the current group"),
    ]
    for which in ("next", "current"):
        listed += [
            Port(f"{which}_mode", 2, columns, most=2, meaning=f"mode of the {which} group"),
            Port(f"{which}_clear", 1, columns, meaning=f"the {which} group starts an output"),
            Port(f"{which}_last", 1, columns, meaning=f"the {which} group ends an output"),
            Port(f"{which}_rows", rows, columns, meaning=f"rows of the {which} group, one bit each"),
            Port(f"{which}_columns", columns, columns, meaning="columns of its tile, one bit each"),
        ]
        if groups > 1:
            listed.append(Port(f"{which}_groups", 3, columns, meaning="groups of the pass"))
        listed += [
            Port(f"{which}_b", 8, columns * groups * LANES, meaning=f"the {which} weights"),
            Port(f"{which}_b_sign", 1, columns * groups * LANES, meaning=f"signs of the {which} weights"),
            Port(f"{which}_b_exp", 5, columns * groups, meaning=f"exponents of the {which} weights"),
            Port(f"{which}_w_scale", 16, columns * groups, encoding="f16", meaning=f"factors of the {which} weights"),
        ]
    return listed


def _of_pes(pes: int, groups: int) -> list[Port]:
    """Registers of the PEs."""
    listed = []
    for which in ("next", "current"):
        listed += [
            Port(f"{which}_sign", 1, pes * groups * LANES, meaning=f"signs of the {which} register file of every PE"),
            Port(f"{which}_mag", 8, pes * groups * LANES, meaning=f"mantissas of the {which} register file"),
            Port(f"{which}_exp", 5, pes * groups, meaning=f"exponents of the {which} register file"),
        ]
    return [
        *listed,
        Port("latched", 18, pes * SLOTS, signed=True, meaning="sums of the four sub-PEs of every PE"),
        Port("pe_mode", 2, pes, most=2, meaning="mode of the last group of every PE"),
        Port("slot", 2, pes, meaning="last slot of the pass"),
        Port("sums", 32, pes, encoding="f32", meaning="accumulator of every PE"),
        Port("sum_flags", 3, pes, meaning="flags of the accumulator of every PE"),
    ]
