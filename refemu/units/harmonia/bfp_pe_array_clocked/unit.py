"""The 8 x 16 array of PEs with a clock: a step is an edge, operands stream in by groups, columns leave one an edge.

Paper: [harmonia §IV-A (2), (3)], [harmonia §IV-B, Fig. 13], [harmonia §IV-C, Fig. 14a]. Composed of bfp_pe, one for
each place. Whoever feeds it delays the weights of column c by c edges. Decisions: D-harmonia-10 (output stationary,
groups ascending), D-harmonia-22 (tiles do not overlap), D-harmonia-36 (one mode for a group of all columns),
D-harmonia-40 (what runs inside a pass), D-harmonia-41 (operands are double-buffered), D-harmonia-42 (edges of operands
and results), D-harmonia-43 (tiles that overlap), D-harmonia-44 (activations move to the last column of the tile).
"""

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, at, first_index, require_choice, require_int
from refemu.units.harmonia.bfp_accumulator import FLAGS, M8M8, M8W4, Accumulator, Precision
from refemu.units.harmonia.bfp_pe import LANES, NIBBLES, SLOTS, BfpPe, Pass, PassPe, seat
from refemu.units.harmonia.bfp_pe_array_clocked.registers import (
    ACTIVITIES,
    COUNTERS,
    OF_PES,
    Activity,
    Column,
    Entry,
    State,
    Weights,
    column_registers,
    columns_of,
    of_place,
    ports,
    width,
)
from refemu.units.harmonia.cases import bfp_pe_array_clocked as bfp_pe_array_clocked_cases
from refemu.units.ports import Lanes, Ports, fields, lanes
from refemu.units.stepped import Clocked, Result
from refemu.units.unit import Config, RunFunction, Unit

__all__ = ["COUNTERS", "UNIT", "Activity", "BfpPeArrayClocked", "State", "run"]

ROWS, COLUMNS = 8, 16  #: most rows and columns, those of the paper [harmonia §IV-A]


class BfpPeArrayClocked(Clocked[State]):
    """Output-stationary array of PEs, an edge a step.

    References
    ----------
    [harmonia §IV-A, §IV-B, Fig. 12, Fig. 14a]
    """

    name = "bfp_pe_array_clocked"

    def __init__(
        self,
        rows: int = ROWS,
        columns: int = COLUMNS,
        partial: Precision = "fp16",
        product: Precision = "fp32",
        activity: Activity = "by_slot",
        overlap: bool = False,
    ) -> None:
        """Configure the array.

        Parameters
        ----------
        rows, columns : int
            Size, up to the paper's 8 x 16.
        partial : {"fp16", "fp32"}
            Rounding of a group's sum, as for `Accumulator`.
        product : {"fp32", "fp16"}
            Rounding of the product with the weight factor, as for `Accumulator`.
        activity : {"by_slot", "parallel"}
            Groups enter one at a time and a sub-PE works in each slot, or those of a pass enter together, and all its
            sub-PEs work in its first slot (D-harmonia-40).
        overlap : bool
            Whether a tile may begin while columns work on the one before (D-harmonia-43).

        Raises
        ------
        Refused
            A size is out of range, or a choice unknown.
        """
        self.rows: int = require_int(rows, 1, ROWS, self.name, "rows")
        self.columns: int = require_int(columns, 1, COLUMNS, self.name, "columns")
        self.accumulator: Accumulator = Accumulator(partial, product)
        self.partial: Precision = self.accumulator.partial
        self.product: Precision = self.accumulator.product
        self.activity: Activity = require_choice(activity, ACTIVITIES, self.name, "activity")
        self.overlap: bool = bool(overlap)
        self.ports: Ports = ports({"rows": self.rows, "columns": self.columns, "activity": self.activity})
        none = lanes((0,) * self.columns)
        last = lanes((SLOTS - 1,) * (self.rows * self.columns))
        self.state: State = self.reset(State, next_groups=none, current_groups=none, slot=last)
        self._in_step: State | None = None  # the State that the columns and PEs belong to

    @cached_property
    def elements(self) -> list[BfpPe]:
        """The PEs, row-major; what an accumulator does is the same in all."""
        first = (PassPe if self.activity == "parallel" else BfpPe)(self.partial, self.product)
        first.accumulator = self.accumulator
        return [copy(first) for _ in range(self.rows * self.columns)]

    @property
    def inputs(self) -> int:
        """Groups that may enter together."""
        return width(self.activity)

    def step(
        self,
        mode: int,
        clear: int,
        last: int,
        a_valid: Sequence[int] | int,
        col_valid: Sequence[int] | int,
        a_sign: Sequence[int],
        a_mag: Sequence[int],
        a_exp: Sequence[int] | int,
        b_valid: Sequence[int] | int,
        b: Sequence[int],
        b_sign: Sequence[int],
        b_exp: Sequence[int] | int,
        w_scale: Sequence[int] | int,
        groups: int | None = None,
    ) -> State:
        """Execute one edge: PEs with a group make a slot, activations move on, and operands at the ports come in.

        `groups` belongs to passes that enter whole.
        """
        more = {} if groups is None else {"groups": groups}
        return self._open(
            *self.accept(
                mode=mode,
                clear=clear,
                last=last,
                a_valid=a_valid,
                col_valid=col_valid,
                a_sign=a_sign,
                a_mag=a_mag,
                a_exp=a_exp,
                b_valid=b_valid,
                b=b,
                b_sign=b_sign,
                b_exp=b_exp,
                w_scale=w_scale,
                **more,
            )
        )

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse a weight factor that is not finite, and a pass of too many groups or none."""
        named = {port.name: array for port, array in zip(self.ports.inputs, inputs, strict=True)}
        bad = (named["w_scale"] & 0x7C00) == 0x7C00
        if bad.any():
            index = first_index(bad)
            raise Refused(f"{self.name}: w_scale {int(named['w_scale'][index])}{at(index)} is not finite")
        if "groups" not in named:
            return
        enters = named["a_valid"].any(axis=-1) if self.rows > 1 else named["a_valid"] != 0
        most = np.where(named["mode"] == M8M8, SLOTS // NIBBLES[M8M8], SLOTS)
        bad = enters & ((named["groups"] < 1) | (named["groups"] > most))
        if bad.any():
            index = first_index(bad)
            limit = int(most[index])
            raise Refused(f"{self.name}: groups must be in [1, {limit}], got {int(named['groups'][index])}{at(index)}")

    def _open(self, *inputs: Any) -> State:
        if self.state is not self._in_step:
            self._enter(self.state)
        before = self.latched(*inputs)
        held = any(self._held(column) for column in self._columns)
        counts, shown = dict.fromkeys(COUNTERS, 0), self._nothing()
        sub_pes = [0] * self.columns
        for c in reversed(range(self.columns)):  # so that the neighbour on the left still has what it had
            sub_pes[c] = self._slot(c, counts, shown)
            entry = self._passes(c) if c else self._enters(before)
            free = bool(c) or not (entry and self._blocked(entry, held))
            self._arrive(before, c, entry, free, counts)
        counts["cycles"], counts["compute_cycles"] = 1, int(counts["busy_pe_cycles"] > 0)
        self.state = self._in_step = self.latched(
            *inputs,
            **{name: getattr(before, name) + more for name, more in counts.items()},
            **{name: lanes(value) if name != "col" else value[0] for name, value in shown.items()},
            event="compute" if counts["compute_cycles"] else "idle",
            busy=int(any(self._held(column) for column in self._columns)),
            sub_pes=lanes(sub_pes),
            **column_registers(self._columns),
            **self._files(),
        )
        return self.state

    def _nothing(self) -> dict[str, list[int]]:
        """The outputs of an edge in which no column leaves."""
        return {name: [0] * self.rows for name in ("acc", "flags", "valid")} | {"col": [0]}

    def _held(self, column: Column) -> bool:
        """Whether a column holds a group."""
        return bool(column.arrived or column.waiting or column.left)

    def _enters(self, before: State) -> Entry | None:
        """What is at the ports of column 0."""
        rows, groups = _bits(before.a_valid), before.groups if self.inputs > 1 else 1
        entry = Entry(before.mode, before.clear, before.last, rows, _bits(before.col_valid), groups)
        return entry if rows else None

    def _blocked(self, entry: Entry, held: bool) -> bool:
        """Whether a tile cannot come in yet (D-harmonia-22, D-harmonia-43). held: some column has a group."""
        return bool(entry.clear) and held and not self.overlap

    def _passes(self, c: int) -> Entry | None:
        """What comes into column c from its neighbour: no group moves beyond its tile (D-harmonia-44)."""
        left = self._columns[c - 1]
        return left.next if left.arrived and left.next.columns >> c else None

    def _slot(self, c: int, counts: dict[str, int], shown: dict[str, list[int]]) -> int:
        """A slot of the PEs of a column, if it has one, and its sums if it ends an output; returns sub-PEs at work."""
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

    def _working(self, column: Column, slot: int) -> int:
        """The sub-PEs that multiply in a slot, a bit each (D-harmonia-40)."""
        slots = column.current.groups * NIBBLES[column.current.mode]
        if self.activity == "by_slot":
            return 1 << seat(column.current.mode, slot)
        working = 0
        for each in range(slots if column.left == slots else 0):
            working |= 1 << seat(column.current.mode, each)
        return working

    def _begin(self, pe: BfpPe, entry: Entry, weights: Weights) -> None:
        """Open an entry in a PE."""
        if isinstance(pe, PassPe):
            pe.begin_pass(Pass(entry.mode, entry.clear, entry.groups, *weights))
        else:
            pe.begin(entry.mode, entry.clear, weights.b, weights.b_sign, weights.b_exp[0], weights.w_scale[0])

    def _read(self, mode: int, weights: Weights) -> Weights:
        """What a mode reads of the weights: no other bits have an effect."""
        b, signs, exponents, factors = weights
        nothing = (0,) * len(exponents)
        return Weights(
            b if mode == M8M8 else tuple(code & 15 for code in b),
            (0,) * len(b) if mode == M8W4 else signs,
            nothing if mode == M8W4 else exponents,
            factors if mode == M8W4 else nothing,
        )

    def _leave(self, c: int, places: Sequence[int], counts: dict[str, int], shown: dict[str, list[int]]) -> None:
        """The sums of a column leave; of two columns those of the right one, which began earlier (D-harmonia-43)."""
        if any(shown["valid"]):
            counts["missed"] += 1
            return
        shown["col"][0] = c
        for place in places:
            row, state = place // self.columns, self.elements[place].state
            shown["acc"][row], shown["flags"][row], shown["valid"][row] = state.acc, state.flags, 1

    def _arrive(self, before: State, c: int, entry: Entry | None, free: bool, counts: dict[str, int]) -> None:
        """Operands come in where the next file is free; what finds it in use is lost (D-harmonia-41)."""
        column = self._columns[c]._replace(arrived=0)
        if entry and (column.waiting or not free):
            counts["lost"] += 1
        elif entry:
            column = column._replace(arrived=1, waiting=entry.columns >> c & 1, next=entry)
            for row in (row for row in range(self.rows) if entry.rows >> row & 1):
                self._load(before, row, c)
                counts["act_hops"] += entry.groups * (c > 0)
        if fields(before.b_valid)[c]:
            if column.b_waiting:
                counts["lost"] += 1
            else:
                column = column._replace(b_waiting=1, next_b=self._at_port(before, c))
                counts["weight_broadcasts"] += 1
        self._columns[c] = column

    def _load(self, before: State, row: int, c: int) -> None:
        """A PE takes activations from the port, or from its neighbour's next file."""
        pe = self.elements[row * self.columns + c]
        if c > 0:
            source = self.elements[row * self.columns + c - 1].state
            pe.fill(source.next_sign, source.next_mag, source.next_exp)
            return
        size = self.inputs * LANES
        signs, magnitudes = (of_place(value, row, size) for value in (before.a_sign, before.a_mag))
        exponents: Any = of_place(before.a_exp, row, self.inputs)
        pe.fill(signs, magnitudes, exponents if self.inputs > 1 else exponents[0])

    def _at_port(self, before: State, c: int) -> Weights:
        """The weights at the port of a column."""
        size = self.inputs
        b, signs = (of_place(value, c, size * LANES) for value in (before.b, before.b_sign))
        return Weights(b, signs, of_place(before.b_exp, c, size), of_place(before.w_scale, c, size))

    def _files(self) -> dict[str, Lanes]:
        """Registers of the PEs as the fields of a State."""
        states = [pe.state for pe in self.elements]
        registers: dict[str, Lanes] = {}
        for name in ("next_sign", "next_mag", "next_exp", "current_sign", "current_mag", "current_exp", "latched"):
            registers[name] = lanes([value for state in states for value in fields(getattr(state, name))])
        for name, register in (("pe_mode", "mode"), ("slot", "slot"), ("sums", "acc"), ("sum_flags", "flags")):
            registers[name] = lanes([getattr(state, register) for state in states])
        return registers

    def _enter(self, state: State) -> None:
        """Give the columns and the PEs the registers of a State."""
        self._columns = columns_of(state, self.columns)
        for place, pe in enumerate(self.elements):
            column = self._columns[place % self.columns]
            files = tuple(self._file(state, place, which) for which in ("next", "current"))
            latched = of_place(state.latched, place, SLOTS)
            acc, flags, mode, slot = (
                fields(register)[place] for register in (state.sums, state.sum_flags, state.pe_mode, state.slot)
            )
            works = column.left and column.current.rows >> place // self.columns & 1
            current, weights = column.current, self._read(column.current.mode, column.current_b)
            work = Pass(current.mode, current.clear, current.groups, *weights)
            done = current.groups * NIBBLES[current.mode] - column.left
            half = work.of(done // NIBBLES[current.mode]) if works and done % NIBBLES[current.mode] else None
            pe.resume((files[0], files[1]), latched, acc, flags, mode, slot, half)
            if isinstance(pe, PassPe) and works:
                pe.proceed(work, done)

    def _file(self, state: State, place: int, which: str) -> Any:
        """A register file of a PE."""
        size = self.inputs
        signs, magnitudes = (
            of_place(getattr(state, f"{which}_{name}"), place, size * LANES) for name in ("sign", "mag")
        )
        exponents = of_place(getattr(state, f"{which}_exp"), place, size)
        return signs, magnitudes, exponents if size > 1 else exponents[0]


def _bits(value: Lanes) -> int:
    """Lanes of one bit as a word."""
    word = 0
    for place, bit in enumerate(fields(value)):
        word |= bit << place
    return word


UNIT: Unit[State, Result] = Unit(
    name="bfp_pe_array_clocked",
    paper="harmonia §IV-A, §IV-B, §IV-C, Fig. 12, Fig. 13, Fig. 14a",
    meaning="output-stationary array of reconfigurable PEs, an edge a step",
    configs={
        "by_slot": Config(rows=2, columns=2, partial="fp16", product="fp32", activity="by_slot", overlap=False),
        "parallel": Config(rows=1, columns=1, partial="fp16", product="fp32", activity="parallel", overlap=False),
        "overlap": Config(rows=1, columns=2, partial="fp16", product="fp32", activity="by_slot", overlap=True),
        "columns": Config(rows=1, columns=16, partial="fp16", product="fp32", activity="by_slot", overlap=False),
        "long": Config(rows=1, columns=1, partial="fp32", product="fp32", activity="by_slot", overlap=False),
    },
    ports=ports,
    unit_class=BfpPeArrayClocked,
    cases=bfp_pe_array_clocked_cases.cases,
    counters=COUNTERS,
    mark=bfp_pe_array_clocked_cases.mark,
    flags=FLAGS,
    legal=bfp_pe_array_clocked_cases.legal,
)
run: RunFunction[Result] = UNIT.run
