"""Banks, ports and states of bfp_converter, and its refusals of columns. [harmonia §IV-C, Fig. 14]"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from refemu.arith.checks import Refused
from refemu.units.harmonia.bfp_aligner import SPECIAL, BfpAligner
from refemu.units.ports import Port, Ports

NAME = "bfp_converter"
LANES = 8  #: rows of the array
GROUP = 32  #: elements under one exponent
COLUMNS = 16  #: of the array: channels of a V block
LOOPS = GROUP // LANES  #: of the tree over a V block
TOKEN, V = range(2)  #: kinds
Kind: TypeAlias = Literal["token", "v"]  #: Path of a matrix: groups of 32 channels, or of 32 tokens
KINDS: tuple[Kind, ...] = get_args(Kind)


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
        """Next column to align: its place in the bank, its element of the group or column, its subgroup."""
        if self.kind == TOKEN:
            return self.position, self.position, 0
        column, loop = divmod(self.position, self.loops)
        return loop * COLUMNS + column, column, loop


EMPTY = Bank(TOKEN, 1, (0,) * COLUMNS, (), ())


@dataclass(frozen=True)
class State:
    """Ports and registers after one clock, and what happened since reset."""

    #: what happens in this clock, more than one joined by a space: "compare": a column arrives, and its exponents are
    #: compared with the maxima so far; "max": the last column of a block arrives, and its maxima stand; "align": a
    #: column of an earlier block is shifted and put out; "done": the last column of it is; "idle": none of these;
    #: "reset": no clock yet
    event: str
    index: int  #: number of the clock since reset, from 0; -1 at reset
    x: tuple[int, ...]
    valid: int
    kind: int
    m: int
    last: int
    column_valid: int
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
    #: bank that a block fills: kind, mantissa bits, maxima, columns of words, valid lanes, columns put out
    comparing: Bank
    #: bank whose block is put out: kind, mantissa bits, maxima, columns of words, valid lanes, columns put out
    aligning: Bank
    compare_cycles: int  #: clocks in which a column arrived
    align_cycles: int  #: clocks in which a column was put out
    #: comparisons of two exponents: one for each valid element of a token column, eight for a V column with a valid
    #: lane
    comparisons: int
    aligned: int  #: valid elements put out


COUNTERS = ("compare_cycles", "align_cycles", "comparisons", "aligned")


def require_column(
    state: State, aligner: BfpAligner, x: tuple[int, ...], valid: int, kind: int, m: int, last: int
) -> None:
    """Refuse a column that cannot come after `state`."""
    bank, at = state.comparing, f"in clock {state.index + 1}"
    if kind == TOKEN and not valid:
        raise Refused(f"{NAME}: column {at} without a valid lane, of kind {KINDS[TOKEN]}")
    if not state.ready:
        raise Refused(f"{NAME}: column {at} while both banks are full")
    if bank.words and (kind, m) != (bank.kind, bank.m):
        raise Refused(f"{NAME}: kind {kind} with m {m} {at} inside a block of kind {bank.kind} with m {bank.m}")
    if bank.words and kind == TOKEN and valid != bank.valid[0]:
        raise Refused(f"{NAME}: valid 0x{valid:02x} {at} inside a token block with 0x{bank.valid[0]:02x}")
    if kind == V:
        _require_loop(bank, last, at)
    for lane, word in enumerate(x):
        if valid >> lane & 1 and aligner.element(word, SPECIAL, m).illegal:
            raise Refused(
                f"{NAME}: x 0x{word:04x} in lane {lane} {at} has exponent field 31, special={aligner.special!r}"
            )


def _require_loop(bank: Bank, last: int, at: str) -> None:
    """A loop with some lanes missing is the last one, and `last` comes with its last column."""
    loop, column = divmod(len(bank.words), COLUMNS)
    partial = [mask for mask in bank.valid[: loop * COLUMNS] if mask not in (0, 0xFF)]
    if partial:
        raise Refused(
            f"{NAME}: V loop {loop} {at} after one with valid 0x{partial[0]:02x}; a partial loop must be the last"
        )
    if last and column != COLUMNS - 1:
        raise Refused(f"{NAME}: last {at} at column {column} of a V loop, which has {COLUMNS}")


def drawn(bank: Bank) -> str:
    """One bank: what it holds, and its maximum registers."""
    if not bank.words:
        return "empty"
    used = LANES if bank.kind == TOKEN else COLUMNS
    maxima = " ".join(f"{value:2d}" for value in bank.emax[:used])
    return f"{KINDS[bank.kind]}, m {bank.m}, {len(bank.words)} columns, emax {maxima}"


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in any configuration."""
    return Ports(
        inputs=(
            Port("x", 16, LANES, encoding="f16", meaning="a column of the array, a row per lane"),
            Port("valid", LANES, meaning="mask of lanes that hold a row; 0: a channel that a V block lacks"),
            Port("kind", 1, meaning="0 per token, 1 V"),
            Port("m", 4, least=1, most=11, meaning="mantissa bits of the block"),
            Port("last", 1, meaning="final column of a short block"),
            Port("column_valid", 1, meaning="a column comes in this clock; else the other inputs say nothing"),
        ),
        outputs=(
            Port("sign", 1, LANES, meaning="1 = negative"),
            Port("mantissa", 11, LANES, meaning="magnitude in the low m bits"),
            Port("exponent", 5, LANES, meaning="shared exponent of the lane's group"),
            Port("out_valid", LANES, meaning="mask of lanes that were put out"),
            Port("out_kind", 1, meaning="kind of the block that is aligned"),
            Port("element", 5, meaning="token: element of the group; V: column"),
            Port("subgroup", 2, meaning="V: which eight tokens of the group"),
            Port("ready", 1, meaning="the next clock may bring a column"),
        ),
        state=(
            Port("emax", 5, COLUMNS, meaning="maximum registers of the block that is compared"),
            Port("align_emax", 5, COLUMNS, meaning="maximum registers of the block that is aligned"),
            Port("filled", 7, meaning="columns of the block that is compared"),
            Port("position", 7, meaning="columns aligned so far"),
        ),
    )
