"""The PE whose sub-PEs work together: its register files hold a pass, four groups or two of M8M8. [harmonia §IV-B]

The first slot makes and latches all sums of a pass; the accumulator takes them slot by slot (D-harmonia-40).
"""

from typing import Any, NamedTuple

from refemu.units.declaration import DeclaredState
from refemu.units.harmonia.bfp_pe.bfp_pe import BfpPe, File, of_file
from refemu.units.harmonia.bfp_pe.operands import NIBBLES, SLOTS, operand, seat
from refemu.units.harmonia.sub_pe import LANES, sub_pe


class Pass(NamedTuple):
    """Operands of a pass that are not in register files: a value or 32 lanes of each group."""

    mode: int  #: 0 M8W4, 1 M8M4, 2 M8M8
    clear: int  #: 1 if the first group starts an output
    groups: int  #: 1 to 4, in M8M8 1 or 2
    b: tuple[int, ...]  #: codes or mantissas
    b_sign: tuple[int, ...]  #: their signs
    b_exp: tuple[int, ...]  #: shared exponents
    w_scale: tuple[int, ...]  #: weight factors

    def of(self, group: int) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int]:
        """Operands of one group."""
        some = slice(group * LANES, (group + 1) * LANES)
        clear = self.clear * (group == 0)
        return clear, self.b[some], self.b_sign[some], self.b_exp[group], self.w_scale[group]


class PassPe(BfpPe):
    """PE that takes a pass at a time; files have 128 lanes and four exponents."""

    group = 0  #: next group of the pass

    def begin_pass(self, work: Pass) -> None:
        """Take the pass whose activations are in the next register file; every sub-PE with a group makes its sum."""
        before, file = self.state, self._file()
        latched, slots = list(before.latched), work.groups * NIBBLES[work.mode]
        for slot in range(slots):
            latched[seat(work.mode, slot)] = self._sum(file, work, *divmod(slot, NIBBLES[work.mode]))
        counts = {"macs4x8": before.macs4x8 + slots * LANES, "psums": before.psums + slots}
        self.work: Pass = work
        self.group = 0
        self.state: DeclaredState = self.changed(
            **of_file("current", file), latched=tuple(latched), slot=SLOTS - 1, **counts
        )

    def _sum(self, file: File, work: Pass, group: int, low: int) -> int:
        some = slice(group * LANES, (group + 1) * LANES)
        signs, nibbles = operand(work.mode, work.b[some], work.b_sign[some], 0 if low else 4)
        return sub_pe.psum(file[0][some], file[1][some], signs, nibbles)

    def slot(self) -> DeclaredState:
        """Execute the events of one slot of the pass."""
        if not self.state.todo:
            self._open_group()
        return super().slot()

    def _open_group(self) -> None:
        before, filled, some = self.state, self._file(), slice(self.group * LANES, (self.group + 1) * LANES)
        clear, b, b_sign, b_exp, w_scale = self.work.of(self.group)
        file = before.current_sign[some], before.current_mag[some], before.current_exp[self.group]
        self._open(self.work.mode, clear, *file, b, b_sign, b_exp, w_scale)
        self.state, self.group = self.changed(**of_file("next", filled)), self.group + 1

    def proceed(self, work: Pass, done: int) -> None:
        """Continue a pass after `done` of its slots; call `resume` first."""
        per = NIBBLES[work.mode]
        self.work, self.group = work, -(-done // per)
        if done % per:
            self.state = self.changed(a_exp=self.state.current_exp[done // per])

    def _multiplied(self, slot: int, low: bool) -> dict[str, Any]:
        return {"latched": self.state.latched}
