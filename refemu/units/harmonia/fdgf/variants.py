"""Variants of the decisions of fdgf."""

from refemu.units.harmonia.fdgf import COLUMN_MAJOR, FETCH_A, ROW_MAJOR, FdgfController
from refemu.units.variant import Variant, choices, overriding


def _literal(self: FdgfController, rows: int, inner: int, columns: int) -> int:
    first, second = (self.ema(rows, inner, columns, flow, literal=True) for flow in (COLUMN_MAJOR, ROW_MAJOR))
    return COLUMN_MAJOR if first <= second else ROW_MAJOR


def _row_major_ties(self: FdgfController, rows: int, inner: int, columns: int) -> int:
    first, second = (self.ema(rows, inner, columns, flow) for flow in (COLUMN_MAJOR, ROW_MAJOR))
    return COLUMN_MAJOR if first < second else ROW_MAJOR


_device = overriding(FdgfController)
VARIANTS: tuple[Variant, ...] = (
    _device("D-harmonia-30: the fraction of tiles decides", choose=_literal),
    _device(
        "D-harmonia-30: tiles at the edge are fetched whole",
        _side=lambda self, code, mt, kt: self.m if code == FETCH_A else self.k,
    ),
    _device("D-harmonia-31: dataflow 2 on a tie", choose=_row_major_ties),
    _device(
        "D-harmonia-31: dataflow 2 while M is not below K",
        choose=lambda self, rows, inner, columns: ROW_MAJOR if rows >= columns else COLUMN_MAJOR,
    ),
    _device("D-harmonia-31: always dataflow 1", choose=lambda self, *shape: COLUMN_MAJOR),
    _device("D-harmonia-31: always dataflow 2", choose=lambda self, *shape: ROW_MAJOR),
    *choices("D-harmonia-31", "ema_unit", "bits"),
)
