"""The 8 x 16 array of PEs, cycle-accurate: a step is an edge, operands stream in by groups, one column leaves an edge.

Paper: [harmonia §IV-A (2), (3)], [harmonia §IV-B, Fig. 13], [harmonia §IV-C, Fig. 14a]. Composed of bfp_pe, one for
each place. The source of the weights delays column c by c edges.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Annotated, Any, ClassVar

import numpy as np

from refemu.arith.checks import reject
from refemu.units import AnyUnit, Changes, Config, DeclaredState, Lanes, Ports, Sequential, Unit, constant, decides
from refemu.units.harmonia.bfp_accumulator import M8M8, M8W4, Accumulator, Precision
from refemu.units.harmonia.bfp_accumulator.bfp_accumulator import FLAGS
from refemu.units.harmonia.bfp_pe import LANES, NIBBLES, SLOTS, BfpPe, Pass, PassPe, seat
from refemu.units.harmonia.bfp_pe_array_clocked.registers import (
    Activity,
    Column,
    Entry,
    Weights,
    column_registers,
    columns_of,
    of_place,
    ports,
    width,
)
from refemu.units.stepping import Result
from refemu.units.unit import RunFunction

__all__ = ["UNIT", "Activity", "BfpPeArrayClocked", "State", "run"]

ROWS, COLUMNS = 8, 16  #: most rows and columns, those of the paper [harmonia §IV-A]
OF_PES = {
    "macs": "products of two elements; one of M8M8 takes two products of 4 by 8 bits",
    "macs4x8": "products of 4 by 8 bits in the sub-PEs",
    "psums": "sums of 32 products made by sub-PEs",
    "fusions": "sums of high and of low nibbles joined, one for each group of M8M8 in each PE",
    "fp_converts": "sums converted to floating point, one for each group in each PE",
    "scale_mults": "values multiplied by a weight factor, one for each group of M8W4 in each PE",
    "fp32_adds": "additions to an accumulator in FP32, one for each group in each PE",
}  #: counted by the PEs


class BfpPeArrayClocked(Sequential):
    """Output-stationary array of PEs, an edge a step. PEs are row-major; a register file is one value a lane."""

    name = "bfp_pe_array_clocked"
    events: ClassVar[tuple[str, ...]] = ("compute", "idle", "stay")
    counters: ClassVar[dict[str, str]] = {
        "cycles": "clock edges since reset",
        "compute_cycles": 'clock edges with event "compute"',
        **OF_PES,
        "act_hops": "groups of activations passed from a PE to its neighbour",
        "weight_broadcasts": "groups of weights put on a column, those of a pass counted as one",
        "busy_pe_cycles": "edges in which a PE works on a slot, summed over the PEs",
        "lost": "activations at column 0 or in transit, and weights of a column, that found no free register and were "
        "dropped",
        "missed": "columns that ended in the same edge as a column further right, so that their sums were not shown",
    }
    registers: ClassVar[dict[str, str]] = {
        "groups": 'groups that enter column 0 together, with activity="parallel"; else 0',
        "next_groups": "groups in the register file of activations that each column begins next",
        "current_groups": "groups in the register file of activations that each column works on",
    }
    rows: Annotated[int, 1, ROWS] = ROWS  #: rows of PEs, up to the paper's 8
    columns: Annotated[int, 1, COLUMNS] = COLUMNS  #: columns of PEs, up to the paper's 16
    partial: Precision = "fp16"  #: rounding of a group's sum, as for `Accumulator`
    product: Precision = "fp32"  #: rounding of the product with the weight factor, as for `Accumulator`
    #: groups enter one at a time and a sub-PE works in each slot, or the groups of a pass enter together and all
    #: sub-PEs work in its first slot (D-harmonia-40)
    activity: Activity = "by_slot"
    overlap: bool = False  #: whether a tile may begin while columns work on the one before (D-harmonia-43)
    holdable: bool = (
        False  #: whether a port `hold` stops the array, as the converter does without a bank (D-harmonia-63)
    )

    @constant
    def inputs(self) -> int:
        """Number of groups that may enter together."""
        return width(self.activity)

    @constant
    def ports(self) -> Ports:
        return ports(self.rows, self.columns, self.inputs, self.holdable)

    @constant
    def initial(self) -> Mapping[str, Any]:
        """A pass begins with the first group."""
        none = (0,) * self.columns
        return {"next_groups": none, "current_groups": none, "slot": (SLOTS - 1,) * (self.rows * self.columns)}

    @constant
    def accumulator(self) -> Accumulator:
        """The accumulator of all PEs."""
        return Accumulator(self.partial, self.product)

    @constant
    def elements(self) -> list[BfpPe | PassPe]:
        """The PEs, row-major."""
        first = (PassPe if self.activity == "parallel" else BfpPe)(self.partial, self.product)
        first.accumulator = self.accumulator
        return [copy(first) for _ in range(self.rows * self.columns)]

    @constant
    def _in_step(self) -> DeclaredState | None:
        """The State whose registers the columns and PEs have now."""
        return None

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject a weight factor that is not finite, and a pass of too many groups or none."""
        named = {port.name: array for port, array in zip(self.ports.inputs, inputs, strict=True)}
        bad = (named["w_scale"] & 0x7C00) == 0x7C00
        reject(bad, f"{self.name}: w_scale must be finite", named["w_scale"], ", got {:#06x}")
        if "groups" not in named:
            return
        enters, wide, groups = named["a_valid"].any(axis=-1), named["mode"] == M8M8, named["groups"]
        for some, most in ((wide, SLOTS // NIBBLES[M8M8]), (~wide, SLOTS)):
            bad = enters & some & ((groups < 1) | (groups > most))
            reject(bad, f"{self.name}: groups must be in [1, {most}]", groups)

    def _open(self, *inputs: Any) -> DeclaredState:
        if self.state is not self._in_step:
            self._enter()
        self._in_step = super()._open(*inputs)
        return self._in_step

    def opens(self, *inputs: int | Lanes) -> str:
        if self.holdable and inputs[-1]:
            return "stay"
        works = any(column.left or (column.waiting and column.b_waiting) for column in self._columns)
        return "compute" if works else "idle"

    def compute(self, *inputs: int | Lanes) -> Changes:
        """Advance an edge in which a column works on a slot."""
        return {**self.idle(*inputs), "compute_cycles": 1}

    @decides("D-harmonia-63")
    def stay(self, *inputs: int | Lanes) -> Changes:
        """Advance an edge in which `hold` stops the array: registers stay, nothing enters, leaves or multiplies."""
        nothing = {name: tuple(value) if name != "col" else value[0] for name, value in self._nothing().items()}
        return {"cycles": 1, **nothing, "sub_pes": (0,) * self.columns}

    @decides("D-harmonia-42", "D-harmonia-44")
    def idle(self, *inputs: int | Lanes) -> Changes:
        """Advance an edge in which no column works; operands may arrive."""
        operands = {port.name: value for port, value in zip(self.ports.inputs, inputs, strict=True)}
        held = any(self._held(column) for column in self._columns)
        counts, shown = dict.fromkeys(self.counters, 0), self._nothing()
        sub_pes = [0] * self.columns
        for c in reversed(range(self.columns)):  # so that the neighbour on the left is still unchanged
            sub_pes[c] = self._slot(c, counts, shown)
            entry = self._passes(c) if c else self._enters(operands)
            free = bool(c) or not (entry and self._blocked(entry, held))
            self._arrive(operands, c, entry, free, counts)
        return {
            **counts,
            "cycles": 1,
            **{name: tuple(value) if name != "col" else value[0] for name, value in shown.items()},
            "busy": int(any(self._held(column) for column in self._columns)),
            "sub_pes": tuple(sub_pes),
            **column_registers(self._columns),
            **self._files(),
        }

    def _nothing(self) -> dict[str, list[int]]:
        """The outputs of an edge in which no column leaves."""
        return {name: [0] * self.rows for name in ("acc", "flags", "valid")} | {"col": [0]}

    def _held(self, column: Column) -> bool:
        """Whether a column holds a group."""
        return bool(column.arrived or column.waiting or column.left)

    def _enters(self, operands: Mapping[str, Any]) -> Entry | None:
        """The entry at the ports of column 0."""
        rows, columns = (_bits(operands[name]) for name in ("a_valid", "col_valid"))
        mode, clear, last = (operands[name] for name in ("mode", "clear", "last"))
        return Entry(mode, clear, last, rows, columns, operands.get("groups", 1)) if rows else None

    @decides("D-harmonia-22", "D-harmonia-43")
    def _blocked(self, entry: Entry, held: bool) -> bool:
        """Whether a tile cannot enter yet. held: whether a column has a group."""
        return bool(entry.clear) and held and not self.overlap

    @decides("D-harmonia-44")
    def _passes(self, c: int) -> Entry | None:
        """The entry that column c gets from its neighbour: no group moves beyond its tile."""
        left = self._columns[c - 1]
        return left.next if left.arrived and left.next.columns >> c else None

    def _slot(self, c: int, counts: dict[str, int], shown: dict[str, list[int]]) -> int:
        """Run a slot of a column, if it has one; its sums leave if it ends an output. Return sub-PEs at work."""
        column = self._columns[c]
        begins = not column.left and column.waiting and column.b_waiting
        if begins:
            current = column.next
            slots = current.groups * NIBBLES[current.mode]
            column = column._replace(waiting=0, b_waiting=0, left=slots, current=current, current_b=column.next_b)
        elif not column.left:
            return 0
        places = [row * self.columns + c for row in range(self.rows) if column.current.rows >> row & 1]
        for place in places:
            pe = self.elements[place]
            old = pe.state
            if begins:
                self._begin(pe, column.current, self._read(column.current.mode, column.current_b))
            new = pe.slot()
            for name in OF_PES:
                counts[name] += getattr(new, name) - getattr(old, name)
        counts["busy_pe_cycles"] += len(places)
        working = self._working(column, self.elements[places[0]].state.slot) if places else 0
        column = column._replace(left=column.left - 1)
        self._columns[c] = column
        if column.current.last and not column.left:
            self._leave(c, places, counts, shown)
        return working

    @decides("D-harmonia-40")
    def _working(self, column: Column, slot: int) -> int:
        """Sub-PEs that multiply in a slot, one bit each."""
        slots = column.current.groups * NIBBLES[column.current.mode]
        if self.activity == "by_slot":
            return 1 << seat(column.current.mode, slot)
        working = 0
        for each in range(slots if column.left == slots else 0):
            working |= 1 << seat(column.current.mode, each)
        return working

    def _begin(self, pe: BfpPe | PassPe, entry: Entry, weights: Weights) -> None:
        """Open an entry in a PE."""
        if isinstance(pe, PassPe):
            pe.begin_pass(Pass(entry.mode, entry.clear, entry.groups, *weights))
        else:
            pe.begin(entry.mode, entry.clear, weights.b, weights.b_sign, weights.b_exp[0], weights.w_scale[0])

    @decides("D-harmonia-42")
    def _read(self, mode: int, weights: Weights) -> Weights:
        """The bits of the weights that a mode reads; all others have no effect."""
        b, signs, exponents, factors = weights
        nothing = (0,) * len(exponents)
        return Weights(
            b if mode == M8M8 else tuple(code & 15 for code in b),
            (0,) * len(b) if mode == M8W4 else signs,
            nothing if mode == M8W4 else exponents,
            factors if mode == M8W4 else nothing,
        )

    @decides("D-harmonia-43")
    def _leave(self, c: int, places: Sequence[int], counts: dict[str, int], shown: dict[str, list[int]]) -> None:
        """Let the sums of a column leave; if two columns end, those of the right one, which began earlier."""
        if any(shown["valid"]):
            counts["missed"] += 1
            return
        shown["col"][0] = c
        for place in places:
            row, state = place // self.columns, self.elements[place].state
            shown["acc"][row], shown["flags"][row], shown["valid"][row] = state.acc, state.flags, 1

    @decides("D-harmonia-41")
    def _arrive(
        self, operands: Mapping[str, Any], c: int, entry: Entry | None, free: bool, counts: dict[str, int]
    ) -> None:
        """Take operands where the next file is free; they are lost where it is in use."""
        column = self._columns[c]._replace(arrived=0)
        if entry and (column.waiting or not free):
            counts["lost"] += 1
        elif entry:
            column = column._replace(arrived=1, waiting=entry.columns >> c & 1, next=entry)
            for row in (row for row in range(self.rows) if entry.rows >> row & 1):
                self._load(operands, row, c)
                counts["act_hops"] += entry.groups * (c > 0)
        if operands["b_valid"][c]:
            if column.b_waiting:
                counts["lost"] += 1
            else:
                column = column._replace(b_waiting=1, next_b=self._at_port(operands, c))
                counts["weight_broadcasts"] += 1
        self._columns[c] = column

    def _load(self, operands: Mapping[str, Any], row: int, c: int) -> None:
        """Take activations into a PE from the port, or from its neighbour's next file."""
        pe = self.elements[row * self.columns + c]
        if c > 0:
            source = self.elements[row * self.columns + c - 1].state
            pe.fill(source.next_sign, source.next_mag, source.next_exp)
            return
        size = self.inputs * LANES
        signs, magnitudes = (of_place(operands[name], row, size) for name in ("a_sign", "a_mag"))
        exponents: Any = of_place(operands["a_exp"], row, self.inputs)
        pe.fill(signs, magnitudes, exponents if self.inputs > 1 else exponents[0])

    def _at_port(self, operands: Mapping[str, Any], c: int) -> Weights:
        """The weights at the port of a column."""
        sizes = {"b": LANES, "b_sign": LANES, "b_exp": 1, "w_scale": 1}
        return Weights(*(of_place(operands[name], c, size * self.inputs) for name, size in sizes.items()))

    def _files(self) -> dict[str, Lanes]:
        """The fields of a State for the registers of the PEs."""
        states = [pe.state for pe in self.elements]
        registers: dict[str, Lanes] = {}
        exponents = "next_exp", "current_exp"  # a PE that takes a group at a time has one of each
        vectors = ("next_sign", "next_mag", "current_sign", "current_mag", "latched", *exponents * (self.inputs > 1))
        for name in vectors:
            registers[name] = tuple([value for state in states for value in getattr(state, name)])
        scalars = {"pe_mode": "mode", "slot": "slot", "sums": "acc", "sum_flags": "flags"}
        if self.inputs == 1:
            scalars |= dict(zip(exponents, exponents, strict=True))
        for name, register in scalars.items():
            registers[name] = tuple([getattr(state, register) for state in states])
        return registers

    def _enter(self) -> None:
        """Give the columns and the PEs the registers of the State."""
        state = self.state
        self._columns = columns_of(state, self.columns)
        for place, pe in enumerate(self.elements):
            column = self._columns[place % self.columns]
            files = tuple(self._file(place, which) for which in ("next", "current"))
            latched = of_place(state.latched, place, SLOTS)
            acc, flags, mode, slot = (
                register[place] for register in (state.sums, state.sum_flags, state.pe_mode, state.slot)
            )
            works = column.left and column.current.rows >> place // self.columns & 1
            current, weights = column.current, self._read(column.current.mode, column.current_b)
            work = Pass(current.mode, current.clear, current.groups, *weights)
            done = current.groups * NIBBLES[current.mode] - column.left
            half = work.of(done // NIBBLES[current.mode]) if works and done % NIBBLES[current.mode] else None
            pe.resume((files[0], files[1]), latched, acc, flags, mode, slot, half)
            if isinstance(pe, PassPe) and works:
                pe.proceed(work, done)

    def _file(self, place: int, which: str) -> Any:
        """A register file of a PE."""
        size = self.inputs
        signs, magnitudes = (
            of_place(getattr(self.state, f"{which}_{name}"), place, size * LANES) for name in ("sign", "mag")
        )
        exponents = of_place(getattr(self.state, f"{which}_exp"), place, size)
        return signs, magnitudes, exponents if size > 1 else exponents[0]


def _bits(value: Lanes) -> int:
    """One-bit lanes as a word."""
    word = 0
    for place, bit in enumerate(value):
        word |= bit << place
    return word


UNIT: AnyUnit = Unit(
    unit_class=BfpPeArrayClocked,
    paper="harmonia §IV-A, §IV-B, §IV-C, Fig. 12, Fig. 13, Fig. 14a",
    meaning="output-stationary array of reconfigurable PEs, an edge a step",
    configs={
        "by_slot": Config(rows=2, columns=2, partial="fp16", product="fp32", activity="by_slot", overlap=False),
        "parallel": Config(rows=1, columns=1, partial="fp16", product="fp32", activity="parallel", overlap=False),
        "overlap": Config(rows=1, columns=2, partial="fp16", product="fp32", activity="by_slot", overlap=True),
        "columns": Config(rows=1, columns=16, partial="fp16", product="fp32", activity="by_slot", overlap=False),
        "long": Config(rows=1, columns=1, partial="fp32", product="fp32", activity="by_slot", overlap=False),
        "paper": Config(rows=8, columns=16, partial="fp16", product="fp32", activity="by_slot", overlap=True),
        "hold": Config(
            rows=1, columns=3, partial="fp16", product="fp32", activity="by_slot", overlap=True, holdable=True
        ),
    },
    flags=FLAGS,
)
State: type[DeclaredState] = BfpPeArrayClocked.State
run: RunFunction[Result] = UNIT.run
