"""The machine fails a device that loses pages, reads stale ids or accepts invalid calls, and passes a correct one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from refemu.testing import PageManagerMachine
from refemu.units.leankv import page_manager
from refemu.units.leankv.page_manager import Moved, Shape

FEW = settings(
    deadline=None,
    max_examples=2000,  # ends with the first failure
    stateful_step_count=15,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)


class Leaking(page_manager.PageManager):
    """Never frees the last page of a finished sequence."""

    def finish(self, sequences: Any) -> Moved:
        moved = super().finish(sequences)
        if moved.ids:
            self.list.tail -= 1
        return moved


class Stale(page_manager.PageManager):
    """Shows every cell one place too far to the right."""

    def cells(self, sequences: Any) -> Any:
        return np.roll(super().cells(sequences), 1, axis=-1)


class Careless(page_manager.PageManager):
    """Finishes unknown sequences."""

    def finish(self, sequences: Any) -> Moved:
        return super().finish([name for name in dict.fromkeys(sequences) if name in self.requests.table])


class Hasty(page_manager.PageManager):
    """Empties the entries before it checks all sequences, so an invalid call changes the device."""

    def finish(self, sequences: Any) -> Moved:
        for name in sequences:
            if name in self.requests.table and len(sequences) > 1:
                self.table.set_tokens(self._entries([name])[0], 0, 0)
        return super().finish(sequences)


@pytest.mark.long
@pytest.mark.parametrize("broken", [Leaking, Stale, Careless, Hasty])
def test_faulty_devices_fail(broken: type[page_manager.PageManager]) -> None:
    class Machine(PageManagerMachine):
        def make(self, shape: Shape) -> page_manager.PageManager:
            return broken(**vars(shape))

    with pytest.raises((AssertionError, ValueError)):
        run_state_machine_as_test(Machine, settings=FEW)


def test_the_golden_manager_passes() -> None:
    class Machine(PageManagerMachine):
        def make(self, shape: Shape) -> page_manager.PageManager:
            return page_manager.PageManager(**vars(shape))

    run_state_machine_as_test(Machine, settings=settings(FEW, max_examples=10))
