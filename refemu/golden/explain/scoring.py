"""Score of a prediction: bits for every cell that is still wrong, and bits for the search."""

from dataclasses import dataclass

import numpy as np

from refemu.arith.integers import total
from refemu.golden.explain.guess import Prediction
from refemu.golden.explain.table import Table
from refemu.golden.faults.fault import Words, bits_of

GAIN = 12  #: least bits that a story saves, after the price of the search
CHANGED = 0.9  #: least share of the changed cells that become right
RIGHT = 0.6  #: least share of the wrong rows that become right: each side of a condition explains a half
LOOKED_AT = 1 << 13  #: lanes of an array that `crooked` examines, about


@dataclass(frozen=True, eq=False)
class Score:
    """A prediction compared with the device's answers, over the rows of a table."""

    cost: int  #: bits of the cells that are still wrong
    wrong: dict[str, np.ndarray]  #: cells that are still wrong: bool (rows, lanes) by array
    changed: int  #: cells in which it differs from the set
    put_right: int  #: of these the cells that the device gives too
    rows_wrong: np.ndarray  #: bool: rows with a cell that is still wrong, where the prediction reaches them
    rows_changed: np.ndarray  #: bool: rows in which it differs from the set

    @property
    def perfect(self) -> bool:
        """Whether no row is wrong."""
        return not self.rows_wrong.any()


def score(table: Table, prediction: Prediction) -> Score:
    """Score of a prediction."""
    bits = bits_of(cells(table))
    wrong, changed, right, cost = {}, 0, 0, 0
    rows_wrong, rows_changed = np.zeros(len(table.rows), np.bool_), np.zeros(len(table.rows), np.bool_)
    for name, port in table.ports.items():
        words = prediction.words[name]
        cells_wrong = table.unlike(name, words) != 0
        if name in prediction.excused:
            cost += port.bits * int(np.count_nonzero(cells_wrong & prediction.excused[name]))
            cells_wrong = cells_wrong & ~prediction.excused[name]
        wrong[name] = cells_wrong
        cost += (bits + port.bits) * int(np.count_nonzero(cells_wrong))
        rows_wrong |= cells_wrong.any(axis=1)
        if words is not table.want[name]:
            cells_changed = (table.changed(name, words) != 0) & prediction.known[:, None]
            changed += int(np.count_nonzero(cells_changed))
            right += int(np.count_nonzero(cells_changed & ~cells_wrong))
            rows_changed |= cells_changed.any(axis=1)
        if name in prediction.excused:
            other = table.changed(name, table.got[name]) != 0
            rows_changed |= (other & prediction.excused[name]).any(axis=1)
    if prediction.reached is not None:
        rows_wrong &= prediction.reached
    return Score(cost, wrong, changed, right, rows_wrong, rows_changed)


def crooked(table: Table, words: Words) -> int:
    """Wrong bits in a sample of rows, except those wrong in most rows: 0 if only inverted bits remain."""
    count = 0
    for name, port in table.ports.items():
        step = max(1, len(table.rows) * port.count // LOOKED_AT)
        unlike = table.unlike(name, words[name])[::step]
        for bit in range(port.bits):
            wrong = np.count_nonzero((unlike >> unlike.dtype.type(bit)) & unlike.dtype.type(1), axis=0)
            count += int(total(np.minimum(wrong, len(unlike) - wrong)))
    return count


def cells(table: Table) -> int:
    """Cells of a table: rows by ports and lanes."""
    count = 0
    for port in table.ports.values():
        count += port.count
    return count * len(table.rows)


def lanes_better(table: Table, new: Words, old: Words) -> dict[int, np.ndarray]:
    """By number of lanes: the change in wrong cells of each lane if `new` replaces `old`."""
    change: dict[int, np.ndarray] = {}
    for name, port in table.ports.items():
        if port.count == 1 or new[name] is old[name]:
            continue
        before, after = (np.count_nonzero(table.unlike(name, words[name]), axis=0) for words in (old, new))
        change[port.count] = change.get(port.count, np.zeros(port.count, np.int64)) + after - before
    return change
