"""The 8 x 16 output-stationary array of PEs, cycle by cycle: activations move across columns, weights are broadcast.

Paper: [harmonia §IV-A (2), (3)], [harmonia §IV-C, Fig. 14a] (a column's results are valid together, columns one after
the other). Composed of sub_pe and bfp_accumulator. Decisions: D-harmonia-10 (output stationary, groups ascending),
D-harmonia-22 (tiles do not overlap), D-harmonia-36 (one mode for a group of all columns).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from refemu.arith.checks import Refused, require_int
from refemu.units import bfp_pe_array_cases, sub_pe, unit
from refemu.units.bfp_accumulator import FLAGS, M8M8, M8W4, Accumulator, add, fuse
from refemu.units.bfp_pe import LANES, NIBBLES
from refemu.units.bfp_pe_array_parts import COLUMNS, ROWS, draw, require_tile, tile
from refemu.units.bfp_pe_parts import operand
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit, choices, collect, fields, lanes
from refemu.units.unit_cases import Seeds

__all__ = ["COLUMNS", "LANES", "ROWS", "UNIT", "BfpPeArray", "Pe", "Result", "State", "Weights", "Work", "run", "tile"]


class Work(NamedTuple):
    """What a column does in a cycle."""

    group: int  #: -1 = nothing
    slot: int  #: of the group: 0, in M8M8 then 1


class Weights(NamedTuple):
    """Latch of a column, which all its rows read."""

    b: tuple[int, ...]
    b_sign: tuple[int, ...]
    b_exp: int
    w_scale: int


class Pe(NamedTuple):
    """Registers of one PE; they change together at the end of a cycle."""

    a_sign: tuple[int, ...]
    a_mag: tuple[int, ...]
    a_exp: int
    high: int  #: sum of the high nibbles, between the slots of M8M8
    acc: int  #: word of float32
    flags: int


IDLE, ZEROS = Work(-1, 0), (0,) * LANES
BLANK, CLEARED = Weights(ZEROS, ZEROS, 0, 0), Pe(ZEROS, ZEROS, 0, 0, 0, 0)


@dataclass(frozen=True)
class State:
    """Ports and registers after one cycle, and what happened since reset. Element e of row r: r * groups * 32 + e."""

    event: str  #: "reset", "compute", or "read" when nothing but the last column is left
    index: int  #: cycle of the tile, -1 for the reset
    mode: Any  #: per group; an int where a port has one lane, here and below
    row_valid: tuple[int, ...]
    col_valid: tuple[int, ...]
    a_sign: tuple[int, ...]
    a_mag: tuple[int, ...]
    a_exp: tuple[int, ...]
    b: tuple[int, ...]
    b_sign: tuple[int, ...]
    b_exp: tuple[int, ...]
    w_scale: tuple[int, ...]
    acc: tuple[int, ...]  #: columns valid so far, row-major
    flags: tuple[int, ...]
    valid: tuple[int, ...]
    col: int  #: column that leaves in this cycle
    column: tuple[int, ...]  #: its accumulators, row 0 first
    column_valid: tuple[int, ...]  #: 0 also in cycles without one
    work: tuple[Work, ...]  #: per column
    weights: tuple[Weights, ...]  #: per column
    pes: tuple[Pe, ...]  #: row-major
    cycles: int  #: compute cycles
    macs: int
    fp32_adds: int
    act_hops: int  #: groups of activations passed from a PE to its neighbour
    weight_broadcasts: int  #: groups of weights put on a column
    busy_pe_cycles: int


COUNTERS = tuple(State.__dataclass_fields__)[-6:]


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the array, one tile per operation."""

    acc: np.ndarray  #: uint32, (..., 128), words of float32, row-major
    flags: np.ndarray  #: uint8, the same
    valid: np.ndarray  #: bool, the same: rows and columns of the tile
    col: np.ndarray  #: uint8, (...), the last column
    column: np.ndarray  #: uint32, (..., 8), its accumulators
    column_valid: np.ndarray  #: bool, the same
    cycles: int
    macs: int
    fp32_adds: int
    act_hops: int
    weight_broadcasts: int
    busy_pe_cycles: int


class BfpPeArray(Stepped):
    """The array of [harmonia Fig. 12, Fig. 14a]: an operation is a tile with its whole reduction, an event a clock."""

    name = "bfp_pe_array"

    def __init__(self, groups: int = 2, partial: str = "fp16", product: str = "fp32") -> None:
        """groups: of the reduction, 32 elements each. partial, product: as for Accumulator."""
        require_int(groups, 1, 1 << 16, self.name, "groups")
        self.groups, self.partial, self.product = groups, partial, product
        self.accumulator = Accumulator(partial, product)
        self.ports = ports({"groups": groups})
        zeros: dict[str, Any] = {port.name: lanes([0] * port.lanes) for port in self.ports.all}
        self.state = State(
            event="reset",
            index=-1,
            work=(IDLE,) * COLUMNS,
            weights=(BLANK,) * COLUMNS,
            pes=(CLEARED,) * (ROWS * COLUMNS),
            **zeros | dict.fromkeys(COUNTERS, 0),
        )

    def schedule(self, mode: Any) -> list[Work]:
        """What column 0 does, cycle by cycle; column c does it c cycles later."""
        return [Work(group, slot) for group, one in enumerate(fields(mode)) for slot in range(NIBBLES[one])]

    def valid_at(self, column: int, mode: Any) -> int:
        """Cycle T_c in which the results of a column are valid: its slots, and one cycle per column before it."""
        return len(self.schedule(mode)) + column

    @property
    def busy(self) -> bool:
        """Whether cycles of the tile are left: the last column is read in the last one."""
        return 0 <= self.state.index < self.valid_at(COLUMNS - 1, self.state.mode)

    def step(self, *inputs: Any) -> State:
        """With the input ports: the first cycle of a tile. Without: the next one.

        Refused: inputs while a tile is on its way, none while there is none, fields set that the mode does not have.
        """
        if bool(inputs) == self.busy:
            wanted = f"no inputs: cycle {self.state.index} came last" if self.busy else "the inputs of a tile"
            raise Refused(f"{self.name}: step takes {wanted}")
        if not inputs:
            return self._cycle(self.state, self.state.index + 1)
        given = dict(zip((port.name for port in self.ports.inputs), self.accept(*inputs), strict=True))
        require_tile(self.name, self.groups, given)
        zeros = (0,) * (ROWS * COLUMNS)
        begun = replace(
            self.state,
            **given,
            acc=zeros,
            flags=zeros,
            valid=zeros,
            work=(IDLE,) * COLUMNS,
            pes=(CLEARED,) * (ROWS * COLUMNS),
        )
        return self._cycle(begun, 0)

    def _cycle(self, before: State, t: int) -> State:
        """Registers move on by one column, then every PE with work makes one slot; a finished column is read."""
        plan = self.schedule(before.mode)
        work = (plan[t] if t < len(plan) else IDLE, *before.work[:-1])
        weights = tuple(self._latch(before, c, work[c]) for c in range(COLUMNS))
        pes = tuple(self._slot(before, r, c, work[c], weights[c]) for r in range(ROWS) for c in range(COLUMNS))
        rows = before.row_valid.count(1)
        begun = [c for c in range(COLUMNS) if before.col_valid[c] and work[c].group >= 0 and work[c].slot == 0]
        ended = [c for c in range(COLUMNS) if before.col_valid[c] and self._ends(before, work[c])]
        working = [c for c in range(COLUMNS) if before.col_valid[c] and work[c].group >= 0]
        compute = t < self.valid_at(COLUMNS - 1, before.mode)
        after = replace(
            before,
            event="compute" if compute else "read",
            index=t,
            work=work,
            weights=weights,
            pes=pes,
            cycles=before.cycles + compute,
            macs=before.macs + LANES * rows * len(begun),
            fp32_adds=before.fp32_adds + rows * len(ended),
            weight_broadcasts=before.weight_broadcasts + len(begun),
            act_hops=before.act_hops + rows * len([c for c in begun if c > 0]),
            busy_pe_cycles=before.busy_pe_cycles + rows * len(working),
        )
        self.state = self._read(after, before.pes, t - len(plan))
        return self.state

    def _ends(self, before: State, work: Work) -> bool:
        """Whether a slot is the last one of its group, so that the accumulator adds."""
        return work.group >= 0 and work.slot == NIBBLES[fields(before.mode)[work.group]] - 1

    def _latch(self, before: State, column: int, work: Work) -> Weights:
        """What the dispatcher broadcasts to a column, one cycle later per column."""
        if work.group < 0 or work.slot:
            return before.weights[column]
        place = column * self.groups + work.group
        some = slice(place * LANES, (place + 1) * LANES)
        return Weights(before.b[some], before.b_sign[some], before.b_exp[place], before.w_scale[place])

    def _slot(self, before: State, row: int, column: int, work: Work, weights: Weights) -> Pe:
        """One PE: activations from its neighbour, or from the dispatcher in column 0; then a slot of its group."""
        own = before.pes[row * COLUMNS + column]
        source = before.pes[row * COLUMNS + column - 1]
        pe = own._replace(a_sign=source.a_sign, a_mag=source.a_mag, a_exp=source.a_exp)
        if column == 0 and work.group >= 0:
            place = row * self.groups + work.group
            some = slice(place * LANES, (place + 1) * LANES)
            pe = own._replace(a_sign=before.a_sign[some], a_mag=before.a_mag[some], a_exp=before.a_exp[place])
        if work.group < 0 or not (before.row_valid[row] and before.col_valid[column]):
            return pe
        return self._work(pe, weights, fields(before.mode)[work.group], work.slot)

    def _work(self, pe: Pe, weights: Weights, mode: int, slot: int) -> Pe:
        signs, nibbles = operand(mode, weights.b, weights.b_sign, 0 if slot else 4)
        total = sub_pe.psum(pe.a_sign, pe.a_mag, signs, nibbles)
        if mode == M8M8 and slot == 0:
            return pe._replace(high=total)
        p = fuse(pe.high, total) if mode == M8M8 else total
        value, flags = self.accumulator.convert(p, mode, pe.a_exp, weights.b_exp)
        value = self.accumulator.scale(value, weights.w_scale) if mode == M8W4 else value
        acc, invalid = add(pe.acc, value)
        return pe._replace(acc=acc, flags=pe.flags | flags | invalid)

    def _read(self, after: State, pes: tuple[Pe, ...], column: int) -> State:
        """The column whose last sum was committed in the cycle before leaves the array; `pes` as they were then."""
        if not 0 <= column < COLUMNS:
            return replace(after, col=0, column=(0,) * ROWS, column_valid=(0,) * ROWS)
        seen = tuple(row & after.col_valid[column] for row in after.row_valid)
        acc, flags, valid = list(after.acc), list(after.flags), list(after.valid)
        for r in range(ROWS):
            pe, place = pes[r * COLUMNS + column], r * COLUMNS + column
            acc[place], flags[place], valid[place] = pe.acc, pe.flags, seen[r]
        leaving = tuple(pes[r * COLUMNS + column].acc for r in range(ROWS))
        return replace(
            after, col=column, column=leaving, column_valid=seen, acc=tuple(acc), flags=tuple(flags), valid=tuple(valid)
        )

    def steps(
        self,
        mode: Any,
        row_valid: Any,
        col_valid: Any,
        a_sign: Any,
        a_mag: Any,
        a_exp: Any,
        b: Any,
        b_sign: Any,
        b_exp: Any,
        w_scale: Any,
    ) -> Iterator[State]:
        """Yield the State after every cycle of every tile, in C order; arguments as for `run`."""
        values = (mode, row_valid, col_valid, a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale)
        arrays, shape = admitted(self, values)
        count = prod(shape)
        columns = [array.reshape(count, *array.shape[len(shape) :]).tolist() for array in arrays]
        for one in zip(*columns, strict=True):
            yield self.step(*(tuple(value) if isinstance(value, list) else value for value in one))
            while self.busy:
                yield self.step()

    def draw(self, state: State) -> str:
        """What every column does, and the accumulators, as text."""
        return draw(state)

    def __repr__(self) -> str:
        return f"BfpPeArray(groups={self.groups}, partial={self.partial!r}, product={self.product!r})"


def admitted(array: BfpPeArray, values: tuple[Any, ...]) -> tuple[list[np.ndarray], tuple[int, ...]]:
    """The arguments of `run` as arrays of the ports, in their order, and the shape of the tiles."""
    arrays = admit(array.name, array.ports.inputs, values)
    names = [port.name for port in array.ports.inputs]
    require_tile(array.name, array.groups, dict(zip(names, arrays, strict=True)))
    return arrays, arrays[1].shape[:-1]


def run(
    mode: Any,
    row_valid: Any,
    col_valid: Any,
    a_sign: Any,
    a_mag: Any,
    a_exp: Any,
    b: Any,
    b_sign: Any,
    b_exp: Any,
    w_scale: Any,
    *,
    groups: int = 2,
    partial: str = "fp16",
    product: str = "fp32",
) -> Result:
    """Tiles of any shape: up to 8 rows of a times up to 16 columns of b, with their whole reduction.

    mode: (..., groups), for one group (...). row_valid: (..., 8), col_valid: (..., 16): 1 where the tile has the row or
    column. a_sign, a_mag: (..., 8 * groups * 32); a_exp: (..., 8 * groups). b, b_sign: (..., 16 * groups * 32); b_exp,
    w_scale: (..., 16 * groups); row after row (of b: column after column), group after group, fields as those of
    bfp_pe. They broadcast beside their lanes. groups, partial, product: as for BfpPeArray. Returns the Result. Refuses
    what bfp_pe refuses. Paper: [harmonia §IV-A, §IV-C].
    """
    array = BfpPeArray(groups, partial, product)
    inputs, shape = admitted(array, (mode, row_valid, col_valid, a_sign, a_mag, a_exp, b, b_sign, b_exp, w_scale))
    states = [state for state in array.steps(*inputs) if state.event == "read"]
    outputs = collect(states, array.ports.outputs + array.ports.state, shape)
    return Result(**outputs, **{name: getattr(array.state, name) for name in COUNTERS})


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    groups = config["groups"]
    rows, columns, pes = ROWS * groups, COLUMNS * groups, ROWS * COLUMNS
    return Ports(
        inputs=(
            Port("mode", 2, groups, most=2, meaning="of each group: 0 M8W4, 1 M8M4, 2 M8M8"),
            Port("row_valid", 1, ROWS, meaning="rows that the tile has"),
            Port("col_valid", 1, COLUMNS, meaning="columns that the tile has"),
            Port("a_sign", 1, rows * LANES, meaning="signs of a, row after row"),
            Port("a_mag", 8, rows * LANES, meaning="8-bit mantissas of a"),
            Port("a_exp", 5, rows, meaning="shared exponents of a, one per row and group"),
            Port("b", 8, columns * LANES, meaning="INT4, 4-bit or 8-bit mantissas of b, column after column"),
            Port("b_sign", 1, columns * LANES, meaning="signs of b; 0 in M8W4"),
            Port("b_exp", 5, columns, meaning="shared exponents of b; 0 in M8W4"),
            Port("w_scale", 16, columns, encoding="f16", meaning="weight factors, finite; 0 but in M8W4"),
        ),
        outputs=(
            Port("acc", 32, pes, encoding="f32", meaning="the tile, row-major"),
            Port("flags", 3, pes, meaning="1 FP16 overflow, 2 FP16 underflow, 4 NaN"),
            Port("valid", 1, pes, meaning="rows and columns of the tile"),
        ),
        state=(
            Port("col", 4, meaning="column that leaves in this cycle"),
            Port("column", 32, ROWS, encoding="f32", meaning="its accumulators"),
            Port("column_valid", 1, ROWS, meaning="which of them belong to the tile"),
        ),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see bfp_pe_array_cases.py."""
    return bfp_pe_array_cases.cases(config, ports(config).inputs, kind, seed)


def legal(config: Config, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`inputs` with 0 where the mode has no field and with finite weight factors."""
    return bfp_pe_array_cases.legal(config["groups"], inputs)


UNIT = Unit(
    name="bfp_pe_array",
    paper="harmonia §IV-A, §IV-C, Fig. 12, Fig. 14a",
    meaning="8 x 16 output-stationary array of reconfigurable PEs",
    configs={
        "paper": Config(groups=2, partial="fp16", product="fp32"),
        "exact": Config(groups=2, partial="fp32", product="fp32"),
    },
    ports=ports,
    run=run,
    twin="refemu.units.bfp_pe_array_jit:run",
    unit_class=BfpPeArray,
    cases=cases,
    mark=bfp_pe_array_cases.mark,
    flags=FLAGS,
    legal=legal,
    alternatives=(
        *choices("D-harmonia-7", "partial", "fp16", "fp32"),
        *choices("D-harmonia-8", "product", "fp16", "fp32"),
    ),
)
