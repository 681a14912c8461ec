"""The output-stationary systolic array with a clock: an edge is a cycle of every decoder and element.

Paper: [olive §4.3, §4.5, Fig. 8]. Composed of ovp_decoder, one for each border line, and of the elements: olive_mac
for 4-bit operands, four of them together olive_pe8 for 8-bit ones. One array does both, by the port `wide`. Whoever
feeds it makes the skew: line i gets its pairs i edges later than line 0 (D-olive-39).

Decisions: D-olive-14 (8-bit outliers), D-olive-33 (an accumulator that leaves 32 bits), D-olive-36 (halves of an
8-bit integer), D-olive-38 (the two elements of a pair enter one after the other), D-olive-39 (decoders without a
register), D-olive-48 (a pair that comes while a line holds an element), D-olive-49 (a change of width), D-olive-50
(operands at a drain), D-olive-51 (what leaves at the south between drains).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, get_args

from refemu.arith.checks import Refused, require_choice, require_int
from refemu.units.olive.cases import olive_systolic_clocked as olive_systolic_clocked_cases
from refemu.units.olive.olive_edp import OPERANDS
from refemu.units.olive.olive_mac import OliveMac, OverflowMode, require_overflow
from refemu.units.olive.olive_pe8 import PES, OlivePe8, Split
from refemu.units.olive.olive_systolic_clocked.registers import (
    COUNTERS,
    MOST,
    NARROW,
    NOTHING,
    WIDE,
    Line,
    Narrow,
    Operand,
    State,
    Wide,
    ports,
    registers,
)
from refemu.units.olive.ovp_decoder import OvpDecoder
from refemu.units.ports import Ports
from refemu.units.stepped import Clocked, Result
from refemu.units.unit import Config, Flag, RunFunction, Unit


class OliveSystolicClocked(Clocked[State]):
    """Output-stationary array, an edge a step.

    References
    ----------
    [olive §4.3, Fig. 8]
    """

    name = "olive_systolic_clocked"

    def __init__(
        self,
        rows: int = 8,
        cols: int = 8,
        a: Narrow = "int4",
        b: Narrow = "int4",
        eight: Wide = "int8",
        overflow: OverflowMode = "wrap",
        split: Split = "twos_complement",
    ) -> None:
        """Configure the array.

        Parameters
        ----------
        rows, cols : int
            Rows and columns of 4-bit elements, even, 2 to 64; 8-bit elements are half as many either way.
        a, b : {"int4", "flint4"}
            Types of 4-bit operands.
        eight : {"int8", "int8_repo"}
            Type of 8-bit operands (D-olive-14).
        overflow : {"wrap", "saturate"}
            Rule for an accumulator that leaves 32 bits (D-olive-33).
        split : {"twos_complement", "sign_magnitude"}
            Halves of an 8-bit integer (D-olive-36).

        Raises
        ------
        Refused
            A size is odd or out of range, or a type or rule is unknown.
        """
        self.rows: int = require_int(rows, 2, MOST, self.name, "rows")
        self.cols: int = require_int(cols, 2, MOST, self.name, "cols")
        if self.rows % 2 or self.cols % 2:
            raise Refused(f"{self.name}: rows and cols must be even, got {self.rows}, {self.cols}")
        self.a: Narrow = require_choice(a, NARROW, self.name, "a")
        self.b: Narrow = require_choice(b, NARROW, self.name, "b")
        self.eight: Wide = require_choice(eight, WIDE, self.name, "eight")
        self.overflow = require_overflow(overflow, self.name)
        self.split: Split = require_choice(split, get_args(Split), self.name, "split")
        self.ports: Ports = ports({"rows": self.rows, "cols": self.cols})
        self.state: State = self.reset(State)
        self._in_step = self.state  # the State that the accumulators of the elements belong to

    @cached_property
    def west(self) -> list[tuple[OvpDecoder, OvpDecoder]]:
        """The decoders of every array row, for 4-bit and for 8-bit pairs."""
        return [self._decoders(self.a) for _ in range(self.rows)]

    @cached_property
    def north(self) -> list[tuple[OvpDecoder, OvpDecoder]]:
        """The same of every array column."""
        return [self._decoders(self.b) for _ in range(self.cols)]

    @cached_property
    def elements(self) -> list[OliveMac]:
        """The 4-bit elements, row by row."""
        return [OliveMac(overflow=self.overflow) for _ in range(self.rows * self.cols)]

    @cached_property
    def quads(self) -> dict[int, OlivePe8]:
        """The 8-bit elements, by the lane of their top left 4-bit one."""
        return {at: OlivePe8(self.split, self.overflow) for at in self._places(1)}

    def _decoders(self, narrow: Narrow) -> tuple[OvpDecoder, OvpDecoder]:
        """The decoder of a border line, for 4-bit and for 8-bit pairs."""
        return OvpDecoder(*OPERANDS[narrow]), OvpDecoder(*OPERANDS[self.eight])

    def grid(self, mode: int) -> tuple[int, int]:
        """Size of the array in elements as wide as the operands.

        Parameters
        ----------
        mode : int
            0 for 4-bit operands, 1 for 8-bit ones.

        Returns
        -------
        rows, columns : int
            Elements.
        """
        return self.rows >> mode, self.cols >> mode

    def _places(self, mode: int) -> list[int]:
        """Lane of each element, row by row; of an 8-bit one that of its top left 4-bit element."""
        rows, cols = self.grid(mode)
        return [(i * self.cols + j) << mode for i in range(rows) for j in range(cols)]

    def step(
        self,
        wide: int,
        drain: int,
        west: Sequence[int],
        west_valid: Sequence[int],
        north: Sequence[int],
        north_valid: Sequence[int],
        bias_a: int,
        bias_b: int,
    ) -> State:
        """Execute one edge: pairs enter at the borders and elements multiply, or with `drain` accumulators move south.

        A pair is read where its line is valid and holds no element; with `wide`, the first half of the lines has pairs.
        """
        return self._open(*self.accept(wide, drain, west, west_valid, north, north_valid, bias_a, bias_b))

    def _open(self, *inputs: Any) -> State:
        if self.state is not self._in_step:
            self._enter(self.state)
        before = self.latched(*inputs, event="drain" if inputs[1] else "compute")
        if before.wide != before.mode:
            before = self._changed(before)
        before = replace(before, cycles=before.cycles + 1, partial=(0,) * len(before.partial))
        self.state = self._in_step = self._drained(before) if before.drain else self._computed(before)
        return self.state

    def _enter(self, state: State) -> None:
        """Give the elements the accumulators of a State."""
        for at, element in enumerate(self.elements):
            element.state = replace(element.state, acc=0 if state.mode else state.acc[at])
        for at, quad in self.quads.items():
            quad.state = replace(quad.state, acc=state.acc[at] if state.mode else 0)

    def _changed(self, before: State) -> State:
        """Operands of another width: everything under way is dropped, accumulators are 0 (D-olive-49)."""
        fresh = self.reset(State)
        cleared: dict[str, Any] = {port.name: getattr(fresh, port.name) for port in self.ports.state}
        empty = replace(before, **{**cleared, "mode": before.wide})
        self._enter(empty)
        return empty

    def _computed(self, before: State) -> State:
        """Every element reads its neighbours' registers of the last edge, or its border line."""
        (rows, cols), mode = self.grid(before.mode), before.mode
        lines = {side: self._border(before, side, count) for side, count in (("west", rows), ("north", cols))}
        old = {name: before.operands(name) for name in "ab"}
        new = {name: [NOTHING] * len(self.elements) for name in "ab"}
        acc, flags, partial = list(before.acc), list(before.acc_overflow), list(before.partial)
        macs = overflows = 0
        for place, at in enumerate(self._places(mode)):
            i, j = divmod(place, cols)
            x = old["a"][at - (1 << mode)] if j else lines["west"][i].enters
            y = old["b"][at - (self.cols << mode)] if i else lines["north"][j].enters
            new["a"][at], new["b"][at] = x, y
            if x.valid and y.valid:
                done = self._element(mode, at)._open(0, 0, x.exponent, x.integer, y.exponent, y.integer)
                acc[at], flags[at] = done.acc, flags[at] | done.overflow
                macs, overflows = macs + 1, overflows + done.overflow
                if mode:
                    partial[PES * place : PES * place + PES] = done.partial
        now: dict[str, Any] = {"acc": tuple(acc), "acc_overflow": tuple(flags)}
        return replace(
            before,
            **self._of_borders(before, lines),
            **registers("a", new["a"]),
            **registers("b", new["b"]),
            **now,
            **self._shown({"mode": mode, **now}),
            partial=tuple(partial),
            compute_cycles=before.compute_cycles + 1,
            macs=before.macs + macs,
            idle=before.idle + rows * cols - macs,
            overflows=before.overflows + overflows,
        )

    def _element(self, mode: int, at: int) -> Any:
        """The unit that multiplies at a lane."""
        return self.quads[at] if mode else self.elements[at]

    def _border(self, before: State, side: str, count: int) -> list[Line]:
        """What the lines of a border do in an edge; those beyond `count` are not in use."""
        decoders, bias = (self.west, before.bias_a) if side == "west" else (self.north, before.bias_b)
        words, valid, held = getattr(before, side), getattr(before, f"{side}_valid"), before.operands(f"{side}_held")
        lines = []
        for at in range(len(words)):
            if at < count and valid[at] and not held[at].valid:
                lines.append(self._decode(decoders[at][before.mode], words[at], bias))
            else:
                lines.append(Line(held[at], NOTHING, 0, 0))  # D-olive-48
        return lines

    def _decode(self, decoder: OvpDecoder, word: int, bias: int) -> Line:
        """Both elements of a pair: the left one enters at once, the right one in the next edge (D-olive-38)."""
        done = decoder._open(word & ((1 << 2 * decoder.width) - 1), bias)
        first, second = (Operand(1, e, i) for e, i in zip(done.exponent, done.base_int, strict=True))
        return Line(first, second, 1, done.illegal)

    def _of_borders(self, before: State, lines: Mapping[str, Sequence[Line]]) -> dict[str, Any]:
        """What the lines hold now, and what their decoders have done."""
        every = [line for side in lines.values() for line in side]
        decodes = len([line for line in every if line.decodes])
        rows, cols = self.grid(before.mode)
        return {
            **registers("west_held", [line.holds for line in lines["west"]]),
            **registers("north_held", [line.holds for line in lines["north"]]),
            "decodes": before.decodes + decodes,
            "decoder_idle": before.decoder_idle + rows + cols - decodes,
            "illegal": before.illegal | int(any(line.illegal for line in every)),
        }

    def _shown(self, now: Mapping[str, Any]) -> dict[str, Any]:
        """What the south border shows without a drain: nothing (D-olive-51). now: `mode` and accumulators."""
        return {"south": (0,) * self.cols, "south_overflow": (0,) * self.cols}

    def _bottom(self, now: Mapping[str, Any]) -> dict[str, Any]:
        """Accumulators and flags of the bottom row of elements."""
        rows, cols = self.grid(now["mode"])
        last, beyond = self._places(now["mode"])[(rows - 1) * cols :], (0,) * (self.cols - cols)
        return {
            "south": tuple(now["acc"][at] for at in last) + beyond,
            "south_overflow": tuple(now["acc_overflow"][at] for at in last) + beyond,
        }

    def _drained(self, before: State) -> State:
        """The bottom row leaves, every row loads that above, zeros enter at the top; operands are dropped."""
        acc, flags = [0] * len(before.acc), [0] * len(before.acc)
        for at in self._places(before.mode):
            above = at - (self.cols << before.mode)
            if above >= 0:
                acc[at], flags[at] = before.acc[above], before.acc_overflow[above]
            self._element(before.mode, at)._open(1, acc[at], 0, 0, 0, 0)
        moved: dict[str, Any] = {"acc": tuple(acc), "acc_overflow": tuple(flags), **self._bottom(vars(before))}
        return replace(before, **self._dropped(before), **moved, drain_cycles=before.drain_cycles + 1)

    def _dropped(self, before: State) -> dict[str, Any]:
        """Operand registers and held elements at a drain: nothing (D-olive-50)."""
        none: dict[str, Any] = {}
        for name, count in (("a", len(before.acc)), ("b", len(before.acc))):
            none |= registers(name, [NOTHING] * count)
        for name, count in (("west_held", self.rows), ("north_held", self.cols)):
            none |= registers(name, [NOTHING] * count)
        return none


UNIT: Unit[State, Result] = Unit(
    name="olive_systolic_clocked",
    paper="olive §4.3, §4.5, Fig. 8",
    meaning="output-stationary array, an edge a step, for 4-bit and 8-bit pairs",
    configs={
        "int4_flint4": Config(
            rows=4, cols=2, a="int4", b="flint4", eight="int8", overflow="wrap", split="twos_complement"
        ),
    },
    ports=ports,
    unit_class=OliveSystolicClocked,
    cases=olive_systolic_clocked_cases.cases,
    counters=COUNTERS,
    mark=olive_systolic_clocked_cases.mark,
    closes=olive_systolic_clocked_cases.closes,
    flags={
        "OVERFLOW": Flag(0, "some accumulator at the south left 32 bits: wrapped or saturated (D-olive-33)"),
        "ILLEGAL": Flag(1, "some pair since reset is an identifier beside magnitude 0 (D-olive-18)"),
    },
)
run: RunFunction[Result] = UNIT.run
