"""The MX converter: a block of one element format to a block of another, rounded once [ocp MX 1.0 §6.3].

A block is decoded to integers times powers of two, never to float32, so no element is rounded twice and none overflows.
Decisions: those of mx_encoder, and D-mx-7 (a block that holds NaN or infinity).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refemu.arith import Refused
from refemu.units import Config, Flag, Port, Ports, Result, RunFunction, Unit
from refemu_mx.block_device import BlockDevice, BlockState
from refemu_mx.cases import mx_converter as mx_converter_cases
from refemu_mx.elements import Element, ElementName
from refemu_mx.mx_encoder import BIAS, BLOCK, NAN, RULES, Magnitude, Rule, element_of, quantize, scale_code


@dataclass(frozen=True)
class State(BlockState):
    """Everything after a block."""

    scale_in: int
    codes_in: tuple[int, ...]


class MxConverter(BlockDevice[State]):
    """Converter of blocks; one event is one block."""

    name = "mx_converter"
    does = "convert"

    def __init__(self, source: ElementName = "e4m3", target: ElementName = "e2m1", rule: Rule = "floor") -> None:
        """Choose both element formats and the rule of the new scale.

        Parameters
        ----------
        source, target : str
            Element formats.
        rule : str
            Rule of the scale, as of mx_encoder (D-mx-1).

        Raises
        ------
        Refused
            Unknown element or rule.
        """
        self.source, self.target, self.rule = source, target, rule
        self.formats = element_of(source, self.name), element_of(target, self.name)
        if rule not in RULES:
            raise Refused(f"{self.name}: rule must be one of {', '.join(RULES)}, got {rule!r}")
        self.ports = ports(Config(source=source, target=target, rule=rule))
        self.state = self.reset(State)

    def step(self, scale_in: int, codes_in: Sequence[int]) -> State:
        """Convert one block."""
        return self._open(*self.accept(scale_in, codes_in))

    def block(self, scale_in: int, codes_in: Sequence[int]) -> tuple[int, tuple[int, ...], int]:
        """Scale, codes and whether an element was clipped."""
        source, target = self.formats
        parts = [part for code in codes_in if (part := magnitude(source, code)) is not None]
        if scale_in == NAN or len(parts) < BLOCK:  # D-mx-7
            return NAN, (0,) * BLOCK, 0
        sizes = [(m, e + scale_in - BIAS) for m, e in parts]
        scale = scale_code(target, self.rule, sizes)
        pairs = [
            quantize(target, m, e - scale + BIAS, code >> (source.width - 1) == 1)
            for (m, e), code in zip(sizes, codes_in, strict=True)
        ]
        return scale, tuple(code for code, _ in pairs), int(any(clip for _, clip in pairs))


def magnitude(fmt: Element, code: int) -> Magnitude | None:
    """m and e of an element code without its sign; None of NaN and infinity."""
    sign = code >> (fmt.width - 1)
    if fmt.exp_bits == 0:
        return abs(code - (sign << fmt.width)), fmt.lsb
    size = code & ((1 << (fmt.width - 1)) - 1)
    return None if size > fmt.largest_code else fmt.magnitude(size)


def ports(config: Mapping[str, Any]) -> Ports:
    """Ports in one configuration."""
    widths = [element_of(config[name], "mx_converter").width for name in ("source", "target")]
    return Ports(
        inputs=(
            Port("scale_in", 8, meaning="E8M0 code, 255 for NaN"),
            Port("codes_in", widths[0], BLOCK, meaning="element codes"),
        ),
        outputs=(
            Port("scale", 8, meaning="E8M0 code, 255 for NaN"),
            Port("codes", widths[1], BLOCK, meaning="element codes"),
            Port("clipped", 1, meaning="an element was beyond the largest"),
        ),
    )


PAIRS: tuple[tuple[ElementName, ElementName], ...] = (
    ("e4m3", "e2m1"),
    ("e5m2", "e4m3"),
    ("e4m3", "e2m3"),
    ("int8", "e2m1"),
    ("e2m1", "e5m2"),
)
UNIT: Unit[State, Result] = Unit(
    name="mx_converter",
    paper="ocp MX 1.0 §6.3",
    meaning="a block of one element format to a block of another, rounded once",
    configs={
        **{f"{one}_{other}": Config(source=one, target=other, rule="floor") for one, other in PAIRS},
        "e4m3_e2m1_nvidia": Config(source="e4m3", target="e2m1", rule="nvidia"),
    },
    ports=ports,
    unit_class=MxConverter,
    cases=mx_converter_cases.cases,
    counters=("blocks", "clips"),
    mark=mx_converter_cases.mark,
    flags={"CLIPPED": Flag(0, "an element is beyond the largest and saturates (D-mx-4)")},
)
run: RunFunction[Result] = UNIT.run
