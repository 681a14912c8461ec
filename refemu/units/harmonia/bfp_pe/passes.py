"""The PE whose sub-PEs work together: its register files hold a pass, four groups or two of M8M8. [harmonia §IV-B]

All sums of a pass are made in its first slot and latched; the accumulator takes them slot by slot (D-harmonia-40).
"""

from typing import Any, NamedTuple

from refemu.units.harmonia import sub_pe
from refemu.units.harmonia.bfp_pe.operands import NIBBLES, SLOTS, operand, seat
from refemu.units.harmonia.bfp_pe.registers import State, changed
from refemu.units.harmonia.bfp_pe.unit import LANES, BfpPe


class Pass(NamedTuple):
    """Operands of a pass that the sub-PEs do not keep: a value or 32 lanes of each group."""

    mode: int  #: 0 M8W4, 1 M8M4, 2 M8M8
    clear: int  #: 1 if the first group starts an output
    groups: int  #: 1 to 4, in M8M8 1 or 2
    b: tuple[int, ...]  #: codes or mantissas
    b_sign: tuple[int, ...]  #: their signs
    b_exp: tuple[int, ...]  #: shared exponents
    w_scale: tuple[int, ...]  #: weight factors

    def of(self, group: int) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int]:
        """Operands of one group.

        Parameters
        ----------
        group : int
            Its number in the pass.

        Returns
        -------
        clear, b, b_sign, b_exp, w_scale
            As the ports of a PE take them.
        """
        some = slice(group * LANES, (group + 1) * LANES)
        clear = self.clear * (group == 0)
        return clear, self.b[some], self.b_sign[some], self.b_exp[group], self.w_scale[group]


class PassPe(BfpPe):
    """PE that takes a pass at a time; files have 128 lanes and four exponents.

    References
    ----------
    [harmonia §IV-B, Fig. 13]
    """

    work: Pass  #: the pass under way
    group: int = 0  #: the group of the pass that comes next

    def begin_pass(self, work: Pass) -> None:
        """Take the pass whose activations are in the next register file: every sub-PE with a group makes its sum.

        Parameters
        ----------
        work : Pass
            Its operands of b.
        """
        after = super()._swapped(self.state)
        latched = list(after.latched)
        slots = work.groups * NIBBLES[work.mode]
        for slot in range(slots):
            latched[seat(work.mode, slot)] = self._sum(after, work, *divmod(slot, NIBBLES[work.mode]))
        products, sums = after.macs4x8 + slots * LANES, after.psums + slots
        self.work, self.group = work, 0
        self.state = changed(after, latched=tuple(latched), macs4x8=products, psums=sums, slot=SLOTS - 1)

    def _sum(self, state: State, work: Pass, group: int, low: int) -> int:
        some = slice(group * LANES, (group + 1) * LANES)
        signs, nibbles = operand(work.mode, work.b[some], work.b_sign[some], 0 if low else 4)
        return sub_pe.psum(state.current_sign[some], state.current_mag[some], signs, nibbles)

    def slot(self) -> State:
        """Execute the events of one slot of the pass.

        Returns
        -------
        State
            Registers after the slot.
        """
        if not self.state.todo:
            self._open_group()
        return super().slot()

    def _open_group(self) -> None:
        before, some = self.state, slice(self.group * LANES, (self.group + 1) * LANES)
        exponents: Any = before.current_exp
        clear, b, b_sign, b_exp, w_scale = self.work.of(self.group)
        file = before.current_sign[some], before.current_mag[some], exponents[self.group]
        self._open(self.work.mode, clear, *file, b, b_sign, b_exp, w_scale)
        filled = {name: getattr(before, name) for name in ("next_sign", "next_mag", "next_exp")}
        self.state, self.group = changed(self.state, **filled), self.group + 1

    def proceed(self, work: Pass, done: int) -> None:
        """Go on with a pass after some of its slots; `resume` came before.

        Parameters
        ----------
        work : Pass
            Its operands of b.
        done : int
            Slots that are over.
        """
        per, exponents = NIBBLES[work.mode], self.state.current_exp
        self.work, self.group = work, -(-done // per)
        if done % per:
            shared: Any = exponents
            self.state = changed(self.state, a_exp=shared[done // per])

    def _swapped(self, before: State) -> State:
        return before

    def _multiplied(self, before: State, slot: int) -> State:
        return before
