"""The real-time converter: comparators find shared exponents while columns arrive, then one aligner shifts the block.

Paper: [harmonia §IV-C, Fig. 14], [harmonia §IV-A (6)]. Two paths share the aligner: per token, eight rows with a
comparator each; V, where a tree over eight rows works for four loops. Composed of bfp_aligner. Decisions: D-harmonia-2
and its neighbours are options of the aligner; D-harmonia-5 (infinity and NaN are refused). The schedule is the model's
own where the paper gives none: two banks, one clock a column, and a port that says whether a column comes.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.units import bfp_converter_cases
from refemu.units.bfp_aligner import PAPER, BfpAligner, options_text
from refemu.units.bfp_converter_matrix_parts import Conversion, place, require_matrix
from refemu.units.bfp_converter_parts import (
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
    Result,
    State,
    drawn,
    ports,
    require_column,
)
from refemu.units.unit import Cases, Config, Flag, Stepped, Unit, admit_events, choices, collect
from refemu.units.unit_cases import Seeds


class BfpConverter(Stepped):
    """The block. One event is one clock: a column may be compared while an earlier block is aligned."""

    name = NAME

    def __init__(
        self, rounding: str = "truncate", special: str = "error", subnormals: str = "keep", zero_sign: str = "keep"
    ) -> None:
        """rounding, special, subnormals, zero_sign: as for `Bfp`."""
        self.aligner = BfpAligner(rounding, special, subnormals, zero_sign)
        self.ports = ports({})
        zeros = (0,) * LANES
        self.state = State(
            "reset",
            -1,
            zeros,
            0,
            0,
            1,
            0,
            0,
            zeros,
            zeros,
            zeros,
            0,
            0,
            0,
            0,
            1,
            EMPTY.emax,
            EMPTY.emax,
            0,
            0,
            EMPTY,
            EMPTY,
            0,
            0,
            0,
            0,
        )

    def step(self, x: Any, valid: Any, kind: Any, m: Any, last: Any, column_valid: Any = None) -> State:
        """One clock.

        x: column of eight fp16 words. valid: mask of its lanes, 0 for a channel that a V block does not have. kind: 0
        token, 1 V. m: mantissa bits of the block. last: the final column of a short block. column_valid: whether a
        column comes in this clock; by default whether some lane is valid.
        Refused: a column while both banks are full; a token column without a lane; another kind, width or (token) mask
        inside a block; a field of 31 in a valid lane; a V loop after one with some lanes missing; `last` inside a V
        loop.
        """
        return self._clock(*self.accept(x, valid, kind, m, last, column_there(valid, column_valid)))

    def _clock(self, x: tuple[int, ...], valid: int, kind: int, m: int, last: int, arrives: int) -> State:
        before = self.state
        if arrives:
            require_column(before, self.aligner, x, valid, kind, m, last)
        inputs = {
            "x": x,
            "valid": valid,
            "kind": kind,
            "m": m,
            "last": last,
            "column_valid": arrives,
            "index": before.index + 1,
        }
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
        self.state = replace(
            before,
            **inputs,
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
        """The bank with one more column, and comparisons made; registers start at 0, a masked lane counts as 0."""
        field = [(self.aligner.admitted(word) >> 10) & 31 if valid >> lane & 1 else 0 for lane, word in enumerate(x)]
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
        found = [self.aligner.align(word, top, bank.m) for word, top in zip(bank.words[at], emax, strict=True)]
        sign, mantissa, exponent = (
            tuple(value * lane for value, lane in zip(values, lanes, strict=True))
            for values in ([e.sign for e in found], [e.mantissa for e in found], emax)
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

    def steps(self, x: Any, valid: Any, kind: Any, m: Any, last: Any, column_valid: Any = None) -> Iterator[State]:
        """Yield the State after every clock of one device; arguments as for `step`, (clocks,) or scalars."""
        arrives = column_there(valid, column_valid)
        arrays = admit_events(self.name, self.ports.inputs, (x, valid, kind, m, last, arrives))
        if arrays[1].ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of clocks, got shape {arrays[1].shape}")
        for column, *rest in zip(*(array.tolist() for array in arrays), strict=True):
            yield self._clock(tuple(column), *rest)

    def draw(self, state: State) -> str:
        """The registers of both banks, and what left the aligner, as text."""
        lines = [f"compare  {drawn(state.comparing)}", f"align    {drawn(state.aligning)}, {state.position} aligned"]
        if state.out_valid:
            lanes = [
                f"{'-' if sign else '+'}{mantissa}/E{exponent}" if state.out_valid >> lane & 1 else "."
                for lane, (sign, mantissa, exponent) in enumerate(
                    zip(state.sign, state.mantissa, state.exponent, strict=True)
                )
            ]
            at = (
                f"column {state.element} tokens {LANES * state.subgroup}.."
                if state.out_kind
                else (f"element {state.element}")
            )
            lines.append(f"out      {KINDS[state.out_kind]} {at}  {'  '.join(lanes)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"BfpConverter({options_text(self.aligner.options)})"


def column_there(valid: Any, column_valid: Any) -> Any:
    """Whether a column comes: `column_valid`, or without it where some lane is valid."""
    return (np.asarray(valid) != 0).astype(np.uint8) if column_valid is None else column_valid


def run_clocks(
    x: Any,
    valid: Any,
    kind: Any,
    m: Any,
    last: Any,
    column_valid: Any = None,
    *,
    rounding: str = "truncate",
    special: str = "error",
    subnormals: str = "keep",
    zero_sign: str = "keep",
) -> Result:
    """Every clock of one device or of many, on the ports.

    x: fp16 words, (..., clocks, 8). valid: masks of eight lanes. kind: 0 token, 1 V. m: 1 to 11. last: 0 or 1.
    column_valid: 0 or 1, as for `BfpConverter.step`. All (..., clocks), and they broadcast; each device, an index of
    the leading axes, starts from reset. rounding, special, subnormals, zero_sign: as for BfpConverter. Returns the
    Result. Refuses what `BfpConverter.step` does.
    Paper: [harmonia §IV-C, Fig. 14].
    """
    converter = BfpConverter(rounding, special, subnormals, zero_sign)
    arrives = column_there(valid, column_valid)
    arrays = admit_events(converter.name, converter.ports.inputs, (x, valid, kind, m, last, arrives))
    shape = arrays[1].shape
    flat = [array.reshape(prod(shape[:-1]), shape[-1], *array.shape[len(shape) :]).tolist() for array in arrays]
    reset, states = converter.state, list[State]()
    counts: dict[str, Any] = dict.fromkeys(COUNTERS, 0)
    for device in zip(*flat, strict=True):
        converter.state = reset
        states += [converter._clock(tuple(column), *rest) for column, *rest in zip(*device, strict=True)]
        counts = {name: count + getattr(converter.state, name) for name, count in counts.items()}
    shown: dict[str, Any] = collect(states, converter.ports.outputs + converter.ports.state, shape)
    return Result(**shown, **counts)


def run(
    x: Any,
    *,
    kind: str = "token",
    m: int = 8,
    rounding: str = "truncate",
    special: str = "error",
    subnormals: str = "keep",
    zero_sign: str = "keep",
) -> Conversion:
    """A whole matrix as a stream of blocks, converted by the stepped unit.

    x: float16 (tokens, channels), at least one of each. kind: "token", groups of 32 channels, blocks of 8 tokens; or
    "v", groups of 32 tokens, blocks of 16 channels; blocks row by row. m: mantissa bits. rounding, special, subnormals,
    zero_sign: as for BfpConverter.
    Returns the Conversion; its tensor equals `Bfp(m).encode(x, axis)` with axis 1 or 0.
    Paper: [harmonia §IV-C, Fig. 14].
    """
    values, fmt = require_matrix(x, kind, m, rounding, special, subnormals, zero_sign)
    fmt.admitted(values, False, BfpConverter.name)  # a refusal names the element of x, not the lane and clock
    converter = BfpConverter(rounding, special, subnormals, zero_sign)
    blocks = list(bfp_converter_cases.blocks(values.view(np.uint16), KINDS.index(kind)))
    codes = [np.zeros(values.shape, np.int64) for _ in range(3)]
    origins = iter(blocks)
    origin = next(origins)
    for state in _stream(converter, [column for block in blocks for column in block.columns], KINDS.index(kind), m):
        if "align" in state.event or "done" in state.event:
            place(state, origin, codes)
        if "done" in state.event:
            origin = next(origins, origin)
    axis = 1 - KINDS.index(kind)
    exponent = codes[2][:, ::GROUP] if axis else codes[2][::GROUP]
    state = converter.state
    return Conversion(
        fmt.tensor(codes[0], codes[1], exponent, axis),
        len(blocks),
        state.index + 1,
        *(getattr(state, name) for name in COUNTERS),
    )


def _stream(converter: BfpConverter, columns: list[Any], kind: int, m: int) -> Iterator[State]:
    """Clocks: every column as soon as a bank is free, then clocks without a column until the last block is out."""
    for x, valid, last in columns:
        while not converter.state.ready:
            yield converter._clock(x, 0, TOKEN, m, 0, 0)
        yield converter._clock(x, valid, kind, m, last, 1)
    while converter.state.aligning.words:
        yield converter._clock((0,) * LANES, 0, TOKEN, m, 0, 0)


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see bfp_converter_cases.py."""
    return bfp_converter_cases.cases(kind, seed)


UNIT = Unit(
    name="bfp_converter",
    version=2,
    paper="harmonia §IV-C, Fig. 14",
    meaning="fp16 columns to block floating point, two paths and one aligner",
    configs={"paper": Config(**PAPER), "exact": Config(**PAPER | {"zero_sign": "canonical"})},
    ports=ports,
    run=run_clocks,
    twin="refemu.units.bfp_converter_jit:run_clocks",
    unit_class=BfpConverter,
    timing="event",
    cases=cases,
    mark=bfp_converter_cases.mark,
    legal=bfp_converter_cases.legal,
    flags={
        "OVERLAP": Flag(0, "a column is compared while an earlier block is aligned"),
        "STALL": Flag(1, "both banks are full: no column may come"),
    },
    alternatives=(
        *choices("D-harmonia-2", "rounding", "half_even", "half_away", "floor"),
        *choices("D-harmonia-4", "subnormals", "flush"),
        *choices("D-harmonia-6", "zero_sign", "keep", "canonical"),
    ),
)
