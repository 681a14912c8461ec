"""The reconfigurable PE: two wrappers of two sub-PEs each, a shared accumulator, two activation register files.

Paper: [harmonia §IV-B, Fig. 13]. Composed of sub_pe and bfp_accumulator.
Dot products of tensors by the same arithmetic: `bfp_dot_int`, `bfp_dot`.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, require_choice
from refemu.units import AnyUnit, Changes, Config, DeclaredState, Port, Ports, Sequential, Unit, constant, decides
from refemu.units.harmonia.bfp_accumulator import M8M8, M8W4, MODES, Accumulator, Precision
from refemu.units.harmonia.bfp_accumulator.bfp_accumulator import FLAGS
from refemu.units.harmonia.bfp_pe import operands
from refemu.units.harmonia.bfp_pe.operands import SLOTS, operand, require_fields, seat
from refemu.units.harmonia.sub_pe import LANES, sub_pe
from refemu.units.stepping import Result
from refemu.units.unit import RunFunction

Elements = tuple[int, ...]  #: 32 lanes of a group, or 128 of a pass
File = tuple[Elements, Elements, int]  #: signs, mantissas and exponent of a register file
EVENTS = (("psum", "scale", "accumulate"), ("psum", "accumulate"), ("psum", "psum", "fuse", "accumulate"))  #: by mode


class BfpPe(Sequential):
    """Reconfigurable processing element: a group is loaded, then goes through its slots event by event."""

    name = "bfp_pe"
    events: ClassVar[tuple[str, ...]] = ("load", "psum", "fuse", "scale", "accumulate")
    counters: ClassVar[dict[str, str]] = {
        "passes": "passes begun, each of which has four slots",
        "cycles": 'slots used, one for each event "psum"',
        "macs": "products of two elements, 32 for each group; one of M8M8 takes two products of 4 by 8 bits",
        "macs4x8": "products of 4 by 8 bits in the sub-PEs",
        "psums": "sums of 32 products made by sub-PEs",
        "fusions": "sums of high and of low nibbles joined, one for each group of M8M8",
        "fp_converts": "sums converted to floating point, one for each group",
        "scale_mults": "values multiplied by a weight factor, one for each group of M8W4",
        "fp32_adds": "additions to the accumulator in FP32, one for each group",
    }
    initial: ClassVar[dict[str, int]] = {"slot": SLOTS - 1}
    partial: Precision = "fp16"  #: rounding of a group's sum, as for `Accumulator`
    product: Precision = "fp32"  #: rounding of the product with the weight factor, as for `Accumulator`

    @constant
    def ports(self) -> Ports:
        return Ports(
            inputs=(
                Port("mode", 2, most=2, meaning="0 M8W4, 1 M8M4, 2 M8M8"),
                Port("clear", 1, meaning="this group starts an output: accumulator +0, flags 0"),
                Port("a_sign", 1, LANES, meaning="1 where an activation is negative"),
                Port("a_mag", 8, LANES, meaning="8-bit mantissas of the activations"),
                Port("a_exp", 5, meaning="shared exponent of the activations"),
                Port("b", 8, LANES, meaning="INT4, 4-bit or 8-bit mantissas, by mode; upper bits 0"),
                Port("b_sign", 1, LANES, meaning="signs of the mantissas; 0 in M8W4"),
                Port("b_exp", 5, meaning="shared exponent of the mantissas; 0 in M8W4"),
                Port("w_scale", 16, encoding="f16", meaning="weight factor, finite; 0 except in M8W4"),
            ),
            outputs=(
                Port("acc", 32, encoding="f32", meaning="sum of the groups"),
                Port("flags", 3, meaning="sticky: 1 FP16 overflow, 2 FP16 underflow, 4 NaN"),
            ),
            state=(
                Port("psum", 22, signed=True, meaning="exact sum of the group"),
                Port("value", 32, encoding="f32", meaning="value that was added"),
                Port("slot", 2, meaning="slot of the pass in which it was added"),
                Port(
                    "latched", 18, SLOTS, signed=True, meaning="sums of sub-PEs 0 and 1 of wrapper 0, then of wrapper 1"
                ),
                *_file_ports("current", "that the sub-PEs read"),
                *_file_ports("next", "that is filled"),
                Port("todo", 3, most=4, meaning="remaining events of the group"),
            ),
        )

    @constant
    def accumulator(self) -> Accumulator:
        """The sub-PEs of both wrappers."""
        return Accumulator(self.partial, self.product)

    @property
    def busy(self) -> bool:
        """Whether events of the last loaded group remain."""
        return bool(self.state.todo)

    def invariant(self, state: DeclaredState) -> bool:
        """A group of M8M8 ends in the second of its slots."""
        return state.mode != M8M8 or state.slot & 1 == 1

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject nonzero fields that the mode does not have."""
        require_fields(self.name, inputs[0], *inputs[5:])

    def validated(
        self,
        mode: ArrayLike,
        a_sign: ArrayLike,
        a_mag: ArrayLike,
        a_exp: ArrayLike,
        b: ArrayLike,
        b_sign: ArrayLike | None = None,
        b_exp: ArrayLike = 0,
        w_scale: ArrayLike = 0,
        clear: ArrayLike = 0,
    ) -> list[np.ndarray]:
        """Check the inputs of many groups, (..., groups) and lanes; `mode` may be a name of `MODES`."""
        number = MODES.index(require_choice(mode, MODES, self.name, "mode")) if isinstance(mode, str) else mode
        signs = np.zeros(LANES, np.uint8) if b_sign is None else b_sign
        arrays = super().validated(number, clear, a_sign, a_mag, a_exp, b, signs, b_exp, w_scale)
        if arrays[0].shape[-1] == 0:
            raise Refused(f"{self.name}: groups must be at least 1, got 0")
        return arrays

    def follows(self) -> str:
        return EVENTS[self.state.mode][-self.state.todo]

    def load(
        self,
        mode: int,
        clear: int,
        a_sign: Elements,
        a_mag: Elements,
        a_exp: int,
        b: Elements,
        b_sign: Elements,
        b_exp: int,
        w_scale: int,
    ) -> Changes:
        """Load a group and find its slot: a pass ends with its last slot, and when the mode or the output changes."""
        before = self.state
        begins = clear or before.index < 0 or mode != before.mode or before.slot == SLOTS - 1
        changes = {"todo": len(EVENTS[mode]), "slot": 0 if begins else before.slot + 1}
        changes |= {"acc": 0, "flags": 0} if clear else {}
        return {**changes, "next_sign": a_sign, "next_mag": a_mag, "next_exp": a_exp, "passes": int(begins)}

    def fill(self, a_sign: Elements, a_mag: Elements, a_exp: int) -> None:
        """Take the activations of a group into the next register file; the sub-PEs read the current one."""
        self.state = self.changed(next_sign=a_sign, next_mag=a_mag, next_exp=a_exp)

    def begin(self, mode: int, clear: int, b: Elements, b_sign: Elements, b_exp: int, w_scale: int) -> None:
        """Open the group whose activations are in the next register file."""
        self._open(mode, clear, *self._file(), b, b_sign, b_exp, w_scale)

    def resume(
        self,
        files: tuple[File, File],
        latched: tuple[int, ...],
        acc: int,
        flags: int,
        mode: int = M8W4,
        slot: int = SLOTS - 1,
        half: tuple[int, Elements, Elements, int, int] | None = None,
    ) -> None:
        """Take the registers of a PE between two cycles.

        files: the next and the current file. mode, slot: those of the last group. half: `clear`, `b`, `b_sign`, `b_exp`
        and `w_scale` of a group of M8M8 with one slot left.
        """
        registers = {"index": 0, "latched": latched, "acc": acc, "flags": flags, "mode": mode, "slot": slot}
        if half:
            registers |= zip(("clear", "b", "b_sign", "b_exp", "w_scale"), half, strict=True)
            registers |= {"event": "psum", "todo": len(EVENTS[M8M8]) - 1, "a_exp": files[1][2]}
        self.state: DeclaredState = self.reset(
            self.State, **of_file("next", files[0]), **of_file("current", files[1]), **registers
        )

    def slot(self) -> DeclaredState:
        """Execute the events of one slot, which takes one cycle."""
        state = self._continue()
        while state.todo and self.follows() != "psum":
            state = self._continue()
        return state

    def psum(self) -> Changes:
        """Add 32 products in a sub-PE; convert the sum to floating point unless it waits for the other nibbles."""
        before = self.state
        mode = before.mode
        low = mode == M8M8 and before.todo == 3  # its second slot
        slot = before.slot + low
        sums = self._multiplied(slot, low)
        total = sums["latched"][seat(mode, slot)]
        changes = {**sums, "slot": slot, "psum": total, "todo": before.todo - 1, "cycles": 1, "macs": LANES * (not low)}
        if mode == M8M8:
            return changes
        return changes | self._converted(*self.accumulator.convert(total, mode, before.a_exp, before.b_exp))

    def _multiplied(self, slot: int, low: bool) -> dict[str, Any]:
        """Latch the sum of the sub-PE of a slot."""
        before, file = self.state, self._file(low)
        place = seat(before.mode, slot)
        total = sub_pe.psum(file[0], file[1], *self._operand(0 if low else 4))
        latched = (*before.latched[:place], total, *before.latched[place + 1 :])
        return {**of_file("current", file), "latched": latched, "macs4x8": LANES, "psums": 1}

    def _file(self, low: bool = False) -> File:
        """The file that sub-PEs read: files swap in the first slot, so it is the filled one."""
        state = self.state
        if low:
            return state.current_sign, state.current_mag, state.current_exp
        return state.next_sign, state.next_mag, state.next_exp

    @decides("D-harmonia-14")
    def _operand(self, shift: int) -> tuple[tuple[int, ...], ...]:
        """What a sub-PE reads of b."""
        return operand(self.state.mode, self.state.b, self.state.b_sign, shift)

    def fuse(self) -> Changes:
        """Join the sums of the high and the low nibbles of both wrappers, and convert to floating point."""
        before = self.state
        high, low = (before.latched[seat(M8M8, slot)] for slot in (before.slot - 1, before.slot))
        joined = self.accumulator._join(high, low, before.a_exp, before.b_exp)
        return {"psum": joined[0], "todo": before.todo - 1, "fusions": 1, **self._converted(*joined[1:])}

    def _converted(self, value: int, flags: int) -> dict[str, int]:
        return {"value": value, "flags": self.state.flags | flags, "fp_converts": 1}

    def scale(self) -> Changes:
        """Multiply the value by the weight factor."""
        before = self.state
        value = self.accumulator.scale(before.value, before.w_scale)
        return {"value": value, "todo": before.todo - 1, "scale_mults": 1}

    def accumulate(self) -> Changes:
        """Add the value to the accumulator."""
        before = self.state
        acc, invalid = self.accumulator._sum(before.acc, before.value, before.clear)
        return {"acc": acc, "flags": before.flags | invalid, "todo": before.todo - 1, "fp32_adds": 1}

    def draw(self, state: DeclaredState) -> str:
        """Draw the registers as text, in the layout of [harmonia Fig. 13]."""
        return operands.draw(state)


def of_file(name: str, file: File) -> dict[str, Any]:
    """The fields of a State for a register file."""
    return {f"{name}_sign": file[0], f"{name}_mag": file[1], f"{name}_exp": file[2]}


def _file_ports(name: str, which: str) -> tuple[Port, Port, Port]:
    """Ports of an activation register file."""
    return (
        Port(f"{name}_sign", 1, LANES, meaning=f"signs of the register file {which}"),
        Port(f"{name}_mag", 8, LANES, meaning=f"mantissas of the register file {which}"),
        Port(f"{name}_exp", 5, meaning=f"exponent of the register file {which}"),
    )


UNIT: AnyUnit = Unit(
    unit_class=BfpPe,
    paper="harmonia §IV-B, Fig. 13",
    meaning="reconfigurable PE for M8W4, M8M4 and M8M8",
    configs={"paper": Config(partial="fp16", product="fp32"), "exact": Config(partial="fp32", product="fp32")},
    flags=FLAGS,
)
State: type[DeclaredState] = BfpPe.State
run: RunFunction[Result] = UNIT.run
