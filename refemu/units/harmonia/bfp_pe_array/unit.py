"""The 8 x 16 output-stationary array of PEs, cycle by cycle: activations move across columns, weights are broadcast.

Paper: [harmonia §IV-A (2), (3)], [harmonia §IV-C, Fig. 14a] (a column's results are valid together, columns one after
the other). Composed of bfp_pe, one for each place; bfp_pe_array_clocked is the array with a clock. Decisions:
D-harmonia-10 (output stationary, groups ascending), D-harmonia-22 (tiles do not overlap), D-harmonia-36 (one mode for a
group of all columns), D-harmonia-44 (activations move as far as the last column of the tile).
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from refemu.arith.checks import require_int
from refemu.units.harmonia.bfp_accumulator import FLAGS, M8M8, M8W4, Accumulator, Precision
from refemu.units.harmonia.bfp_pe import LANES, NIBBLES, SLOTS, BfpPe
from refemu.units.harmonia.bfp_pe_array.tiles import COLUMNS, ROWS, draw, require_tile, tile
from refemu.units.harmonia.cases import bfp_pe_array as bfp_pe_array_cases
from refemu.units.ports import Lanes, Port, Ports, fields
from refemu.units.stepped import Result, Stepped
from refemu.units.unit import Config, RunFunction, Unit

__all__ = ["COLUMNS", "LANES", "ROWS", "UNIT", "BfpPeArray", "Pe", "State", "Weights", "Work", "run", "tile"]


class Work(NamedTuple):
    """The slot that a column works on in a cycle."""

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

    #: "reset": no tile yet; "compute": activations move on by one column, weights are broadcast to the rows, and every
    #: PE with a group works on one slot of it; "read": nothing is left but the results of the last column, which leave
    event: str
    index: int  #: number of the cycle in its tile, from 0; -1 at reset
    mode: Lanes  #: per group
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
    work: tuple[Work, ...]  #: group and slot that each column works on; group -1 = nothing
    weights: tuple[Weights, ...]  #: what each column broadcasts to its rows: codes, signs, exponent, weight factor
    #: registers of the PEs, row by row: signs, magnitudes and exponent of the activations, sum of the high nibbles,
    #: accumulator, flags
    pes: tuple[Pe, ...]
    cycles: int  #: cycles with event "compute"
    macs: int  #: products of two elements, 32 for each group in each PE of a valid row and column
    fp32_adds: int  #: additions to an accumulator in FP32, one for each group in each PE
    act_hops: int  #: groups of activations passed from a PE to its neighbour
    weight_broadcasts: int  #: groups of weights put on a column
    busy_pe_cycles: int  #: cycles in which a PE works, summed over the PEs


COUNTERS = ("cycles", "macs", "fp32_adds", "act_hops", "weight_broadcasts", "busy_pe_cycles")  #: Counters of a tile


class BfpPeArray(Stepped[State]):
    """Output-stationary array of 8 x 16 PEs: an operation is a tile with its whole reduction, an event a clock.

    References
    ----------
    [harmonia §IV-A, Fig. 12, Fig. 14a]
    """

    name = "bfp_pe_array"

    def __init__(self, groups: int = 2, partial: Precision = "fp16", product: Precision = "fp32") -> None:
        """Configure the array.

        Parameters
        ----------
        groups : int
            Groups of the reduction, 32 elements each, 1 to 65536.
        partial : {"fp16", "fp32"}
            Rounding of a group's sum, as for `Accumulator`.
        product : {"fp32", "fp16"}
            Rounding of the product with the weight factor, as for `Accumulator`.

        Raises
        ------
        Refused
            A parameter is out of range or a precision unknown.
        """
        self.groups: int = require_int(groups, 1, 1 << 16, self.name, "groups")
        self.accumulator: Accumulator = Accumulator(partial, product)
        self.partial: Precision = self.accumulator.partial
        self.product: Precision = self.accumulator.product
        self.ports: Ports = ports({"groups": self.groups})
        columns = {"work": (IDLE,) * COLUMNS, "weights": (BLANK,) * COLUMNS}
        self.state: State = self.reset(State, **columns, pes=(CLEARED,) * (ROWS * COLUMNS))
        self._in_step = self.state  # the State that the registers of the PEs belong to

    @cached_property
    def elements(self) -> list[BfpPe]:
        """The PEs, row-major; what an accumulator does is the same in all."""
        first = BfpPe(self.partial, self.product)
        first.accumulator = self.accumulator
        return [copy(first) for _ in range(ROWS * COLUMNS)]

    def schedule(self, mode: Lanes) -> list[Work]:
        """Work of column 0, cycle by cycle; column c does it c cycles later.

        Parameters
        ----------
        mode : int or sequence of int
            Mode of every group.

        Returns
        -------
        list of Work
            Group and slot in each cycle.
        """
        return [Work(group, slot) for group, each in enumerate(fields(mode)) for slot in range(NIBBLES[each])]

    def valid_at(self, column: int, mode: Lanes) -> int:
        """Cycle in which the results of a column are valid: its slots, and one cycle per column before it.

        Parameters
        ----------
        column : int
            0 to 15.
        mode : int or sequence of int
            Mode of every group.

        Returns
        -------
        int
            Cycle of the tile.
        """
        return len(self.schedule(mode)) + column

    @property
    def busy(self) -> bool:
        """Whether cycles of the tile are left: the last column is read in the last one."""
        return 0 <= self.state.index < self.valid_at(COLUMNS - 1, self.state.mode)

    def step(
        self,
        mode: Sequence[int] | int | None = None,
        row_valid: Sequence[int] | None = None,
        col_valid: Sequence[int] | None = None,
        a_sign: Sequence[int] | None = None,
        a_mag: Sequence[int] | None = None,
        a_exp: Sequence[int] | None = None,
        b: Sequence[int] | None = None,
        b_sign: Sequence[int] | None = None,
        b_exp: Sequence[int] | None = None,
        w_scale: Sequence[int] | None = None,
    ) -> State:
        """Execute the first cycle of a tile; without inputs, the next one.

        Fields that the mode does not have must be 0.
        """
        return self._stepped(
            mode=mode,
            row_valid=row_valid,
            col_valid=col_valid,
            a_sign=a_sign,
            a_mag=a_mag,
            a_exp=a_exp,
            b=b,
            b_sign=b_sign,
            b_exp=b_exp,
            w_scale=w_scale,
        )

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse fields set that the mode does not have."""
        require_tile(self.name, self.groups, self._named(inputs))

    def _named(self, inputs: Sequence[Any]) -> dict[str, Any]:
        return dict(zip((port.name for port in self.ports.inputs), inputs, strict=True))

    def _open(self, *inputs: Any) -> State:
        zeros = (0,) * (ROWS * COLUMNS)
        registers = {"acc": zeros, "flags": zeros, "valid": zeros}
        columns = {"work": (IDLE,) * COLUMNS, "pes": (CLEARED,) * (ROWS * COLUMNS)}
        return self._cycle(self.latched(*inputs, **registers, **columns), 0)

    def _continue(self) -> State:
        return self._cycle(self.state, self.state.index + 1)

    def _cycle(self, before: State, t: int) -> State:
        """Registers move on by one column, then every PE with work makes one slot; a finished column is read."""
        if self.state is not self._in_step or t == 0:
            self._enter(before)
        plan = self.schedule(before.mode)
        work = (plan[t] if t < len(plan) else IDLE, *before.work[:-1])
        weights = tuple(self._latch(before, c, work[c]) for c in range(COLUMNS))
        pes = tuple(self._slot(before, r, c, work[c], weights[c]) for r in range(ROWS) for c in range(COLUMNS))
        rows, valid = before.row_valid.count(1), before.col_valid
        last = max((c for c in range(COLUMNS) if valid[c]), default=0)
        arrived = [c for c in range(last + 1) if work[c].group >= 0 and work[c].slot == 0]
        begun = [c for c in arrived if valid[c]]
        ended = [c for c in range(COLUMNS) if valid[c] and self._ends(before, work[c])]
        working = [c for c in range(COLUMNS) if valid[c] and work[c].group >= 0]
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
            act_hops=before.act_hops + rows * len([c for c in arrived if c > 0]),
            busy_pe_cycles=before.busy_pe_cycles + rows * len(working),
        )
        self.state = self._in_step = self._read(after, before.pes, t - len(plan))
        return self.state

    def _enter(self, state: State) -> None:
        """Give the PEs the registers of a State; one is between two slots where its column has work left."""
        modes = fields(state.mode)
        for place, (pe, registers) in enumerate(zip(self.elements, state.pes, strict=True)):
            work, weights = state.work[place % COLUMNS], state.weights[place % COLUMNS]
            file = registers.a_sign, registers.a_mag, registers.a_exp
            between = work.group >= 0 and not self._ends(state, work)
            mode = modes[work.group] if between else M8W4
            half = (int(work.group == 0), *weights) if between else None
            latched = (registers.high, *(0,) * (SLOTS - 1))
            pe.resume((file, file), latched, registers.acc, registers.flags, mode, 0, half)

    def _ends(self, before: State, work: Work) -> bool:
        """Whether a slot is the last one of its group, so that the accumulator adds."""
        return work.group >= 0 and work.slot == NIBBLES[fields(before.mode)[work.group]] - 1

    def _latch(self, before: State, column: int, work: Work) -> Weights:
        """The weights that the dispatcher broadcasts to a column, one cycle later per column."""
        if work.group < 0 or work.slot:
            return before.weights[column]
        place = column * self.groups + work.group
        some = slice(place * LANES, (place + 1) * LANES)
        return Weights(before.b[some], before.b_sign[some], before.b_exp[place], before.w_scale[place])

    def _slot(self, before: State, row: int, column: int, work: Work, weights: Weights) -> Pe:
        """One PE: activations from its neighbour, or from the dispatcher in column 0; then a slot of its group."""
        pe, registers = self.elements[row * COLUMNS + column], before.pes[row * COLUMNS + column]
        source = before.pes[row * COLUMNS + column - 1]
        file = source.a_sign, source.a_mag, source.a_exp
        if column == 0:
            file = registers.a_sign, registers.a_mag, registers.a_exp
        if column == 0 and work.group >= 0:
            place = row * self.groups + work.group
            some = slice(place * LANES, (place + 1) * LANES)
            file = before.a_sign[some], before.a_mag[some], before.a_exp[place]
        pe.load(*file)
        if work.group < 0 or not (before.row_valid[row] and before.col_valid[column]):
            return registers._replace(a_sign=file[0], a_mag=file[1], a_exp=file[2])
        mode = fields(before.mode)[work.group]
        if work.slot == 0:
            pe.begin(mode, int(work.group == 0), *weights)
        state = pe.slot()
        high = state.psum if mode == M8M8 and work.slot == 0 else registers.high
        return Pe(*file, high, state.acc, state.flags)

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

    def draw(self, state: State) -> str:
        """Draw the work of every column, and the accumulators, as text.

        Parameters
        ----------
        state : State
            Registers to draw.

        Returns
        -------
        str
            Several lines.
        """
        return draw(state)


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


UNIT: Unit[State, Result] = Unit(
    name="bfp_pe_array",
    paper="harmonia §IV-A, §IV-C, Fig. 12, Fig. 14a",
    meaning="8 x 16 output-stationary array of reconfigurable PEs",
    configs={
        "paper": Config(groups=2, partial="fp16", product="fp32"),
        "exact": Config(groups=2, partial="fp32", product="fp32"),
    },
    ports=ports,
    unit_class=BfpPeArray,
    cases=bfp_pe_array_cases.cases,
    counters=COUNTERS,
    mark=bfp_pe_array_cases.mark,
    flags=FLAGS,
    legal=bfp_pe_array_cases.legal,
)
run: RunFunction[Result] = UNIT.run
