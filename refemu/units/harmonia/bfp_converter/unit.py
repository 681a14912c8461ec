"""The real-time converter: comparators find shared exponents while columns arrive, then one aligner shifts the block.

Paper: [harmonia §IV-C, Fig. 14], [harmonia §IV-A (6)]. Two paths share the aligner: per token, eight rows with a
comparator each; V, where a tree over eight rows works for four loops. Composed of bfp_aligner. Decisions: D-harmonia-2
and its neighbours are options of the aligner; D-harmonia-5 (infinity and NaN are refused). The schedule is the model's
own where the paper gives none: two banks, one clock a column, and a port that says whether a column comes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu.units.harmonia.bfp_aligner import PAPER, BfpAligner, Rounding, Special, Subnormals, ZeroSign
from refemu.units.harmonia.bfp_converter.registers import (
    COLUMNS,
    COUNTERS,
    EMPTY,
    GROUP,
    KINDS,
    LANES,
    LOOPS,
    NAME,
    TOKEN,
    Bank,
    State,
    drawn,
    ports,
    require_column,
)
from refemu.units.harmonia.cases import bfp_converter as bfp_converter_cases
from refemu.units.ports import Ports
from refemu.units.stepped import Clocked, Result
from refemu.units.unit import Config, Flag, RunFunction, Unit


class BfpConverter(Clocked[State]):
    """Real-time converter: one event is one clock; a column may be compared while an earlier block is aligned.

    References
    ----------
    [harmonia §IV-C, Fig. 14]
    """

    name = NAME

    def __init__(
        self,
        rounding: Rounding = "truncate",
        special: Special = "error",
        subnormals: Subnormals = "keep",
        zero_sign: ZeroSign = "keep",
    ) -> None:
        """Configure the converter; options are those of `Bfp`.

        Parameters
        ----------
        rounding : {"truncate", "half_even", "half_away", "floor"}
            Rounding of a magnitude (D-harmonia-2).
        special : {"error", "hw", "saturate"}
            Infinity and NaN (D-harmonia-5).
        subnormals : {"keep", "flush"}
            Subnormals (D-harmonia-4).
        zero_sign : {"keep", "canonical"}
            Sign of a magnitude of 0 (D-harmonia-6).

        Raises
        ------
        Refused
            An unknown option.
        """
        self.aligner: BfpAligner = BfpAligner(rounding, special, subnormals, zero_sign)
        self.rounding: Rounding = self.aligner.rounding
        self.special: Special = self.aligner.special
        self.subnormals: Subnormals = self.aligner.subnormals
        self.zero_sign: ZeroSign = self.aligner.zero_sign
        self.ports: Ports = ports({})
        self.state: State = self.reset(State, m=1, ready=1, comparing=EMPTY, aligning=EMPTY)

    def step(
        self, x: Sequence[int], valid: int, kind: int, m: int, last: int, column_valid: int | None = None
    ) -> State:
        """Execute one clock; by default a column comes if some lane is valid.

        Refused are a column while both banks are full; a token column without a lane; another kind, width or (token)
        mask inside a block; a field of 31 in a valid lane; a V loop after one with some lanes missing; `last` inside a
        V loop.
        """
        return self._open(*self.accept(x, valid, kind, m, last, column_there(valid, column_valid)))

    def admitted(
        self,
        x: ArrayLike,
        valid: ArrayLike,
        kind: ArrayLike,
        m: ArrayLike,
        last: ArrayLike,
        column_valid: ArrayLike | None = None,
    ) -> list[np.ndarray]:
        """Check the inputs of many clocks, (..., clocks) and lanes."""
        return super().admitted(x, valid, kind, m, last, column_there(valid, column_valid))

    def _open(self, x: tuple[int, ...], valid: int, kind: int, m: int, last: int, arrives: int) -> State:
        before = self.state
        if arrives:
            require_column(before, self.aligner, x, valid, kind, m, last)
        running, events = before.aligning, list[str]()
        outputs, aligned = self._align(running)
        if running.words:
            running = running._replace(position=running.position + 1)
            events.append("done" if running.position == len(running.words) else "align")
            running = EMPTY if running.position == len(running.words) else running
        filling, comparisons, complete = before.comparing, 0, not before.ready
        if arrives:
            filling, comparisons = self.compare(filling, x, valid, kind, m)
            complete = bool(last) or len(filling.words) == (GROUP if kind == TOKEN else LOOPS * COLUMNS)
            events.insert(0, "max" if complete else "compare")
        if complete and not running.words:  # the maxima stand: alignment begins with the next clock
            running, filling, complete = filling, EMPTY, False
        self.state = self.latched(
            x,
            valid,
            kind,
            m,
            last,
            arrives,
            **outputs,
            event=" ".join(events) or "idle",
            ready=int(not complete),
            comparing=filling,
            aligning=running,
            emax=filling.emax,
            align_emax=running.emax,
            filled=len(filling.words),
            position=running.position,
            compare_cycles=before.compare_cycles + arrives,
            align_cycles=before.align_cycles + int(bool(before.aligning.words)),
            comparisons=before.comparisons + comparisons,
            aligned=before.aligned + aligned,
        )
        return self.state

    def compare(self, bank: Bank, x: tuple[int, ...], valid: int, kind: int, m: int) -> tuple[Bank, int]:
        """Put one more column into a bank; registers start at 0, and a masked lane counts as 0.

        Parameters
        ----------
        bank : Bank
            Registers before the column.
        x : tuple of 8 int
            fp16 words.
        valid : int
            Mask of lanes.
        kind : int
            0 token, 1 V.
        m : int
            Mantissa bits.

        Returns
        -------
        bank : Bank
            Registers after the column.
        comparisons : int
            Comparators used.
        """
        field = [(self.aligner.clamped(word) >> 10) & 31 if valid >> lane & 1 else 0 for lane, word in enumerate(x)]
        emax = list(bank.emax)
        if kind == TOKEN:  # a comparator per row
            emax[:LANES] = [max(a, b) for a, b in zip(emax[:LANES], field, strict=True)]
            comparisons = valid.bit_count()
        else:  # the tree, 4 + 2 + 1 comparators, then the register of the column
            column = len(bank.words) % COLUMNS
            while len(field) > 1:
                field = [max(a, b) for a, b in zip(field[::2], field[1::2], strict=True)]
            emax[column] = max(emax[column], field[0])
            comparisons = LANES if valid else 0
        return Bank(kind, m, tuple(emax), (*bank.words, x), (*bank.valid, valid)), comparisons

    def _align(self, bank: Bank) -> tuple[dict[str, Any], int]:
        """The output ports of one clock of alignment (zeros without a block), and how many elements are valid."""
        zeros = (0,) * LANES
        if not bank.words:
            return {
                "sign": zeros,
                "mantissa": zeros,
                "exponent": zeros,
                "out_valid": 0,
                "out_kind": 0,
                "element": 0,
                "subgroup": 0,
            }, 0
        at, element, subgroup = bank.place()
        mask = bank.valid[at]
        lanes = [mask >> lane & 1 for lane in range(LANES)]
        emax = bank.emax[:LANES] if bank.kind == TOKEN else (bank.emax[element],) * LANES
        aligned = [self.aligner.element(word, top, bank.m) for word, top in zip(bank.words[at], emax, strict=True)]
        sign, mantissa, exponent = (
            tuple(value * lane for value, lane in zip(values, lanes, strict=True))
            for values in ([each.sign for each in aligned], [each.mantissa for each in aligned], emax)
        )
        return {
            "sign": sign,
            "mantissa": mantissa,
            "exponent": exponent,
            "out_valid": mask,
            "out_kind": bank.kind,
            "element": element,
            "subgroup": subgroup,
        }, mask.bit_count()

    def draw(self, state: State) -> str:
        """Draw the registers of both banks, and the output of the aligner, as text.

        Parameters
        ----------
        state : State
            Registers to draw.

        Returns
        -------
        str
            Several lines.
        """
        lines = [f"compare  {drawn(state.comparing)}", f"align    {drawn(state.aligning)}, {state.position} aligned"]
        if state.out_valid:
            lanes = [
                f"{'-' if sign else '+'}{mantissa}/E{exponent}" if state.out_valid >> lane & 1 else "."
                for lane, (sign, mantissa, exponent) in enumerate(
                    zip(state.sign, state.mantissa, state.exponent, strict=True)
                )
            ]
            at = f"element {state.element}"
            if state.out_kind:
                at = f"column {state.element} tokens {LANES * state.subgroup}.."
            lines.append(f"out      {KINDS[state.out_kind]} {at}  {'  '.join(lanes)}")
        return "\n".join(lines)


def column_there(valid: ArrayLike, column_valid: ArrayLike | None) -> ArrayLike:
    """Whether a column comes: `column_valid`, or without it where some lane is valid."""
    return (np.asarray(valid) != 0).astype(np.uint8) if column_valid is None else column_valid


UNIT: Unit[State, Result] = Unit(
    name="bfp_converter",
    version=2,
    paper="harmonia §IV-C, Fig. 14",
    meaning="fp16 columns to block floating point, two paths and one aligner",
    configs={"paper": Config(**PAPER), "exact": Config(**PAPER | {"zero_sign": "canonical"})},
    ports=ports,
    unit_class=BfpConverter,
    cases=bfp_converter_cases.cases,
    counters=COUNTERS,
    mark=bfp_converter_cases.mark,
    legal=bfp_converter_cases.legal,
    flags={
        "OVERLAP": Flag(0, "a column is compared while an earlier block is aligned"),
        "STALL": Flag(1, "both banks are full: no column may come"),
    },
)
run: RunFunction[Result] = UNIT.run
