"""Variants of the decisions of bfp_pe_array_clocked, and of the accumulators inside it."""

from collections.abc import Mapping, Sequence
from typing import Any

from refemu.units.declaration import Changes, constant
from refemu.units.harmonia.bfp_accumulator import M8M4, M8M8
from refemu.units.harmonia.bfp_pe import seat
from refemu.units.harmonia.bfp_pe_array_clocked.bfp_pe_array_clocked import BfpPeArrayClocked
from refemu.units.harmonia.bfp_pe_array_clocked.registers import Column, Entry, Weights, column_registers
from refemu.units.harmonia.variants import accumulation
from refemu.units.ports import Lanes
from refemu.units.variant import Variant, choices

OUTPUTS = ("acc", "flags", "valid", "col")  #: ports of the column that leaves


class BothWrappers(BfpPeArrayClocked):
    """The wrappers multiply the nibbles of a group of M8M8 in its first slot; other sub-PEs work slot by slot."""

    def _working(self, column: Column, slot: int) -> int:
        mode = column.current.mode
        if mode != M8M8:
            return 1 << seat(mode, slot)
        return 1 << seat(mode, slot) | 1 << seat(mode, slot + 1) if slot % 2 == 0 else 0


class SlotBySlot(BfpPeArrayClocked):
    """Operands of a pass enter together, and its sub-PEs work one per slot."""

    def _working(self, column: Column, slot: int) -> int:
        return 1 << seat(column.current.mode, slot)


class Overwriting(BfpPeArrayClocked):
    """Operands that arrive replace those that wait."""

    def _arrive(
        self, operands: Mapping[str, Any], c: int, entry: Entry | None, free: bool, counts: dict[str, int]
    ) -> None:
        if entry:
            self._columns[c] = self._columns[c]._replace(waiting=0)
        if operands["b_valid"][c]:
            self._columns[c] = self._columns[c]._replace(b_waiting=0)
        super()._arrive(operands, c, entry, free, counts)


class SingleFiles(BfpPeArrayClocked):
    """Operands have one file, which is in use until the last slot of its group."""

    def _arrive(
        self, operands: Mapping[str, Any], c: int, entry: Entry | None, free: bool, counts: dict[str, int]
    ) -> None:
        super()._arrive(operands, c, entry, free and not self._columns[c].left, counts)


class LaterResults(BfpPeArrayClocked):
    """Results go through a register: a column leaves an edge later."""

    @constant
    def _results(self) -> Changes:
        """Outputs of the previous edge."""
        return {name: tuple(value) if name != "col" else 0 for name, value in self._nothing().items()}

    def idle(self, *inputs: int | Lanes) -> Changes:
        """An edge."""
        changes = super().idle(*inputs)
        before, self._results = self._results, {name: changes[name] for name in OUTPUTS}
        return {**changes, **before}


class Saturates(BfpPeArrayClocked):
    """In M8M4 all eight bits of a code are read: beyond four bits it counts as 15."""

    def _read(self, mode: int, weights: Weights) -> Weights:
        narrow = super()._read(mode, weights)
        return narrow._replace(b=tuple(min(code, 15) for code in weights.b)) if mode == M8M4 else narrow


class LeftFirst(BfpPeArrayClocked):
    """If two columns end in an edge, the left one leaves."""

    def _leave(self, c: int, places: Sequence[int], counts: dict[str, int], shown: dict[str, list[int]]) -> None:
        for name, value in self._nothing().items():
            shown[name][:] = value
        super()._leave(c, places, counts, shown)


class ToTheEnd(BfpPeArrayClocked):
    """Activations move through all columns, even beyond the tile."""

    def _passes(self, c: int) -> Entry | None:
        left = self._columns[c - 1]
        return left.next if left.arrived else None


class AroundHoles(BfpPeArrayClocked):
    """A column that the tile lacks is not counted among those that activations enter."""

    def idle(self, *inputs: int | Lanes) -> Changes:
        """An edge."""
        changes = super().idle(*inputs)
        entered = [column.arrived & column.next.columns >> c & 1 for c, column in enumerate(self._columns)]
        return {**changes, "arrived": tuple(entered)}


class HeldPorts(BfpPeArrayClocked):
    """While held, operands do not enter; columns continue with those that they have."""

    def stay(self, *inputs: int | Lanes) -> Changes:
        """An edge in which nothing enters."""
        names = [port.name for port in self.ports.inputs]
        empty = [self._empty(name, value) for name, value in zip(names, inputs, strict=True)]
        return self.idle(*empty)

    def _empty(self, name: str, value: int | Lanes) -> int | Lanes:
        return (0,) * len(value) if name in ("a_valid", "b_valid") and isinstance(value, tuple) else value


class HeldColumns(BfpPeArrayClocked):
    """While held, column 0 and free files take operands; columns do not work."""

    def stay(self, *inputs: int | Lanes) -> Changes:
        """An edge in which operands enter and nothing else moves."""
        operands = {port.name: value for port, value in zip(self.ports.inputs, inputs, strict=True)}
        counts = dict.fromkeys(self.counters, 0)
        before = [column.arrived for column in self._columns]
        for c in range(self.columns):
            entry = self._enters(operands) if c == 0 else None
            self._arrive(operands, c, entry, True, counts)
            self._columns[c] = self._columns[c]._replace(arrived=self._columns[c].arrived | before[c])
        busy = int(any(self._held(column) for column in self._columns))
        changes = {**super().stay(*inputs), **counts, "cycles": 1, "busy": busy}
        return changes | column_registers(self._columns) | self._files()


class HeldOutputs(BfpPeArrayClocked):
    """While held, the outputs of the edge before stay."""

    def stay(self, *inputs: int | Lanes) -> Changes:
        """An edge in which nothing changes."""
        return {"cycles": 1}


VARIANTS: tuple[Variant, ...] = (
    *choices("D-harmonia-7", "partial", "fp16", "fp32"),
    *choices("D-harmonia-8", "product", "fp16"),
    *accumulation.variants(BfpPeArrayClocked, lambda device: device.accumulator),
    *choices("D-harmonia-22", "overlap", True),
    Variant("D-harmonia-40", "both wrappers work in the first slot of M8M8", unit_class=BothWrappers),
    Variant("D-harmonia-40", "the sub-PEs of a pass work one per slot", unit_class=SlotBySlot),
    Variant("D-harmonia-41", "operands that arrive replace those that wait", unit_class=Overwriting),
    Variant("D-harmonia-41", "operands have one file", unit_class=SingleFiles),
    Variant("D-harmonia-42", "a column leaves an edge later", unit_class=LaterResults),
    Variant("D-harmonia-42", "in M8M4 a code beyond four bits counts as 15", unit_class=Saturates),
    *choices("D-harmonia-43", "overlap", True, False),
    Variant("D-harmonia-43", "the left one of two columns that end together leaves", unit_class=LeftFirst),
    Variant("D-harmonia-44", "activations move to the last column of the array", unit_class=ToTheEnd),
    Variant("D-harmonia-44", "a column that the tile lacks is not entered", unit_class=AroundHoles),
    Variant("D-harmonia-63", "columns continue while the ports are held", unit_class=HeldPorts),
    Variant("D-harmonia-63", "operands enter while the columns are held", unit_class=HeldColumns),
    Variant("D-harmonia-63", "outputs stay while the array is held", unit_class=HeldOutputs),
)
UNOBSERVABLE: dict[str, str] = {
    "D-harmonia-36": "A device with a mode per column computes a 4-bit key in M8M4, one with a mode per group "
    "computes it shifted left by four in M8M8: the integer times its power of two is the same, so are all bits.",
}
