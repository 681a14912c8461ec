"""Variants of the decisions of bfp_pe_array_clocked, and of the accumulators inside it."""

from collections.abc import Mapping, Sequence
from typing import Any

from refemu.units import Changes, Lanes
from refemu.units.harmonia.bfp_accumulator import M8M4, M8M8
from refemu.units.harmonia.bfp_pe import seat
from refemu.units.harmonia.bfp_pe_array import variants as bfp_pe_array
from refemu.units.harmonia.bfp_pe_array_clocked.bfp_pe_array_clocked import BfpPeArrayClocked
from refemu.units.harmonia.bfp_pe_array_clocked.registers import Column, Entry, Weights, column_registers
from refemu.units.harmonia.variants import accumulation
from refemu.units.variant import Variant, choices, overriding

OUTPUTS = ("acc", "flags", "valid", "col")  #: ports of the column that leaves
Array = BfpPeArrayClocked


def _both_wrappers(self: Array, column: Column, slot: int) -> int:
    """The wrappers multiply the nibbles of a group of M8M8 in its first slot; other sub-PEs work slot by slot."""
    mode = column.current.mode
    if mode != M8M8:
        return 1 << seat(mode, slot)
    return 1 << seat(mode, slot) | 1 << seat(mode, slot + 1) if slot % 2 == 0 else 0


def _overwriting(old: Array, self: Array, operands: Mapping[str, Any], c: int, entry: Entry | None, *rest: Any) -> None:
    if entry:
        self._columns[c] = self._columns[c]._replace(waiting=0)
    if operands["b_valid"][c]:
        self._columns[c] = self._columns[c]._replace(b_waiting=0)
    old._arrive(operands, c, entry, *rest)


def _later_results(old: Array, self: Array, *inputs: int | Lanes) -> Changes:
    """Results go through a register."""
    changes = old.idle(*inputs)
    nothing = {name: tuple(value) if name != "col" else 0 for name, value in self._nothing().items()}
    before = vars(self).get("results", nothing)
    vars(self)["results"] = {name: changes[name] for name in OUTPUTS}
    return {**changes, **before}


def _saturating(old: Array, self: Array, mode: int, weights: Weights) -> Weights:
    """All eight bits of a code are read."""
    narrow = old._read(mode, weights)
    return narrow._replace(b=tuple(min(code, 15) for code in weights.b)) if mode == M8M4 else narrow


def _left_first(
    old: Array, self: Array, c: int, places: Sequence[int], counts: dict[str, int], shown: dict[str, list[int]]
) -> None:
    for name, value in self._nothing().items():
        shown[name][:] = value
    old._leave(c, places, counts, shown)


def _to_the_end(self: Array, c: int) -> Entry | None:
    left = self._columns[c - 1]
    return left.next if left.arrived else None


def _around_holes(old: Array, self: Array, *inputs: int | Lanes) -> Changes:
    changes = old.idle(*inputs)
    entered = [column.arrived & column.next.columns >> c & 1 for c, column in enumerate(self._columns)]
    return {**changes, "arrived": tuple(entered)}


def _held_ports(self: Array, *inputs: int | Lanes) -> Changes:
    """Columns continue with the operands that they have."""
    names = [port.name for port in self.ports.inputs]
    empty = [
        (0,) * len(value) if name in ("a_valid", "b_valid") and isinstance(value, tuple) else value
        for name, value in zip(names, inputs, strict=True)
    ]
    return self.idle(*empty)


def _held_columns(old: Array, self: Array, *inputs: int | Lanes) -> Changes:
    """Column 0 and free files take operands; columns do not work."""
    operands = {port.name: value for port, value in zip(self.ports.inputs, inputs, strict=True)}
    counts = dict.fromkeys(self.counters, 0)
    before = [column.arrived for column in self._columns]
    for c in range(self.columns):
        entry = self._enters(operands) if c == 0 else None
        self._arrive(operands, c, entry, True, counts)
        self._columns[c] = self._columns[c]._replace(arrived=self._columns[c].arrived | before[c])
    busy = int(any(self._held(column) for column in self._columns))
    changes = {**old.stay(*inputs), **counts, "cycles": 1, "busy": busy}
    return changes | column_registers(self._columns) | self._files()


_device = overriding(BfpPeArrayClocked)
VARIANTS: tuple[Variant, ...] = (
    *accumulation.variants(BfpPeArrayClocked),
    *choices("D-harmonia-22", "overlap", True),
    _device("D-harmonia-40: both wrappers work in the first slot of M8M8", _working=_both_wrappers),
    _device(
        "D-harmonia-40: the sub-PEs of a pass work one per slot",
        _working=lambda self, column, slot: 1 << seat(column.current.mode, slot),
    ),
    _device("D-harmonia-41: operands that arrive replace those that wait", _arrive=_overwriting),
    _device(
        "D-harmonia-41: operands have one file",
        _arrive=lambda old, self, operands, c, entry, free, counts: old._arrive(
            operands, c, entry, free and not self._columns[c].left, counts
        ),
    ),
    _device("D-harmonia-42: a column leaves an edge later", idle=_later_results),
    _device("D-harmonia-42: in M8M4 a code beyond four bits counts as 15", _read=_saturating),
    *choices("D-harmonia-43", "overlap", True, False),
    _device("D-harmonia-43: the left one of two columns that end together leaves", _leave=_left_first),
    _device("D-harmonia-44: activations move to the last column of the array", _passes=_to_the_end),
    _device("D-harmonia-44: a column that the tile lacks is not entered", idle=_around_holes),
    _device("D-harmonia-63: columns continue while the ports are held", stay=_held_ports),
    _device("D-harmonia-63: operands enter while the columns are held", stay=_held_columns),
    _device("D-harmonia-63: outputs stay while the array is held", stay=lambda self, *inputs: {"cycles": 1}),
)
UNOBSERVABLE: dict[str, str] = {"D-harmonia-36": bfp_pe_array.UNOBSERVABLE["D-harmonia-36"]}
