"""Records and runs of the scheme's pages."""

import numpy as np

from refemu.models.schemes.leankv.machine.pages import run_of
from refemu.units.leankv.page_table import HIGH, LOW


def test_runs_come_from_both_ends_of_an_entry() -> None:
    cells = np.array([5, 6, -1, 9, 8])

    assert run_of(cells, HIGH, 2).tolist() == [5, 6] and run_of(cells, LOW, 2).tolist() == [8, 9]
