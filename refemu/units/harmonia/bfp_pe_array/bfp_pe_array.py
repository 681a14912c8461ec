"""The 8 x 16 output-stationary array of PEs, cycle by cycle: activations move across columns, weights are broadcast.

Paper: [harmonia §IV-A (2), (3)], [harmonia §IV-C, Fig. 14a] (a column's results are valid together, columns one after
the other). Composed of bfp_pe, one for each place; bfp_pe_array_clocked is the cycle-accurate array. Decisions:
D-harmonia-10 (output stationary, groups ascending), D-harmonia-22 (tiles do not overlap), D-harmonia-36 (one mode for a
group of all columns), D-harmonia-44 (activations move as far as the last column of the tile).
"""

from collections.abc import Sequence
from copy import copy
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from refemu.units import AnyUnit, Changes, Combinational, Config, DeclaredState, Lanes, Port, Ports, Unit, constant
from refemu.units.harmonia.bfp_accumulator import M8M8, M8W4, Accumulator, Precision
from refemu.units.harmonia.bfp_accumulator.bfp_accumulator import FLAGS
from refemu.units.harmonia.bfp_pe import LANES, NIBBLES, SLOTS, BfpPe
from refemu.units.harmonia.bfp_pe_array.tiles import COLUMNS, ROWS, draw, require_tile
from refemu.units.stepping import Result
from refemu.units.unit import RunFunction


class Work(NamedTuple):
    """The slot that a column works on in a cycle."""

    group: int  #: -1 = nothing
    slot: int  #: slot of the group: 0, in M8M8 then 1


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


class BfpPeArray(Combinational):
    """Output-stationary array of 8 x 16 PEs: an operation is a tile with its whole reduction, an event a clock.

    Element e of row r of A, and of column r of B, is in lane r * groups * 32 + e.
    """

    name = "bfp_pe_array"
    events: ClassVar[tuple[str, ...]] = ("compute", "read")
    counters: ClassVar[dict[str, str]] = {
        "cycles": 'cycles with event "compute"',
        "macs": "products of two elements, 32 for each group in each PE of a valid row and column",
        "fp32_adds": "additions to an accumulator in FP32, one for each group in each PE",
        "act_hops": "groups of activations passed from a PE to its neighbour",
        "weight_broadcasts": "groups of weights put on a column",
        "busy_pe_cycles": "cycles in which a PE works, summed over the PEs",
    }
    registers: ClassVar[dict[str, str]] = {
        "cycle": "number of the last cycle in its tile, from 0",
        "work": "group and slot that each column works on; group -1 = nothing",
        "weights": "what each column broadcasts to its rows: codes, signs, exponent, weight factor",
        "pes": "registers of the PEs, row by row: signs, magnitudes and exponent of the activations, sum of the high "
        "nibbles, accumulator, flags",
    }
    initial: ClassVar[dict[str, Any]] = {
        "work": (IDLE,) * COLUMNS,
        "weights": (BLANK,) * COLUMNS,
        "pes": (CLEARED,) * (ROWS * COLUMNS),
    }
    groups: Annotated[int, 1, 1 << 16] = 2  #: groups of the reduction, 32 elements each, 1 to 65536
    partial: Precision = "fp16"  #: rounding of a group's sum, as for `Accumulator`
    product: Precision = "fp32"  #: rounding of the product with the weight factor, as for `Accumulator`

    @constant
    def ports(self) -> Ports:
        rows, columns, pes = ROWS * self.groups, COLUMNS * self.groups, ROWS * COLUMNS
        return Ports(
            inputs=(
                Port("mode", 2, self.groups, most=2, meaning="mode of each group: 0 M8W4, 1 M8M4, 2 M8M8"),
                Port("row_valid", 1, ROWS, meaning="rows that the tile has"),
                Port("col_valid", 1, COLUMNS, meaning="columns that the tile has"),
                Port("a_sign", 1, rows * LANES, meaning="signs of a, row after row"),
                Port("a_mag", 8, rows * LANES, meaning="8-bit mantissas of a"),
                Port("a_exp", 5, rows, meaning="shared exponents of a, one per row and group"),
                Port("b", 8, columns * LANES, meaning="INT4, 4-bit or 8-bit mantissas of b, column after column"),
                Port("b_sign", 1, columns * LANES, meaning="signs of b; 0 in M8W4"),
                Port("b_exp", 5, columns, meaning="shared exponents of b; 0 in M8W4"),
                Port("w_scale", 16, columns, encoding="f16", meaning="weight factors, finite; 0 except in M8W4"),
            ),
            outputs=(
                Port("acc", 32, pes, encoding="f32", meaning="the tile, row-major"),
                Port("flags", 3, pes, meaning="1 FP16 overflow, 2 FP16 underflow, 4 NaN"),
                Port("valid", 1, pes, meaning="rows and columns of the tile"),
            ),
            state=(
                Port("col", 4, meaning="column that leaves in this cycle"),
                Port("column", 32, ROWS, encoding="f32", meaning="accumulators of the column that leaves"),
                Port("column_valid", 1, ROWS, meaning="which of these accumulators belong to the tile"),
            ),
        )

    @constant
    def accumulator(self) -> Accumulator:
        """The accumulator of all PEs."""
        return Accumulator(self.partial, self.product)

    @constant
    def elements(self) -> list[BfpPe]:
        """The PEs, row-major."""
        first = BfpPe(self.partial, self.product)
        first.accumulator = self.accumulator
        return [copy(first) for _ in range(ROWS * COLUMNS)]

    @constant
    def _in_step(self) -> DeclaredState | None:
        """The State whose registers the PEs have now."""
        return None

    def schedule(self, mode: Lanes) -> list[Work]:
        """Work of column 0, cycle by cycle, by the mode of every group; column c does it c cycles later."""
        return [Work(group, slot) for group, each in enumerate(mode) for slot in range(NIBBLES[each])]

    def valid_at(self, column: int, mode: Lanes) -> int:
        """Cycle in which the results of a column are valid: its slots, and one cycle per column before it."""
        return len(self.schedule(mode)) + column

    @property
    def busy(self) -> bool:
        """Whether cycles of the tile remain: the last column is read in the last cycle."""
        return self.state.index >= 0 and self.state.cycle < self.valid_at(COLUMNS - 1, self.state.mode)

    def follows(self) -> str:
        last = self.state.cycle + 1 == self.valid_at(COLUMNS - 1, self.state.mode)
        return "read" if last else "compute"

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject nonzero fields that the mode does not have."""
        require_tile(self.name, self.groups, self._named(inputs))

    def _named(self, inputs: Sequence[Any]) -> dict[str, Any]:
        return dict(zip((port.name for port in self.ports.inputs), inputs, strict=True))

    def compute(self, *inputs: int | Lanes) -> Changes:
        """Move activations by one column, broadcast weights; PEs with a group work on one slot of it."""
        if inputs:
            cleared: dict[str, Any] = {port.name: (0,) * (ROWS * COLUMNS) for port in self.ports.outputs}
            cleared |= {name: self.initial[name] for name in ("work", "pes")}
            self.state: DeclaredState = self.changed(**self._named(inputs), **cleared, cycle=-1)
        return {**self._cycle(), "cycles": 1}

    def read(self) -> Changes:
        """Let the results of the last column leave."""
        return self._cycle()

    def _cycle(self) -> dict[str, Any]:
        """Move registers by one column, then run one slot of every PE with work; read a finished column."""
        before = self.state
        if before is not self._in_step:
            self._enter()
        t, plan = before.cycle + 1, self.schedule(before.mode)
        work = (plan[t] if t < len(plan) else IDLE, *before.work[:-1])
        weights = tuple(self._latch(c, work[c]) for c in range(COLUMNS))
        pes = tuple(self._slot(r, c, work[c], weights[c]) for r in range(ROWS) for c in range(COLUMNS))
        rows, valid = before.row_valid.count(1), before.col_valid
        last = max((c for c in range(COLUMNS) if valid[c]), default=0)
        arrived = [c for c in range(last + 1) if work[c].group >= 0 and work[c].slot == 0]
        begun = [c for c in arrived if valid[c]]
        ended = [c for c in range(COLUMNS) if valid[c] and self._ends(work[c])]
        working = [c for c in range(COLUMNS) if valid[c] and work[c].group >= 0]
        return {
            **self._leaving(t - len(plan)),
            "cycle": t,
            "work": work,
            "weights": weights,
            "pes": pes,
            "macs": LANES * rows * len(begun),
            "fp32_adds": rows * len(ended),
            "weight_broadcasts": len(begun),
            "act_hops": rows * len([c for c in arrived if c > 0]),
            "busy_pe_cycles": rows * len(working),
        }

    def _commit(self, *event: Any) -> DeclaredState:
        self._in_step = super()._commit(*event)
        return self._in_step

    def _enter(self) -> None:
        """Give the PEs the registers of the State; a PE is between two slots if its column has work left."""
        state, modes = self.state, self.state.mode
        for place, (pe, registers) in enumerate(zip(self.elements, state.pes, strict=True)):
            work, weights = state.work[place % COLUMNS], state.weights[place % COLUMNS]
            file = registers.a_sign, registers.a_mag, registers.a_exp
            between = work.group >= 0 and not self._ends(work)
            mode = modes[work.group] if between else M8W4
            half = (int(work.group == 0), *weights) if between else None
            latched = (registers.high, *(0,) * (SLOTS - 1))
            pe.resume((file, file), latched, registers.acc, registers.flags, mode, 0, half)

    def _ends(self, work: Work) -> bool:
        """Whether a slot is the last one of its group, so that the accumulator adds."""
        return work.group >= 0 and work.slot == NIBBLES[self.state.mode[work.group]] - 1

    def _latch(self, column: int, work: Work) -> Weights:
        """Weights that the dispatcher broadcasts to a column, one cycle later for each column."""
        before = self.state
        if work.group < 0 or work.slot:
            latched: Weights = before.weights[column]
            return latched
        place = column * self.groups + work.group
        some = slice(place * LANES, (place + 1) * LANES)
        return Weights(before.b[some], before.b_sign[some], before.b_exp[place], before.w_scale[place])

    def _slot(self, row: int, column: int, work: Work, weights: Weights) -> Pe:
        """Advance a PE: take activations from its neighbour, or from the dispatcher in column 0; run a slot."""
        before, at = self.state, row * COLUMNS + column
        pe, registers, source = self.elements[at], before.pes[at], before.pes[at - 1] if column else before.pes[at]
        file = source.a_sign, source.a_mag, source.a_exp
        if column == 0 and work.group >= 0:
            place = row * self.groups + work.group
            some = slice(place * LANES, (place + 1) * LANES)
            file = before.a_sign[some], before.a_mag[some], before.a_exp[place]
        pe.fill(*file)
        if work.group < 0 or not (before.row_valid[row] and before.col_valid[column]):
            idle: Pe = registers._replace(a_sign=file[0], a_mag=file[1], a_exp=file[2])
            return idle
        mode = before.mode[work.group]
        if work.slot == 0:
            pe.begin(mode, int(work.group == 0), *weights)
        state = pe.slot()
        high = state.psum if mode == M8M8 and work.slot == 0 else registers.high
        return Pe(*file, high, state.acc, state.flags)

    def _leaving(self, column: int) -> dict[str, Any]:
        """Read the column whose last sum was committed in the previous cycle."""
        before = self.state
        if not 0 <= column < COLUMNS:
            return {"col": 0, "column": (0,) * ROWS, "column_valid": (0,) * ROWS}
        seen = tuple(row & before.col_valid[column] for row in before.row_valid)
        acc, flags, valid = list(before.acc), list(before.flags), list(before.valid)
        for r in range(ROWS):
            place = r * COLUMNS + column
            acc[place], flags[place], valid[place] = before.pes[place].acc, before.pes[place].flags, seen[r]
        shown = {"acc": tuple(acc), "flags": tuple(flags), "valid": tuple(valid)}
        return {"col": column, "column": tuple(acc[column::COLUMNS]), "column_valid": seen, **shown}

    def draw(self, state: DeclaredState) -> str:
        """Draw the work of every column, and the accumulators, as text."""
        return draw(state)


UNIT: AnyUnit = Unit(
    unit_class=BfpPeArray,
    paper="harmonia §IV-A, §IV-C, Fig. 12, Fig. 14a",
    meaning="8 x 16 output-stationary array of reconfigurable PEs",
    configs={
        "paper": Config(groups=2, partial="fp16", product="fp32"),
        "exact": Config(groups=2, partial="fp32", product="fp32"),
    },
    flags=FLAGS,
)
State: type[DeclaredState] = BfpPeArray.State
run: RunFunction[Result] = UNIT.run
