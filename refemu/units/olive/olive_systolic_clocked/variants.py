"""Variants of the decisions of olive_systolic_clocked, and of the decoders and elements inside it."""

from collections.abc import Sequence
from dataclasses import replace

from refemu.units.declaration import Changes, DeclaredState
from refemu.units.olive.olive_systolic import Operand
from refemu.units.olive.olive_systolic.olive_systolic import NOTHING
from refemu.units.olive.olive_systolic_clocked.olive_systolic_clocked import Line, OliveSystolicClocked, Values
from refemu.units.olive.ovp_decoder import OvpDecoder
from refemu.units.olive.variants.pairs import DECODERS
from refemu.units.variant import Variant, choices, of_part, replaces, variants_of


class Devices(OliveSystolicClocked):
    """Methods of other designs."""

    @replaces("_decode", "D-olive-38", "the right element of a pair enters first")
    def right_first(self, decoder: OvpDecoder, word: int, bias: int) -> Line:
        line = super()._decode(decoder, word, bias)
        return line._replace(enters=line.holds, holds=line.enters)

    @replaces("_border", "D-olive-39", "decoders have a register: elements enter an edge later")
    def registered_decoder(
        self, side: int, words: Values, valid: Values, bias: int, flint: int, held: Sequence[Operand]
    ) -> list[Line]:
        lines = super()._border(side, words, valid, bias, flint, held)
        return [
            line._replace(enters=NOTHING if line.decodes else before, holds=line.enters)
            for line, before in zip(lines, held, strict=True)
        ]

    @replaces("_border", "D-olive-48", "a pair that comes while its line holds an element takes its place")
    def overrun(
        self, side: int, words: Values, valid: Values, bias: int, flint: int, held: Sequence[Operand]
    ) -> list[Line]:
        gone = [before._replace(valid=0) if there else before for before, there in zip(held, valid, strict=True)]
        return super()._border(side, words, valid, bias, flint, gone)

    @replaces("_border", "D-olive-62", "8-bit operands use every second line and column")
    def every_second_line(
        self, side: int, words: Values, valid: Values, bias: int, flint: int, held: Sequence[Operand]
    ) -> list[Line]:
        if self.state.mode:
            words, valid = (values[::2] + values[1::2] for values in (words, valid))
        return super()._border(side, words, valid, bias, flint, held)

    @replaces("_bottom", "D-olive-62", "8-bit operands use every second line and column")
    def every_second_line_bottom(self, acc: Sequence[int], flags: Sequence[int]) -> Changes:
        leaves = super()._bottom(acc, flags)
        if not self.state.mode:
            return leaves
        half = self.cols // 2
        apart = {name: [value for each in values[:half] for value in (each, 0)] for name, values in leaves.items()}
        return {name: tuple(values) for name, values in apart.items()}

    @replaces("_border", "D-olive-63", "0 at a port of a type is flint4")
    def flint_is_zero(
        self, side: int, words: Values, valid: Values, bias: int, flint: int, held: Sequence[Operand]
    ) -> list[Line]:
        return super()._border(side, words, valid, bias, 1 - flint if self.a == "port" else flint, held)

    @replaces("_emptied", "D-olive-49", "a change of width does not clear the accumulators")
    def keeps_accumulators(self, mode: int) -> DeclaredState:
        before, places = self.state, set(self._places(1))
        acc, flags = (
            tuple(value if lane in places else 0 for lane, value in enumerate(values))
            for values in (before.acc, before.acc_overflow)
        )
        return replace(super()._emptied(mode), acc=acc, acc_overflow=flags)

    @replaces("_dropped", "D-olive-50", "a drain does not clear operands")
    def keeps_operands(self) -> Changes:
        return {}

    @replaces("_shown", "D-olive-51", "the south border always shows the bottom row")
    def shows_bottom(self, acc: Sequence[int], flags: Sequence[int]) -> Changes:
        return self._bottom(acc, flags)


VARIANTS: tuple[Variant, ...] = (
    *choices("D-olive-14", "eight", "int8_repo"),
    *choices("D-olive-33", "overflow", "saturate"),
    *variants_of(Devices),
    *of_part(OliveSystolicClocked, "decoders", DECODERS[1:]),  # the first is the same device as that of D-olive-38
)
UNOBSERVABLE = {
    "D-olive-36": "Both ways to split an 8-bit integer give one sum; the products of halves are in the registers only."
}
