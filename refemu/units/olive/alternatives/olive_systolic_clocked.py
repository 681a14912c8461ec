"""Other answers to the decisions of olive_systolic_clocked, and of the decoders and elements inside it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from refemu.units.alternative import Alternative, choices
from refemu.units.olive.alternatives import ovp_decoder
from refemu.units.olive.alternatives.pairs import DECODERS
from refemu.units.olive.olive_edp import OPERANDS
from refemu.units.olive.olive_systolic_clocked.registers import NOTHING, Line, Narrow, State
from refemu.units.olive.olive_systolic_clocked.unit import OliveSystolicClocked
from refemu.units.olive.ovp_decoder import OvpDecoder


class RightFirst(OliveSystolicClocked):
    """The right element of a pair enters first."""

    def _decode(self, decoder: OvpDecoder, word: int, bias: int) -> Line:
        line = super()._decode(decoder, word, bias)
        return line._replace(enters=line.holds, holds=line.enters)


class RegisteredDecoder(OliveSystolicClocked):
    """A decoder's output goes through a register: elements enter one edge later, one edge apart."""

    def _border(self, before: State, side: str, count: int) -> list[Line]:
        held, lines = before.operands(f"{side}_held"), []
        for at, line in enumerate(super()._border(before, side, count)):
            lines.append(line._replace(enters=NOTHING if line.decodes else held[at], holds=line.enters))
        return lines


class Overrun(OliveSystolicClocked):
    """A pair that comes while its line holds an element is decoded, and the held element is lost."""

    def _border(self, before: State, side: str, count: int) -> list[Line]:
        lines = len(getattr(before, side))
        gone: dict[str, Any] = {f"{side}_held_valid": (0,) * lines}
        valid = getattr(before, f"{side}_valid")
        every, fresh = super()._border(before, side, count), super()._border(replace(before, **gone), side, count)
        return [new if valid[at] else old for at, (old, new) in enumerate(zip(every, fresh, strict=True))]


class KeepsOperands(OliveSystolicClocked):
    """A drain leaves operands and held elements where they are."""

    def _dropped(self, before: State) -> dict[str, Any]:
        return {}


class KeepsAccumulators(OliveSystolicClocked):
    """A change of width drops operands; accumulators go on."""

    def _changed(self, before: State) -> State:
        after = super()._changed(before)
        at = set(self._places(1))
        acc = tuple(value if lane in at else 0 for lane, value in enumerate(before.acc))
        flags = tuple(value if lane in at else 0 for lane, value in enumerate(before.acc_overflow))
        after = replace(after, acc=acc, acc_overflow=flags)
        self._enter(after)
        return after


class ShowsBottom(OliveSystolicClocked):
    """The south border shows the bottom row in every edge."""

    def _shown(self, now: Mapping[str, Any]) -> dict[str, Any]:
        return self._bottom(now)


def _with(kind: type[OvpDecoder]) -> type[OliveSystolicClocked]:
    class Exchanged(OliveSystolicClocked):
        def _decoders(self, narrow: Narrow) -> tuple[OvpDecoder, OvpDecoder]:
            return kind(*OPERANDS[narrow]), kind(*OPERANDS[self.eight])

    return Exchanged


ALTERNATIVES: tuple[Alternative, ...] = (
    *choices("D-olive-14", "eight", "int8_repo"),
    *choices("D-olive-33", "overflow", "saturate"),
    Alternative("D-olive-38", "the right element of a pair enters first", variant=RightFirst),
    Alternative("D-olive-39", "decoders have a register: elements enter an edge later", variant=RegisteredDecoder),
    Alternative("D-olive-48", "a pair that comes while its line holds an element takes its place", variant=Overrun),
    Alternative("D-olive-49", "a change of width leaves the accumulators as they are", variant=KeepsAccumulators),
    Alternative("D-olive-50", "a drain leaves operands where they are", variant=KeepsOperands),
    Alternative("D-olive-51", "the south border always shows the bottom row", variant=ShowsBottom),
    *(
        Alternative(decision, says, variant=_with(kind))
        for decision, says, kind in DECODERS
        if kind is not ovp_decoder.LeftHigh  # RightFirst, in other words
    ),
)
UNOBSERVABLE = {
    "D-olive-36": "Both ways to split an 8-bit integer give one sum; the products of halves are in the registers only."
}
