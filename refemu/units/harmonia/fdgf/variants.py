"""Variants of the decisions of fdgf."""

from refemu.units.harmonia.fdgf import COLUMN_MAJOR, FETCH_A, ROW_MAJOR, FdgfController
from refemu.units.variant import Variant, choices


class Literal(FdgfController):
    """The formula's fraction of tiles decides."""

    def choose(self, rows: int, inner: int, columns: int) -> int:
        """Compare the formulas as written."""
        first, second = (self.ema(rows, inner, columns, flow, literal=True) for flow in (COLUMN_MAJOR, ROW_MAJOR))
        return COLUMN_MAJOR if first <= second else ROW_MAJOR


class WholeTiles(FdgfController):
    """A tile at the edge is fetched with its padding."""

    def _side(self, code: int, mt: int, kt: int) -> int:
        return self.m if code == FETCH_A else self.k


class RowMajorTies(FdgfController):
    """Dataflow 2 on a tie."""

    def choose(self, rows: int, inner: int, columns: int) -> int:
        """Compare in reverse."""
        first, second = (self.ema(rows, inner, columns, flow) for flow in (COLUMN_MAJOR, ROW_MAJOR))
        return COLUMN_MAJOR if first < second else ROW_MAJOR


class RowMajorForMany(FdgfController):
    """Dataflow 2 from M = K on, as the text says."""

    def choose(self, rows: int, inner: int, columns: int) -> int:
        """Compare M and K."""
        return ROW_MAJOR if rows >= columns else COLUMN_MAJOR


class AlwaysColumnMajor(FdgfController):
    """Dataflow 1 unless it is forced."""

    def choose(self, rows: int, inner: int, columns: int) -> int:
        """No choice."""
        return COLUMN_MAJOR


class AlwaysRowMajor(FdgfController):
    """Dataflow 2 unless it is forced."""

    def choose(self, rows: int, inner: int, columns: int) -> int:
        """No choice."""
        return ROW_MAJOR


VARIANTS: tuple[Variant, ...] = (
    Variant("D-harmonia-30", "the fraction of tiles decides", unit_class=Literal),
    Variant("D-harmonia-30", "tiles at the edge are fetched whole", unit_class=WholeTiles),
    Variant("D-harmonia-31", "dataflow 2 on a tie", unit_class=RowMajorTies),
    Variant("D-harmonia-31", "dataflow 2 while M is not below K", unit_class=RowMajorForMany),
    Variant("D-harmonia-31", "always dataflow 1", unit_class=AlwaysColumnMajor),
    Variant("D-harmonia-31", "always dataflow 2", unit_class=AlwaysRowMajor),
    *choices("D-harmonia-31", "ema_unit", "bits"),
)
