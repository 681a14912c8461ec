"""The real-time converter: comparators find shared exponents while columns arrive, then one aligner shifts the block.

Paper: [harmonia §IV-C, Fig. 14], [harmonia §IV-A (6)]. Two paths share the aligner: per token, eight rows with a
comparator each; V, where a tree over eight rows works for four loops. Composed of bfp_aligner. The schedule is the
model's own where the paper gives none: two banks, one clock a column, and a port that says whether a column comes.
"""

from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused
from refemu.units import AnyUnit, Config, Flag, Lanes, Port, Ports, Result, RunFunction, Unit
from refemu.units.declaration import Changes, DeclaredState, Sequential, constant, decides
from refemu.units.harmonia.bfp_aligner import SPECIAL, Alignment, BfpAligner
from refemu.units.harmonia.bfp_aligner.bfp_aligner import PAPER

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


Words = tuple[int, ...]  #: a word of each of the eight lanes


class BfpConverter(Sequential, Alignment):
    """Real-time converter, a clock a step; a column may be compared while one of an earlier block is aligned.

    The event of such a clock has both names, joined by a space. The unit rejects a column while both banks are full, a
    token column without a lane, another kind, width or (token) mask inside a block, a field of 31 in a valid lane, a V
    loop after a partial one, and `last` inside a V loop.
    """

    name = NAME
    events: ClassVar[tuple[str, ...]] = ("compare", "max", "align", "done", "idle")
    counters: ClassVar[dict[str, str]] = {
        "compare_cycles": "clocks in which a column arrived",
        "align_cycles": "clocks in which a column left",
        "comparisons": "comparisons of two exponents: one for each valid element of a token column, eight for a V "
        "column with a valid lane",
        "aligned": "valid elements put out",
    }
    registers: ClassVar[dict[str, str]] = {
        "comparing": "bank that a block fills: kind, mantissa bits, maxima, columns of words, valid lanes, columns put "
        "out",
        "aligning": "bank whose block is put out: kind, mantissa bits, maxima, columns of words, valid lanes, columns "
        "put out",
    }
    initial: ClassVar[dict[str, Any]] = {"m": 1, "ready": 1, "comparing": EMPTY, "aligning": EMPTY}

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(
                Port("x", 16, LANES, encoding="f16", meaning="a column of the array, a row per lane"),
                Port("valid", LANES, meaning="mask of lanes that hold a row; 0: a channel that a V block lacks"),
                Port("kind", 1, meaning="0 per token, 1 V"),
                Port("m", 4, least=1, most=11, meaning="mantissa bits of the block"),
                Port("last", 1, meaning="final column of a short block"),
                Port("column_valid", 1, meaning="a column comes in this clock; else the other inputs are ignored"),
            ),
            outputs=(
                Port("sign", 1, LANES, meaning="1 = negative"),
                Port("mantissa", 11, LANES, meaning="magnitude in the low m bits"),
                Port("exponent", 5, LANES, meaning="shared exponent of the lane's group"),
                Port("out_valid", LANES, meaning="mask of lanes that were put out"),
                Port("out_kind", 1, meaning="kind of the block that is aligned"),
                Port("element", 5, meaning="token: element of the group; V: column"),
                Port("subgroup", 2, meaning="V: which eight tokens of the group"),
                Port("ready", 1, meaning="a column may come in the next clock"),
            ),
            state=(
                Port("emax", 5, COLUMNS, meaning="maximum registers of the block that is compared"),
                Port("align_emax", 5, COLUMNS, meaning="maximum registers of the block that is aligned"),
                Port("filled", 7, meaning="columns of the block that is compared"),
                Port("position", 7, meaning="columns aligned so far"),
            ),
        )

    @constant
    def aligner(self) -> BfpAligner:
        """The aligner of both paths."""
        return BfpAligner(self.rounding, self.special, self.subnormals, self.zero_sign)

    @constant
    def _silent(self) -> dict[str, Any]:
        """Outputs of a clock in which no column leaves."""
        return {port.name: port.filled(0) for port in self.ports.outputs}

    def validated(
        self,
        x: ArrayLike,
        valid: ArrayLike,
        kind: ArrayLike,
        m: ArrayLike,
        last: ArrayLike,
        column_valid: ArrayLike | None = None,
    ) -> list[np.ndarray]:
        """Check the inputs of many clocks, (..., clocks) and lanes; by default a column comes if some lane is valid."""
        there = (np.asarray(valid) != 0).astype(np.uint8) if column_valid is None else column_valid
        return super().validated(x, valid, kind, m, last, there)

    def opens(self, x: Words, valid: int, kind: int, m: int, last: int, arrives: int) -> str:
        before, names = self.state, list[str]()
        if arrives:
            require_column(before, self.aligner, x, valid, kind, m, last)
            full = len(before.comparing.words) + 1 == (GROUP if kind == TOKEN else LOOPS * COLUMNS)
            names.append("max" if last or full else "compare")
        bank = before.aligning
        if bank.words:
            names.append("done" if bank.position + 1 == len(bank.words) else "align")
        return " ".join(names) or "idle"

    def _open(self, *inputs: Any) -> DeclaredState:
        before, event = self.state, self.opens(*inputs)
        changes = {**self._silent, "comparing": before.comparing, "aligning": before.aligning}
        names = event.split()
        for name in names:
            changes |= getattr(self, name)(*inputs)
        filling, running = changes["comparing"], changes["aligning"]
        complete = not before.ready or "max" in names
        if complete and not running.words:  # the maxima are final: alignment begins with the next clock
            running, filling, complete = filling, EMPTY, False
        changes |= {
            "ready": int(not complete),
            "comparing": filling,
            "aligning": running,
            "emax": filling.emax,
            "align_emax": running.emax,
            "filled": len(filling.words),
            "position": running.position,
        }
        return self._commit(event, inputs, changes)

    def compare(self, x: Words, valid: int, kind: int, m: int, last: int, arrives: int) -> Changes:
        """Take a column and compare its exponents with the maxima so far.

        Registers start at 0, and a masked lane counts as 0.
        """
        bank = self.state.comparing
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
        filled = Bank(kind, m, tuple(emax), (*bank.words, x), (*bank.valid, valid))
        return {"comparing": filled, "compare_cycles": 1, "comparisons": comparisons}

    def max(self, x: Words, valid: int, kind: int, m: int, last: int, arrives: int) -> Changes:
        """Take the last column of a block, which makes its maxima final."""
        return self.compare(x, valid, kind, m, last, arrives)

    @decides("D-harmonia-3")
    def align(self, *inputs: int | Lanes) -> Changes:
        """Shift a column of an earlier block and put it out."""
        bank: Bank = self.state.aligning
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
            "aligning": bank._replace(position=bank.position + 1),
            "align_cycles": 1,
            "aligned": mask.bit_count(),
        }

    def done(self, *inputs: int | Lanes) -> Changes:
        """The last column of it is."""
        return {**self.align(*inputs), "aligning": EMPTY}

    def idle(self, *inputs: int | Lanes) -> Changes:
        """None of these."""
        return {}

    def draw(self, state: DeclaredState) -> str:
        """Draw the registers of both banks, and the output of the aligner, as text."""
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


UNIT: AnyUnit = Unit(
    unit_class=BfpConverter,
    version=2,
    paper="harmonia §IV-C, Fig. 14",
    meaning="fp16 columns to block floating point, two paths and one aligner",
    configs={"paper": Config(**PAPER), "exact": Config(**PAPER | {"zero_sign": "canonical"})},
    flags={
        "OVERLAP": Flag(0, "a column is compared while an earlier block is aligned"),
        "STALL": Flag(1, "both banks are full: no column may come"),
    },
)
State: type[DeclaredState] = BfpConverter.State
run: RunFunction[Result] = UNIT.run
