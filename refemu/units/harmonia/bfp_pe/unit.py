"""The reconfigurable PE: two wrappers of two sub-PEs, one accumulator that they share, two activation register files.

Paper: [harmonia §IV-B, Fig. 13]. Composed of sub_pe and bfp_accumulator. Decisions: D-harmonia-12 (b is the operand
that M8M8 splits), D-harmonia-14 (INT4 codes in two's complement), D-harmonia-21 (a pass has four accumulator slots, one
a cycle); those of the accumulator hold here.
Dot products of tensors by the same arithmetic: `bfp_dot_int`, `bfp_dot`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, require_choice
from refemu.formats.harmonia.bfp_dot import bfp_dot, bfp_dot_int
from refemu.units.harmonia import sub_pe
from refemu.units.harmonia.bfp_accumulator import (
    FLAGS,
    M8M4,
    M8M8,
    M8W4,
    MODES,
    PRECISIONS,
    Accumulator,
    Precision,
)
from refemu.units.harmonia.bfp_pe import operands
from refemu.units.harmonia.bfp_pe.operands import NIBBLES, SLOTS, operand, require_fields, seat
from refemu.units.harmonia.bfp_pe.registers import COUNTERS, EVENTS, File, State, changed, ports
from refemu.units.harmonia.cases import bfp_pe as bfp_pe_cases
from refemu.units.harmonia.sub_pe import LANES, SubPe
from refemu.units.ports import Ports
from refemu.units.stepped import Clocked, Result
from refemu.units.unit import Config, RunFunction, Unit

__all__ = [
    "LANES",
    "M8M4",
    "M8M8",
    "M8W4",
    "MODES",
    "NIBBLES",
    "SLOTS",
    "UNIT",
    "Accumulator",
    "BfpPe",
    "State",
    "SubPe",
    "bfp_dot",
    "bfp_dot_int",
    "run",
]


class BfpPe(Clocked[State]):
    """Reconfigurable processing element: a group is loaded, then goes through its slots event by event.

    References
    ----------
    [harmonia §IV-B, Fig. 13]
    """

    name = "bfp_pe"

    def __init__(self, partial: Precision = "fp16", product: Precision = "fp32") -> None:
        """Configure the PE.

        Parameters
        ----------
        partial : {"fp16", "fp32"}
            Rounding of a group's sum, as for `Accumulator`.
        product : {"fp32", "fp16"}
            Rounding of the product with the weight factor, as for `Accumulator`.

        Raises
        ------
        Refused
            An unknown precision.
        """
        self.partial = require_choice(partial, PRECISIONS, self.name, "partial")
        self.product = require_choice(product, PRECISIONS, self.name, "product")
        self.accumulator: Accumulator = Accumulator(self.partial, self.product)
        self.ports: Ports = ports({})
        self.state: State = self.reset(State, slot=SLOTS - 1)

    @property
    def busy(self) -> bool:
        """Whether the group loaded last has events left."""
        return bool(self.state.todo)

    def step(
        self,
        mode: int | None = None,
        clear: int | None = None,
        a_sign: Sequence[int] | None = None,
        a_mag: Sequence[int] | None = None,
        a_exp: int | None = None,
        b: Sequence[int] | None = None,
        b_sign: Sequence[int] | None = None,
        b_exp: int | None = None,
        w_scale: int | None = None,
    ) -> State:
        """Load a group; without inputs, execute its next event.

        Fields that the mode does not have must be 0.
        """
        return self._stepped(
            mode=mode,
            clear=clear,
            a_sign=a_sign,
            a_mag=a_mag,
            a_exp=a_exp,
            b=b,
            b_sign=b_sign,
            b_exp=b_exp,
            w_scale=w_scale,
        )

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse fields set that the mode does not have."""
        require_fields(self.name, inputs[0], *inputs[5:])

    def admitted(
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
        arrays = super().admitted(number, clear, a_sign, a_mag, a_exp, b, signs, b_exp, w_scale)
        if arrays[0].shape[-1] == 0:
            raise Refused(f"{self.name}: at least one group is needed, got none")
        return arrays

    def _open(
        self,
        mode: int,
        clear: int,
        a_sign: tuple[int, ...],
        a_mag: tuple[int, ...],
        a_exp: int,
        b: tuple[int, ...],
        b_sign: tuple[int, ...],
        b_exp: int,
        w_scale: int,
    ) -> State:
        """Fill the next register file, and say which slot comes: a pass ends with its slots, a mode, an output."""
        before = self.state
        begins = clear or before.index < 0 or mode != before.mode or before.slot == SLOTS - 1
        acc, flags = (0, 0) if clear else (before.acc, before.flags)
        self.state = changed(
            before,
            event="load",
            index=before.index + 1,
            mode=mode,
            clear=clear,
            a_sign=a_sign,
            a_mag=a_mag,
            a_exp=a_exp,
            b=b,
            b_sign=b_sign,
            b_exp=b_exp,
            w_scale=w_scale,
            todo=len(EVENTS[mode]),
            slot=0 if begins else before.slot + 1,
            acc=acc,
            flags=flags,
            next_sign=a_sign,
            next_mag=a_mag,
            next_exp=a_exp,
            passes=before.passes + int(begins),
        )
        return self.state

    def load(self, a_sign: tuple[int, ...], a_mag: tuple[int, ...], a_exp: int) -> None:
        """Fill the next register file while the sub-PEs read the current one.

        Parameters
        ----------
        a_sign, a_mag : tuple of int
            Signs and mantissas of a group of activations, as their ports take them.
        a_exp : int
            Shared exponent.
        """
        self.state = changed(self.state, next_sign=a_sign, next_mag=a_mag, next_exp=a_exp)

    def begin(
        self, mode: int, clear: int, b: tuple[int, ...], b_sign: tuple[int, ...], b_exp: int, w_scale: int
    ) -> None:
        """Open the group whose activations are in the next register file.

        Parameters
        ----------
        mode, clear : int
            As the ports of the same names.
        b, b_sign : tuple of int
            Codes or mantissas, and their signs.
        b_exp, w_scale : int
            Shared exponent and weight factor.
        """
        before = self.state
        self._open(mode, clear, before.next_sign, before.next_mag, before.next_exp, b, b_sign, b_exp, w_scale)

    def resume(
        self,
        files: tuple[File, File],
        latched: tuple[int, ...],
        acc: int,
        flags: int,
        mode: int = M8W4,
        slot: int = SLOTS - 1,
        half: tuple[int, tuple[int, ...], tuple[int, ...], int, int] | None = None,
    ) -> None:
        """Take the registers of a PE between two cycles.

        Parameters
        ----------
        files : tuple of File
            The next and the current register file.
        latched : tuple of int
            Sums of the sub-PEs.
        acc, flags : int
            Accumulator, a word of float32, and its flags.
        mode, slot : int
            Of the last group, and its slot of the pass.
        half : tuple, optional
            `clear`, `b`, `b_sign`, `b_exp` and `w_scale` of a group of M8M8 that has one of its slots left.
        """
        names = [f"{file}_{field}" for file in ("next", "current") for field in ("sign", "mag", "exp")]
        file = dict(zip(names, (*files[0], *files[1]), strict=True))
        registers = {"index": 0, "latched": latched, "acc": acc, "flags": flags, "mode": mode, "slot": slot}
        state = changed(self.reset(State), **file, **registers)
        if half:
            operands = dict(zip(("clear", "b", "b_sign", "b_exp", "w_scale"), half, strict=True))
            state = changed(state, event="psum", todo=len(EVENTS[M8M8]) - 1, a_exp=state.current_exp, **operands)
        self.state = state

    def slot(self) -> State:
        """Execute the events of one slot, which are those of one cycle.

        Returns
        -------
        State
            Registers after the slot.
        """
        state = self._continue()
        while state.todo and EVENTS[state.mode][-state.todo] != "psum":
            state = self._continue()
        return state

    def _continue(self) -> State:
        event = EVENTS[self.state.mode][-self.state.todo]
        before = changed(self.state, event=event, todo=self.state.todo - 1)
        events = {"psum": self._psum, "fuse": self._fuse, "scale": self._scale, "accumulate": self._add}
        self.state = events[event](before)
        return self.state

    def _psum(self, before: State) -> State:
        """One slot: a sub-PE works, its sum is latched; one that needs no fusing is converted at once."""
        low = before.mode == M8M8 and before.todo == 2  # its second slot
        if not low:
            before = self._swapped(before)
        slot = before.slot + low
        summed = self._multiplied(before, slot)
        total = summed.latched[seat(before.mode, slot)]
        cycles, macs = before.cycles + 1, before.macs + LANES * (not low)
        after = changed(summed, slot=slot, psum=total, cycles=cycles, macs=macs)
        return after if before.mode == M8M8 else self._converted(after, total, *self._convert(after, total))

    def _swapped(self, before: State) -> State:
        """The register file that was filled is the one that the sub-PEs read from now on."""
        signs, magnitudes, exponent = before.next_sign, before.next_mag, before.next_exp
        return changed(before, current_sign=signs, current_mag=magnitudes, current_exp=exponent)

    def _multiplied(self, before: State, slot: int) -> State:
        """The sub-PE of a slot makes its sum, which is latched."""
        signs, nibbles = self._operand(before, 0 if slot > before.slot else 4)
        total = sub_pe.psum(before.current_sign, before.current_mag, signs, nibbles)
        place = seat(before.mode, slot)
        latched = (*before.latched[:place], total, *before.latched[place + 1 :])
        return changed(before, latched=latched, macs4x8=before.macs4x8 + LANES, psums=before.psums + 1)

    def _fuse(self, before: State) -> State:
        """Sub-PEs of both wrappers made the sums of one group, of the high and of the low nibbles."""
        high, low = before.latched[seat(M8M8, before.slot - 1)], before.latched[seat(M8M8, before.slot)]
        joined = self.accumulator._join(high, low, before.a_exp, before.b_exp)
        return self._converted(changed(before, fusions=before.fusions + 1), *joined)

    def _operand(self, before: State, shift: int) -> tuple[tuple[int, ...], ...]:
        """What a sub-PE reads of b."""
        return operand(before.mode, before.b, before.b_sign, shift)

    def _convert(self, before: State, p: int) -> tuple[int, int]:
        return self.accumulator.convert(p, before.mode, before.a_exp, before.b_exp)

    def _converted(self, before: State, p: int, value: int, flags: int) -> State:
        return changed(before, psum=p, value=value, flags=before.flags | flags, fp_converts=before.fp_converts + 1)

    def _scale(self, before: State) -> State:
        value = self.accumulator.scale(before.value, before.w_scale)
        return changed(before, value=value, scale_mults=before.scale_mults + 1)

    def _add(self, before: State) -> State:
        acc, invalid = self.accumulator._sum(before.acc, before.value, before.clear)
        return changed(before, acc=acc, flags=before.flags | invalid, fp32_adds=before.fp32_adds + 1)

    def draw(self, state: State) -> str:
        """Draw the registers as text, as [harmonia Fig. 13] lays them out.

        Parameters
        ----------
        state : State
            Registers to draw.

        Returns
        -------
        str
            Several lines.
        """
        return operands.draw(state)


UNIT: Unit[State, Result] = Unit(
    name="bfp_pe",
    paper="harmonia §IV-B, Fig. 13",
    meaning="reconfigurable PE for M8W4, M8M4 and M8M8",
    configs={"paper": Config(partial="fp16", product="fp32"), "exact": Config(partial="fp32", product="fp32")},
    ports=ports,
    unit_class=BfpPe,
    cases=bfp_pe_cases.cases,
    counters=COUNTERS,
    mark=bfp_pe_cases.mark,
    flags=FLAGS,
    legal=bfp_pe_cases.legal,
)
run: RunFunction[Result] = UNIT.run
