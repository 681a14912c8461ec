"""Variants of the decisions of olive_systolic_clocked, and of the decoders and elements inside it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from refemu.units.declaration import Changes, DeclaredState
from refemu.units.olive.olive_systolic.olive_systolic import NOTHING
from refemu.units.olive.olive_systolic_clocked.olive_systolic_clocked import Line
from refemu.units.olive.olive_systolic_clocked.olive_systolic_clocked import OliveSystolicClocked as Array
from refemu.units.olive.ovp_decoder.variants import DECODERS
from refemu.units.variant import Variant, choices, of_part, overriding


def _right_first(old: Array, self: Array, *pair: Any) -> Line:
    line = old._decode(*pair)
    return line._replace(enters=line.holds, holds=line.enters)


def _registered_decoder(old: Array, self: Array, *line: Any) -> list[Line]:
    return [
        after._replace(enters=NOTHING if after.decodes else before, holds=after.enters)
        for after, before in zip(old._border(*line), line[-1], strict=True)
    ]


def _overrun(old: Array, self: Array, *line: Any) -> list[Line]:
    side, words, valid, bias, flint, held = line
    gone = [before._replace(valid=0) if there else before for before, there in zip(held, valid, strict=True)]
    return old._border(side, words, valid, bias, flint, gone)


def _every_second_line(old: Array, self: Array, *line: Any) -> list[Line]:
    side, words, valid, *others = line
    if self.state.mode:
        words, valid = (values[::2] + values[1::2] for values in (words, valid))
    return old._border(side, words, valid, *others)


def _every_second_line_bottom(old: Array, self: Array, acc: Sequence[int], flags: Sequence[int]) -> Changes:
    leaves = old._bottom(acc, flags)
    if not self.state.mode:
        return leaves
    half = self.cols // 2
    apart = {name: [value for each in values[:half] for value in (each, 0)] for name, values in leaves.items()}
    return {name: tuple(values) for name, values in apart.items()}


def _keeps_accumulators(old: Array, self: Array, mode: int) -> DeclaredState:
    before, places = self.state, set(self._places(1))
    acc, flags = (
        tuple(value if lane in places else 0 for lane, value in enumerate(values))
        for values in (before.acc, before.acc_overflow)
    )
    return replace(old._emptied(mode), acc=acc, acc_overflow=flags)


_device = overriding(Array)
VARIANTS: tuple[Variant, ...] = (
    *choices("D-olive-14", "eight", "int8_repo"),
    *choices("D-olive-33", "overflow", "saturate"),
    _device("D-olive-38: the right element of a pair enters first", _decode=_right_first),
    _device("D-olive-39: decoders have a register: elements enter an edge later", _border=_registered_decoder),
    _device("D-olive-48: a pair that comes while its line holds an element takes its place", _border=_overrun),
    _device(
        "D-olive-62: 8-bit operands use every second line and column",
        _border=_every_second_line,
        _bottom=_every_second_line_bottom,
    ),
    _device(
        "D-olive-63: 0 at a port of a type is flint4",
        _border=lambda old, self, *line: old._border(
            *line[:-2], 1 - line[-2] if self.a == "port" else line[-2], line[-1]
        ),
    ),
    _device("D-olive-49: a change of width does not clear the accumulators", _emptied=_keeps_accumulators),
    _device("D-olive-50: a drain does not clear operands", _dropped=lambda self: {}),
    _device(
        "D-olive-51: the south border always shows the bottom row",
        _shown=lambda self, acc, flags: self._bottom(acc, flags),
    ),
    *of_part(Array, "decoders", DECODERS[1:]),  # the first is the same device as that of D-olive-38
)
UNOBSERVABLE = {
    "D-olive-36": "Both ways to split an 8-bit integer give one sum; the products of halves are in the registers only."
}
