"""The output-stationary systolic array, cycle-accurate: an edge is a cycle of every decoder and element.

Paper: [olive §4.3, §4.5, Fig. 8]. Composed of ovp_decoder, one for each border line, and of the elements: olive_mac
for 4-bit operands, olive_pe8 in place of four of them for 8-bit ones. Port `wide` selects the width, ports `flint_a`
and `flint_b` the types of 4-bit operands. The source of the pairs makes the skew: line i gets its pairs i edges later
than line 0 (D-olive-39).
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from refemu.arith.checks import Refused
from refemu.units import Result, RunFunction
from refemu.units.declaration import Changes, DeclaredState, Sequential, constant, decides
from refemu.units.olive.olive_edp import OPERANDS
from refemu.units.olive.olive_mac import ACC_BITS, OliveMac, OverflowMode
from refemu.units.olive.olive_pe8 import PES, OlivePe8, Split
from refemu.units.olive.olive_systolic import Operand
from refemu.units.olive.olive_systolic.olive_systolic import NOTHING
from refemu.units.olive.ovp_decoder import OvpDecoder
from refemu.units.ports import Lanes, Port, Ports
from refemu.units.unit import AnyUnit, Config, Flag, Unit

MOST = 64  #: rows or columns of 4-bit elements [olive §4.3]
Narrow = Literal["int4", "flint4"]  #: Type of a 4-bit operand
Typed = Literal["int4", "flint4", "port"]  #: Type of 4-bit operands of an array; "port": an input says which
TYPES: tuple[Narrow, Narrow] = ("int4", "flint4")  #: values 0 and 1 of such an input
Wide = Literal["int8", "int8_repo"]  #: Type of 8-bit operands; "repo": with the outliers of the published code
Values = tuple[int, ...]  #: a value for each line, or each element row by row


class Line(NamedTuple):
    """A border line in one edge."""

    enters: Operand  #: into the array
    holds: Operand  #: for the next edge
    decodes: int
    illegal: int


class OliveSystolicClocked(Sequential):
    """Output-stationary array, an edge a step. Registers of an 8-bit element are those of its top left 4-bit one."""

    name = "olive_systolic_clocked"
    events: ClassVar[tuple[str, ...]] = ("compute", "drain")
    counters: ClassVar[dict[str, str]] = {
        "cycles": "clock edges since reset",
        "compute_cycles": 'clock edges with event "compute"',
        "drain_cycles": 'clock edges with event "drain"',
        "decodes": "pairs decoded at both borders",
        "decoder_idle": 'edges of "compute" in which a border line decoded no pair, summed over the lines',
        "macs": "products added to an accumulator",
        "idle": 'edges of "compute" in which an element had no product to add, summed over the elements',
        "overflows": "products that made an accumulator exceed 32 bits",
    }
    #: rows of 4-bit elements, even, 2 to 64; 8-bit elements are half as many either way
    rows: Annotated[int, 2, MOST] = 8
    cols: Annotated[int, 2, MOST] = 8  #: columns of 4-bit elements, as for rows
    a: Typed = "int4"  #: type of 4-bit operands of A; "port": an input says which (D-olive-63)
    b: Typed = "int4"  #: type of 4-bit operands of B, likewise; both have an input, or neither
    eight: Wide = "int8"  #: type of 8-bit operands (D-olive-14)
    overflow: OverflowMode = "wrap"  #: rule for an accumulator that exceeds 32 bits (D-olive-33)
    split: Split = "twos_complement"  #: halves of an 8-bit integer (D-olive-36)

    def check(self) -> None:
        if self.rows % 2 or self.cols % 2:
            raise Refused(f"{self.name}: rows and cols must be even, got {self.rows}, {self.cols}")
        if (self.a == "port") != (self.b == "port"):
            raise Refused(f"{self.name}: a and b must both be port, or neither, got {self.a}, {self.b}")

    @constant
    def ports(self) -> Ports:
        rows, cols, elements = self.rows, self.cols, self.rows * self.cols
        borders = (("west", rows, "array row", "A"), ("north", cols, "array column", "B"))
        pairs = [
            port
            for side, lines, line, matrix in borders
            for port in (
                Port(side, 16, lines, meaning=f"a pair of {matrix} for each {line}; 4-bit codes in the low half"),
                Port(f"{side}_valid", 1, lines, meaning="the line has a pair"),
            )
        ]
        return Ports(
            inputs=(
                Port("wide", 1, meaning="operands have 8 bits"),
                Port("drain", 1, meaning="accumulators move south; nothing enters, nothing is multiplied"),
                *pairs,
                Port("bias_a", 4, meaning="outlier bias of A"),
                Port("bias_b", 4, meaning="outlier bias of B"),
                *(
                    Port(f"flint_{side}", 1, meaning=f"4-bit pairs of {side.upper()} are flint4, else int4")
                    for side in ("a", "b")
                    if self.a == "port"
                ),
            ),
            outputs=(
                Port("south", ACC_BITS, cols, signed=True, meaning="at a drain, the accumulators of the bottom row"),
                Port("south_overflow", 1, cols, meaning="a product of the accumulator exceeded 32 signed bits"),
                Port("illegal", 1, meaning="a pair since reset is illegal; it contributes 0"),
            ),
            state=(
                Port("mode", 1, meaning="operands in transit have 8 bits"),
                *(port for side, lines, *_ in borders for port in _ports(f"{side}_held", lines, "held by the line")),
                *_ports("a", elements, "that the east neighbour reads"),
                *_ports("b", elements, "that the south neighbour reads"),
                Port("partial", 10, elements, signed=True, meaning="products of halves, four for each 8-bit element"),
                Port("acc", ACC_BITS, elements, signed=True, meaning="accumulators"),
                Port("acc_overflow", 1, elements, meaning="a product of the accumulator exceeded 32 signed bits"),
            ),
        )

    @constant
    def decoders(self) -> tuple[list[tuple[OvpDecoder, ...]], ...]:
        """Decoders of the west and of the north border, for 4-bit and, last, for 8-bit pairs."""
        sides: tuple[tuple[Typed, int], ...] = ((self.a, self.rows), (self.b, self.cols))
        return tuple([self._decoders(narrow) for _ in range(lines)] for narrow, lines in sides)

    @decides("D-olive-18", "D-olive-20")
    def _decoders(self, narrow: Typed) -> tuple[OvpDecoder, ...]:
        """Decoders of one line."""
        return tuple(OvpDecoder(*OPERANDS[kind]) for kind in (*types(narrow), self.eight))

    @constant
    def elements(self) -> list[OliveMac]:
        """The 4-bit elements, row by row."""
        return [OliveMac(overflow=self.overflow) for _ in range(self.rows * self.cols)]

    @constant
    def quads(self) -> dict[int, OlivePe8]:
        """The 8-bit elements, by the lane of their top left 4-bit one."""
        return {at: OlivePe8(self.split, self.overflow) for at in self._places(1)}

    @constant
    def _in_step(self) -> DeclaredState | None:
        """The State whose accumulators the elements have now."""
        return None

    def grid(self, mode: int) -> tuple[int, int]:
        """Rows and columns of elements for operands of 4 bits (mode 0) or 8 bits (mode 1)."""
        return self.rows >> mode, self.cols >> mode

    def _places(self, mode: int) -> list[int]:
        """Lane of each element, row by row; for an 8-bit element the lane of its top left 4-bit element."""
        rows, cols = self.grid(mode)
        return [(i * self.cols + j) << mode for i in range(rows) for j in range(cols)]

    def _open(self, *inputs: Any) -> DeclaredState:
        if self.state is not self._in_step:
            self._enter()
        if inputs[0] != self.state.mode:
            self.state: DeclaredState = self._emptied(inputs[0])
            self._enter()
        self._in_step = super()._open(*inputs)
        return self._in_step

    def _enter(self) -> None:
        """Give the elements the accumulators of the State."""
        acc, mode = self.state.acc, self.state.mode
        for at, element in enumerate(self.elements):
            element.state = element.changed(acc=0 if mode else acc[at])
        for at, quad in self.quads.items():
            quad.state = quad.changed(acc=acc[at] if mode else 0)

    @decides("D-olive-49")
    def _emptied(self, mode: int) -> DeclaredState:
        """Change the operand width: drop everything in transit, clear accumulators."""
        return self.changed(**{port.name: port.filled(0) for port in self.ports.state} | {"mode": mode})

    def opens(self, wide: int, drain: int, *others: int | Lanes) -> str:
        return "drain" if drain else "compute"

    def compute(
        self,
        wide: int,
        drain: int,
        west: Values,
        west_valid: Values,
        north: Values,
        north_valid: Values,
        bias_a: int,
        bias_b: int,
        flint_a: int = 0,
        flint_b: int = 0,
    ) -> Changes:
        """Move operands one element east and south, let pairs enter at the west and north borders, add products.

        Every element reads its neighbours' registers of the last edge, or its border line.
        """
        before, (rows, cols) = self.state, self.grid(wide)
        of_rows = self._border(0, west, west_valid, bias_a, flint_a, operands(before, "west_held"))
        of_cols = self._border(1, north, north_valid, bias_b, flint_b, operands(before, "north_held"))
        old_a, old_b = operands(before, "a"), operands(before, "b")
        a, b = [NOTHING] * len(old_a), [NOTHING] * len(old_b)
        acc, flags, partial = list(before.acc), list(before.acc_overflow), [0] * len(before.partial)
        macs = overflows = 0
        for place, at in enumerate(self._places(wide)):
            i, j = divmod(place, cols)
            x = a[at] = old_a[at - (1 << wide)] if j else of_rows[i].enters
            y = b[at] = old_b[at - (self.cols << wide)] if i else of_cols[j].enters
            if x.valid and y.valid:
                done = self._element(wide, at)._open(0, 0, x.exponent, x.integer, y.exponent, y.integer)
                acc[at], flags[at] = done.acc, flags[at] | done.overflow
                macs, overflows = macs + 1, overflows + done.overflow
                if wide:
                    for part, product in enumerate(done.partial):
                        partial[PES * place + part] = product
        decodes = len([line for line in (*of_rows, *of_cols) if line.decodes])
        return {
            **registers("west_held", [line.holds for line in of_rows]),
            **registers("north_held", [line.holds for line in of_cols]),
            **registers("a", a),
            **registers("b", b),
            "partial": tuple(partial),
            "acc": tuple(acc),
            "acc_overflow": tuple(flags),
            **self._shown(acc, flags),
            "illegal": before.illegal | int(any(line.illegal for line in (*of_rows, *of_cols))),
            "cycles": 1,
            "compute_cycles": 1,
            "decodes": decodes,
            "decoder_idle": rows + cols - decodes,
            "macs": macs,
            "idle": rows * cols - macs,
            "overflows": overflows,
        }

    def _element(self, mode: int, at: int) -> Any:
        """The unit that multiplies at a lane."""
        return self.quads[at] if mode else self.elements[at]

    @decides("D-olive-39", "D-olive-48", "D-olive-62", "D-olive-63")
    def _border(
        self, side: int, words: Values, valid: Values, bias: int, flint: int, held: Sequence[Operand]
    ) -> list[Line]:
        """What the lines at the west (0) or north (1) do in an edge; 8-bit pairs use the first half of them.

        Both elements of a pair have the type that the input has when the pair enters.
        """
        mode = self.state.mode
        kind = -1 if mode else flint
        return [
            self._decode(decoders[kind], words[at], bias)
            if at < self.grid(mode)[side] and valid[at] and not held[at].valid
            else Line(held[at], NOTHING, 0, 0)  # D-olive-48
            for at, decoders in enumerate(self.decoders[side])
        ]

    @decides("D-olive-38")
    def _decode(self, decoder: OvpDecoder, word: int, bias: int) -> Line:
        """Both elements of a pair: the left one enters now, the right one in the next edge."""
        done = decoder._open(word & ((1 << 2 * decoder.width) - 1), bias)
        first, second = (Operand(1, e, i) for e, i in zip(done.exponent, done.base_int, strict=True))
        return Line(first, second, 1, done.illegal)

    @decides("D-olive-51")
    def _shown(self, acc: Sequence[int], flags: Sequence[int]) -> Changes:
        """What the south border shows without a drain: nothing."""
        return {"south": (0,) * self.cols, "south_overflow": (0,) * self.cols}

    def _bottom(self, acc: Sequence[int], flags: Sequence[int]) -> Changes:
        """Accumulators and flags of the bottom row of elements."""
        rows, cols = self.grid(self.state.mode)
        last, beyond = self._places(self.state.mode)[(rows - 1) * cols :], (0,) * (self.cols - cols)
        return {"south": (*(acc[at] for at in last), *beyond), "south_overflow": (*(flags[at] for at in last), *beyond)}

    def drain(self, wide: int, *others: int | Lanes) -> Changes:
        """Move accumulators one row south; the bottom row leaves, zeros enter at the top."""
        before, elements = self.state, self.rows * self.cols
        acc, flags = [0] * elements, [0] * elements
        for at in self._places(wide):
            above = at - (self.cols << wide)
            if above >= 0:
                acc[at], flags[at] = before.acc[above], before.acc_overflow[above]
            self._element(wide, at)._open(1, acc[at], 0, 0, 0, 0)
        moved = {"partial": (0,) * elements, "acc": tuple(acc), "acc_overflow": tuple(flags)}
        leaves = self._bottom(before.acc, before.acc_overflow)
        return {**self._dropped(), **moved, **leaves, "cycles": 1, "drain_cycles": 1}

    @decides("D-olive-50")
    def _dropped(self) -> Changes:
        """Operand registers and held elements at a drain: nothing."""
        lines, elements = {"west_held": self.rows, "north_held": self.cols}, self.rows * self.cols
        none: dict[str, Any] = {}
        for name, count in {**lines, "a": elements, "b": elements}.items():
            none |= registers(name, [NOTHING] * count)
        return none


def types(narrow: Typed) -> tuple[Narrow, ...]:
    """Types of 4-bit pairs that a border reads, in the order of the values of its input."""
    return TYPES if narrow == "port" else (narrow,)


def operands(state: DeclaredState, name: str) -> list[Operand]:
    """Registers `name`_valid, `name`_exponent and `name`_integer of a State, lane by lane."""
    return list(map(Operand, *(getattr(state, f"{name}_{field}") for field in Operand._fields)))


def registers(name: str, values: Sequence[Operand]) -> dict[str, Values]:
    """Operands, lane by lane, as the fields of a State."""
    return {f"{name}_{field}": each for field, each in zip(Operand._fields, zip(*values, strict=True), strict=True)}


def _ports(name: str, lines: int, which: str) -> tuple[Port, ...]:
    """The registers of operands."""
    return (
        Port(f"{name}_valid", 1, lines, meaning=f"there is an element {which}"),
        Port(f"{name}_exponent", 5, lines, meaning="its exponent"),
        Port(f"{name}_integer", 8, lines, signed=True, meaning="its integer"),
    )


UNIT: AnyUnit = Unit(
    unit_class=OliveSystolicClocked,
    paper="olive §4.3, §4.5, Fig. 8",
    meaning="output-stationary array, an edge a step, for 4-bit and 8-bit pairs",
    configs={
        "int4_flint4": Config(
            rows=4, cols=2, a="int4", b="flint4", eight="int8", overflow="wrap", split="twos_complement"
        ),
        "mixed": Config(rows=4, cols=2, a="port", b="port", eight="int8", overflow="wrap", split="twos_complement"),
    },
    flags={
        "OVERFLOW": Flag(
            0, "an accumulator at the south exceeded 32 bits: wrapped or saturated (D-olive-33)", "south_overflow"
        ),
        "ILLEGAL": Flag(1, "a pair since reset is an identifier next to magnitude 0 (D-olive-18)", "illegal"),
    },
)
State: type[DeclaredState] = OliveSystolicClocked.State
run: RunFunction[Result] = UNIT.run
