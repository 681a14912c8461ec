"""Banks of bfp_converter, and checks of its columns. [harmonia §IV-C, Fig. 14]"""

from typing import Literal, NamedTuple, TypeAlias, get_args

from refemu.arith.checks import Refused
from refemu.units.declaration import DeclaredState
from refemu.units.harmonia.bfp_aligner import SPECIAL, BfpAligner

NAME = "bfp_converter"
LANES = 8  #: rows of the array
GROUP = 32  #: elements under one exponent
COLUMNS = 16  #: columns of the array: channels of a V block
LOOPS = GROUP // LANES  #: loops of the tree over a V block
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
        """Next column to align: its place in the bank, its element of the group or its column, its subgroup."""
        if self.kind == TOKEN:
            return self.position, self.position, 0
        column, loop = divmod(self.position, self.loops)
        return loop * COLUMNS + column, column, loop


EMPTY = Bank(TOKEN, 1, (0,) * COLUMNS, (), ())


def require_column(
    state: DeclaredState, aligner: BfpAligner, x: tuple[int, ...], valid: int, kind: int, m: int, last: int
) -> None:
    """Reject a column that cannot come after `state`."""
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
    """Check that a partial loop is the last one, and that `last` comes with its last column."""
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
