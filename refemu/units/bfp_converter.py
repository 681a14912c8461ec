"""The real-time converter: comparators find shared exponents while columns arrive, then one aligner shifts the block.

Paper: [harmonia §IV-C, Fig. 14], [harmonia §IV-A (6)]. Two paths share the aligner: per token, eight rows with a
comparator each; V, where a tree over eight rows works for four loops. Composed of bfp_aligner. Decisions: D-harmonia-2
and its neighbours are options of the aligner; D-harmonia-5 (infinity and NaN are refused). The schedule is the model's
own where the paper gives none: two banks, one clock a column; a clock with kind 0 and no valid lane brings nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from refemu.arith.checks import Refused, RefusedType, require_choice, require_int
from refemu.formats import Bfp, BfpTensor
from refemu.units import bfp_converter_cases, unit
from refemu.units.bfp_aligner import PAPER, SPECIAL, BfpAligner, options_text
from refemu.units.unit import Cases, Config, Flag, Port, Ports, Stepped, Unit, admit_events, choices, collect

LANES = 8  #: rows of the array
GROUP = 32  #: elements under one exponent
COLUMNS = 16  #: of the array: channels of a V block
LOOPS = GROUP // LANES  #: of the tree over a V block
TOKEN, V = range(2)  #: kinds
KINDS = ("token", "v")


class Bank(NamedTuple):
    """The registers and the temporary SRAM of one block."""

    kind: int
    m: int
    emax: tuple[int, ...]  #: maximum registers: per row (8 used), or per column
    words: tuple[tuple[int, ...], ...]  #: columns of eight fp16 words, in the order they came
    valid: tuple[int, ...]  #: masks of lanes, one per column
    position: int = 0  #: columns aligned so far

    @property
    def loops(self) -> int:
        """Loops of a V block begun so far."""
        return -(-len(self.words) // COLUMNS)

    def place(self) -> tuple[int, int, int]:
        """What is aligned next: the column it came in, its element of the group or column, its subgroup."""
        if self.kind == TOKEN:
            return self.position, self.position, 0
        column, loop = divmod(self.position, self.loops)
        return loop * COLUMNS + column, column, loop


EMPTY = Bank(TOKEN, 1, (0,) * COLUMNS, (), ())


@dataclass(frozen=True)
class State:
    """Ports and registers after one clock, and what happened since reset."""

    event: str  #: what happened in this clock: some of "compare", "max", "align", "done"; else "reset", "idle"
    index: int  #: number of the clock, -1 for the reset
    x: tuple[int, ...]
    valid: int
    kind: int
    m: int
    last: int
    sign: tuple[int, ...]
    mantissa: tuple[int, ...]
    exponent: tuple[int, ...]
    out_valid: int
    out_kind: int
    element: int
    subgroup: int
    ready: int
    emax: tuple[int, ...]
    align_emax: tuple[int, ...]
    filled: int
    position: int
    comparing: Bank
    aligning: Bank
    compare_cycles: int  #: columns accepted
    align_cycles: int  #: columns put out
    comparisons: int  #: of two exponents
    aligned: int  #: valid elements put out


COUNTERS = ("compare_cycles", "align_cycles", "comparisons", "aligned")


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What the clocks of `run_clocks` show, one row per clock; counters over all devices."""

    sign: np.ndarray  #: bool, (..., 8)
    mantissa: np.ndarray  #: uint16, (..., 8)
    exponent: np.ndarray  #: uint8, (..., 8)
    out_valid: np.ndarray  #: uint8
    out_kind: np.ndarray  #: bool
    element: np.ndarray  #: uint8
    subgroup: np.ndarray  #: uint8
    ready: np.ndarray  #: bool
    emax: np.ndarray  #: uint8, (..., 16)
    align_emax: np.ndarray  #: uint8, (..., 16)
    filled: np.ndarray  #: uint8
    position: np.ndarray  #: uint8
    compare_cycles: int
    align_cycles: int
    comparisons: int
    aligned: int


@dataclass(frozen=True, eq=False)
class Conversion:
    """What `run` returns: the codes, and the counters of the stream of blocks that made them."""

    tensor: BfpTensor
    blocks: int
    cycles: int  #: clocks from the first column to the last aligned one
    compare_cycles: int
    align_cycles: int
    comparisons: int
    aligned: int

    def equals(self, other: object) -> bool:
        """Equal codes and counters."""
        if not isinstance(other, Conversion):
            return False
        names = ("blocks", "cycles", *COUNTERS)
        return self.tensor.equals(other.tensor) and all(getattr(self, n) == getattr(other, n) for n in names)


class BfpConverter(Stepped):
    """The block. One event is one clock: a column may be compared while an earlier block is aligned."""

    name = "bfp_converter"

    def __init__(self, rounding: str = "truncate", special: str = "error", subnormals: str = "keep",
                 zero_sign: str = "keep") -> None:
        """rounding, special, subnormals, zero_sign: as for `Bfp`."""
        self.aligner = BfpAligner(rounding, special, subnormals, zero_sign)
        self.ports = ports({})
        zeros = (0,) * LANES
        self.state = State("reset", -1, zeros, 0, 0, 1, 0, zeros, zeros, zeros, 0, 0, 0, 0, 1, EMPTY.emax, EMPTY.emax,
                           0, 0, EMPTY, EMPTY, 0, 0, 0, 0)

    def step(self, x: Any, valid: Any, kind: Any, m: Any, last: Any) -> State:
        """One clock.

        x: column of eight fp16 words. valid: mask of its lanes. kind: 0 token, 1 V. m: mantissa bits of the block.
        last: the final column of a short block. Kind 0 without a valid lane is a clock without a column.
        Refused: a column while both banks are full; another kind, width or (token) mask inside a block; a field of 31
        in a valid lane; a V loop after one with some lanes missing; `last` inside a V loop.
        """
        return self._clock(*self.accept(x, valid, kind, m, last))

    def _clock(self, x: tuple[int, ...], valid: int, kind: int, m: int, last: int) -> State:
        before = self.state
        arrives = bool(valid or kind == V)
        if arrives:
            self.require_column(x, valid, kind, m, last)
        inputs = {"x": x, "valid": valid, "kind": kind, "m": m, "last": last, "index": before.index + 1}
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
            before, **inputs, **outputs, event=" ".join(events) or "idle", ready=int(not complete), comparing=filling,
            aligning=running, emax=filling.emax, align_emax=running.emax, filled=len(filling.words),
            position=running.position, compare_cycles=before.compare_cycles + int(arrives),
            align_cycles=before.align_cycles + int(bool(before.aligning.words)),
            comparisons=before.comparisons + comparisons, aligned=before.aligned + aligned)
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
            return {"sign": zeros, "mantissa": zeros, "exponent": zeros, "out_valid": 0, "out_kind": 0, "element": 0,
                    "subgroup": 0}, 0
        at, element, subgroup = bank.place()
        mask = bank.valid[at]
        lanes = [mask >> lane & 1 for lane in range(LANES)]
        emax = bank.emax[:LANES] if bank.kind == TOKEN else (bank.emax[element],) * LANES
        found = [self.aligner.align(word, top, bank.m) for word, top in zip(bank.words[at], emax, strict=True)]
        sign, mantissa, exponent = (tuple(value * lane for value, lane in zip(values, lanes, strict=True))
                                    for values in ([e.sign for e in found], [e.mantissa for e in found], emax))
        return {"sign": sign, "mantissa": mantissa, "exponent": exponent, "out_valid": mask, "out_kind": bank.kind,
                "element": element, "subgroup": subgroup}, mask.bit_count()

    def require_column(self, x: tuple[int, ...], valid: int, kind: int, m: int, last: int) -> None:
        """Refuse a column that cannot come now."""
        bank, at = self.state.comparing, f"in clock {self.state.index + 1}"
        if not self.state.ready:
            raise Refused(f"{self.name}: column {at} while both banks are full")
        if bank.words and (kind, m) != (bank.kind, bank.m):
            raise Refused(f"{self.name}: kind {kind} with m {m} {at} inside a block of kind {bank.kind} with m "
                          f"{bank.m}")
        if bank.words and kind == TOKEN and valid != bank.valid[0]:
            raise Refused(f"{self.name}: valid 0x{valid:02x} {at} inside a token block with 0x{bank.valid[0]:02x}")
        if kind == V:
            self._require_loop(bank, last, at)
        for lane, word in enumerate(x):
            if valid >> lane & 1 and self.aligner.align(word, SPECIAL, m).illegal:
                raise Refused(f"{self.name}: x 0x{word:04x} in lane {lane} {at} has exponent field 31, "
                              f"special={self.aligner.options.special!r}")

    def _require_loop(self, bank: Bank, last: int, at: str) -> None:
        """A loop with some lanes missing is the last one, and `last` comes with its last column."""
        loop, column = divmod(len(bank.words), COLUMNS)
        partial = [mask for mask in bank.valid[:loop * COLUMNS] if mask not in (0, 0xFF)]
        if partial:
            raise Refused(f"{self.name}: V loop {loop} {at} after one with valid 0x{partial[0]:02x}; a partial loop "
                          "must be the last")
        if last and column != COLUMNS - 1:
            raise Refused(f"{self.name}: last {at} at column {column} of a V loop, which has {COLUMNS}")

    def steps(self, x: Any, valid: Any, kind: Any, m: Any, last: Any) -> Iterator[State]:
        """Yield the State after every clock of one device; arguments as for `step`, (clocks,) or scalars."""
        arrays = admit_events(self.name, self.ports.inputs, (x, valid, kind, m, last))
        if arrays[1].ndim != 1:
            raise Refused(f"{self.name}: steps takes one sequence of clocks, got shape {arrays[1].shape}")
        for column, *rest in zip(*(array.tolist() for array in arrays), strict=True):
            yield self._clock(tuple(column), *rest)

    def draw(self, state: State) -> str:
        """The registers of both banks, and what left the aligner, as text."""
        lines = [f"compare  {_drawn(state.comparing)}", f"align    {_drawn(state.aligning)}, {state.position} aligned"]
        if state.out_valid:
            lanes = [f"{'-' if sign else '+'}{mantissa}/E{exponent}" if state.out_valid >> lane & 1 else "."
                     for lane, (sign, mantissa, exponent) in
                     enumerate(zip(state.sign, state.mantissa, state.exponent, strict=True))]
            at = f"column {state.element} tokens {LANES * state.subgroup}.." if state.out_kind else (
                f"element {state.element}")
            lines.append(f"out      {KINDS[state.out_kind]} {at}  {'  '.join(lanes)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"BfpConverter({options_text(self.aligner.options)})"


def _drawn(bank: Bank) -> str:
    """One bank: what it holds, and its maximum registers."""
    if not bank.words:
        return "empty"
    used = LANES if bank.kind == TOKEN else COLUMNS
    maxima = " ".join(f"{value:2d}" for value in bank.emax[:used])
    return f"{KINDS[bank.kind]}, m {bank.m}, {len(bank.words)} columns, emax {maxima}"


def run_clocks(x: Any, valid: Any, kind: Any, m: Any, last: Any, *, rounding: str = "truncate", special: str = "error",
               subnormals: str = "keep", zero_sign: str = "keep") -> Result:
    """Every clock of one device or of many, on the ports.

    x: fp16 words, (..., clocks, 8). valid: masks of eight lanes. kind: 0 token, 1 V. m: 1 to 11. last: 0 or 1. All
    (..., clocks), and they broadcast; each device, an index of the leading axes, starts from reset. rounding, special,
    subnormals, zero_sign: as for BfpConverter. Returns the Result. Refuses what `BfpConverter.step` does.
    Paper: [harmonia §IV-C, Fig. 14].
    """
    converter = BfpConverter(rounding, special, subnormals, zero_sign)
    arrays = admit_events(converter.name, converter.ports.inputs, (x, valid, kind, m, last))
    shape = arrays[1].shape
    flat = [array.reshape(prod(shape[:-1]), shape[-1], *array.shape[len(shape):]).tolist() for array in arrays]
    reset, states = converter.state, list[State]()
    counts: dict[str, Any] = dict.fromkeys(COUNTERS, 0)
    for device in zip(*flat, strict=True):
        converter.state = reset
        states += [converter._clock(tuple(column), *rest) for column, *rest in zip(*device, strict=True)]
        counts = {name: count + getattr(converter.state, name) for name, count in counts.items()}
    shown: dict[str, Any] = collect(states, converter.ports.outputs + converter.ports.state, shape)
    return Result(**shown, **counts)


def run(x: Any, *, kind: str = "token", m: int = 8, rounding: str = "truncate", special: str = "error",
        subnormals: str = "keep", zero_sign: str = "keep") -> Conversion:
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
            _place(state, origin, codes)
        if "done" in state.event:
            origin = next(origins, origin)
    axis = 1 - KINDS.index(kind)
    exponent = codes[2][:, ::GROUP] if axis else codes[2][::GROUP]
    state = converter.state
    return Conversion(fmt.tensor(codes[0], codes[1], exponent, axis), len(blocks), state.index + 1,
                      *(getattr(state, name) for name in COUNTERS))


def _stream(converter: BfpConverter, columns: list[Any], kind: int, m: int) -> Iterator[State]:
    """Clocks: every column as soon as a bank is free, then clocks without a column until the last block is out."""
    for x, valid, last in columns:
        while not converter.state.ready:
            yield converter._clock(x, 0, TOKEN, m, 0)
        yield converter._clock(x, valid, kind, m, last)
    while converter.state.aligning.words:
        yield converter._clock((0,) * LANES, 0, TOKEN, m, 0)


def _place(state: State, origin: "bfp_converter_cases.Block", codes: list[np.ndarray]) -> None:
    """Write what the clock put out where its elements came from."""
    row = origin.row + (LANES * state.subgroup if state.out_kind == V else 0)
    for lane in range(LANES):
        if state.out_valid >> lane & 1:
            for array, values in zip(codes, (state.sign, state.mantissa, state.exponent), strict=True):
                array[row + lane, origin.column + state.element] = values[lane]


def require_matrix(x: Any, kind: str, m: int, *options: str) -> tuple[np.ndarray, Bfp]:
    """The matrix of `run`, and the format of its codes."""
    require_choice(kind, KINDS, "bfp_converter", "kind")
    require_int(m, 1, 11, "bfp_converter", "m")
    values = np.asarray(x)
    if values.dtype != np.float16 or values.ndim != 2 or not values.size:
        raise RefusedType(f"bfp_converter: x must be float16 (tokens, channels), at least one of each, got "
                          f"{values.dtype} {values.shape}")
    return np.ascontiguousarray(values), Bfp(m, GROUP, *options)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in any configuration."""
    return Ports(
        inputs=(Port("x", 16, LANES, encoding="f16", meaning="a column of the array, a row per lane"),
                Port("valid", LANES, meaning="mask of lanes that hold a row"),
                Port("kind", 1, meaning="0 per token, 1 V; 0 without a valid lane: no column in this clock"),
                Port("m", 4, least=1, most=11, meaning="mantissa bits of the block"),
                Port("last", 1, meaning="final column of a short block")),
        outputs=(Port("sign", 1, LANES, meaning="1 = negative"),
                 Port("mantissa", 11, LANES, meaning="magnitude in the low m bits"),
                 Port("exponent", 5, LANES, meaning="shared exponent of the lane's group"),
                 Port("out_valid", LANES, meaning="mask of lanes that were put out"),
                 Port("out_kind", 1, meaning="kind of the block that is aligned"),
                 Port("element", 5, meaning="token: element of the group; V: column"),
                 Port("subgroup", 2, meaning="V: which eight tokens of the group"),
                 Port("ready", 1, meaning="the next clock may bring a column")),
        state=(Port("emax", 5, COLUMNS, meaning="maximum registers of the block that is compared"),
               Port("align_emax", 5, COLUMNS, meaning="maximum registers of the block that is aligned"),
               Port("filled", 7, meaning="columns of the block that is compared"),
               Port("position", 7, meaning="columns aligned so far")))


def cases(config: Config, kind: str, seed: int) -> Iterator[Cases]:
    """Golden cases of one kind; see bfp_converter_cases.py."""
    return bfp_converter_cases.cases(kind, seed)


UNIT = Unit(
    name="bfp_converter", paper="harmonia §IV-C, Fig. 14",
    meaning="fp16 columns to block floating point, two paths and one aligner",
    configs={"paper": Config(**PAPER), "exact": Config(**PAPER | {"zero_sign": "canonical"})},
    ports=ports, run=run_clocks, twin="refemu.units.bfp_converter_jit:run_clocks", unit_class=BfpConverter,
    timing="event", cases=cases, mark=bfp_converter_cases.mark, legal=bfp_converter_cases.legal,
    flags={"OVERLAP": Flag(0, "a column is compared while an earlier block is aligned"),
           "STALL": Flag(1, "both banks are full: no column may come")},
    alternatives=(*choices("D-harmonia-2", "rounding", "half_even", "half_away", "floor"),
                  *choices("D-harmonia-4", "subnormals", "flush"),
                  *choices("D-harmonia-6", "zero_sign", "keep", "canonical")),
)
