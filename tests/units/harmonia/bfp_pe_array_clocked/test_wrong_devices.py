"""Faulty arrays, each detected by a golden case."""

from typing import Any

import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.units.declaration import Changes, constant
from refemu.units.harmonia.bfp_pe import M8M8, NIBBLES, BfpPe
from refemu.units.harmonia.bfp_pe_array_clocked import BfpPeArrayClocked
from refemu.units.harmonia.bfp_pe_array_clocked.registers import Column, Entry, Weights
from tests.golden import detecting

pytestmark = pytest.mark.committed

SETS = [
    f"bfp_pe_array_clocked-{name}" for name in ("by_slot", "parallel", "overlap", "columns", "long", "paper", "hold")
]
PLAIN = SETS[0]


class DeadElement(BfpPeArrayClocked):
    """The last element answers 0."""

    def _leave(self, c: int, places: Any, counts: Any, shown: Any) -> None:
        super()._leave(c, places, counts, shown)
        if shown["col"][0] == self.columns - 1:
            shown["acc"][-1] = 0


class LateColumn(BfpPeArrayClocked):
    """The last column gets its activations an edge later than it should."""

    @constant
    def _held_back(self) -> Entry | None:
        """Of the edge before."""
        return None

    def _passes(self, c: int) -> Entry | None:
        entry = super()._passes(c)
        if c == self.columns - 1:
            entry, self._held_back = self._held_back, entry
        return entry


class NeighboursWeights(BfpPeArrayClocked):
    """A column reads the weights at the port of its neighbour."""

    def _at_port(self, operands: Any, c: int) -> Weights:
        return super()._at_port(operands, max(c - 1, 0))


class NeighboursExponent(BfpPeArrayClocked):
    """A column reads the exponent of its neighbour's group."""

    def _at_port(self, operands: Any, c: int) -> Weights:
        return super()._at_port(operands, c)._replace(b_exp=super()._at_port(operands, max(c - 1, 0)).b_exp)


class OneCycle(BfpPeArrayClocked):
    """Both slots of a group of M8M8 are one cycle."""

    def _slot(self, c: int, counts: Any, shown: Any) -> int:
        working = super()._slot(c, counts, shown)
        column = self._columns[c]
        if column.left and column.current.mode == M8M8 and column.left % NIBBLES[M8M8]:
            working |= super()._slot(c, counts, shown)
        return working


class HighNibblesOnly(BfpPeArrayClocked):
    """The low nibbles of M8M8 are not read."""

    def _read(self, mode: int, weights: Weights) -> Weights:
        narrow = super()._read(mode, weights)
        return narrow._replace(b=tuple(code & 0xF0 for code in narrow.b)) if mode == M8M8 else narrow


class NotSwapped(BfpPe):
    """The sub-PEs read the file that is filled."""

    def _file(self, low: bool = False) -> Any:
        return super()._file()


class SingleBuffered(BfpPeArrayClocked):
    """PEs whose files are not swapped."""

    def _enter(self) -> None:
        for pe in self.elements:
            pe.__class__ = NotSwapped
        super()._enter()


class NoClear(BfpPeArrayClocked):
    """Accumulators continue from one output to the next."""

    def _begin(self, pe: BfpPe, entry: Entry, weights: Weights) -> None:
        super()._begin(pe, entry._replace(clear=0), weights)


class NoMask(BfpPeArrayClocked):
    """Every row is valid."""

    def _enters(self, operands: Any) -> Entry | None:
        entry = super()._enters(operands)
        return entry._replace(rows=(1 << self.rows) - 1) if entry else None


class OverwrittenWeights(BfpPeArrayClocked):
    """Weights that come take the place of those that wait; activations do not."""

    def _arrive(self, operands: Any, c: int, entry: Entry | None, free: bool, counts: Any) -> None:
        column = self._columns[c]
        if column.b_waiting and operands["b_valid"][c]:
            self._columns[c] = column._replace(b_waiting=0)
        super()._arrive(operands, c, entry, free, counts)


class CountsToFour(BfpPeArrayClocked):
    """The number of the column that leaves has two bits."""

    def idle(self, *inputs: Any) -> Changes:
        changes = super().idle(*inputs)
        return {**changes, "col": changes["col"] & 3}


class StuckBusy(BfpPeArrayClocked):
    """`busy` is always 1."""

    def idle(self, *inputs: Any) -> Changes:
        return {**super().idle(*inputs), "busy": 1}


class HopsOfValidColumns(BfpPeArrayClocked):
    """Activations go from one column of the tile to the next, around those that it lacks."""

    def _arrive(self, operands: Any, c: int, entry: Entry | None, free: bool, counts: Any) -> None:
        super()._arrive(operands, c, entry, free, counts)
        column: Column = self._columns[c]
        if column.arrived and not column.next.columns >> c & 1:
            self._columns[c] = column._replace(arrived=0)


WRONG = [
    (DeadElement, PLAIN),
    (LateColumn, PLAIN),
    (NeighboursWeights, PLAIN),
    (NeighboursExponent, PLAIN),
    (OneCycle, PLAIN),
    (OneCycle, "bfp_pe_array_clocked-parallel"),
    (HighNibblesOnly, PLAIN),
    (SingleBuffered, PLAIN),
    (SingleBuffered, "bfp_pe_array_clocked-overlap"),
    (NoClear, PLAIN),
    (NoMask, PLAIN),
    (StuckBusy, PLAIN),
    (OverwrittenWeights, PLAIN),
    (OverwrittenWeights, "bfp_pe_array_clocked-parallel"),
    (OverwrittenWeights, "bfp_pe_array_clocked-overlap"),
    (CountsToFour, "bfp_pe_array_clocked-columns"),
    (HopsOfValidColumns, PLAIN),
]


@pytest.mark.parametrize("name", SETS)
def test_the_right_array_passes(name: str) -> None:
    assert detecting.right(detecting.drawn(name))


@pytest.mark.parametrize(("wrong", "name"), WRONG)
def test_faulty_array_is_detected(wrong: type[BfpPeArrayClocked], name: str) -> None:
    assert detecting.by(detecting.drawn(name), wrong)


def test_unswapped_file_is_detected_if_both_used() -> None:
    """D-harmonia-41: elsewhere the file that is filled still holds the group at its second slot."""
    detected = detecting.by(detecting.drawn("bfp_pe_array_clocked-overlap"), SingleBuffered)

    assert "edge/operands-of-m8m8-that-come-while" in detected


def test_decisions_have_a_row_that_parts_them() -> None:
    """Every alternative of the unit, in some set."""
    unit = units.find("bfp_pe_array_clocked")
    silent = []
    for other in unit.variants:
        seen = False
        for name in SETS:
            rows = detecting.drawn(name)
            try:
                seen = seen or bool(detecting.by(rows, other))
            except (AssertionError, Refused):  # the set's own answer
                continue
        silent += [] if seen else [other.says]
    assert silent == []
