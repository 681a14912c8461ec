"""State machines for devices with memory: any sequence of calls, compared with the golden model.

    class Mine(PageManagerMachine):
        def make(self, shape):
            return MyDriver(shape)  # of a simulated RTL, a GPU kernel, ...

    TestMine = Mine.TestCase

[leankv §5.3] The device needs the methods of `refemu.units.leankv.page_manager.PageManager` that the machine calls,
`prompt_allocate`, `prompt_release`, `step_allocate`, `finish`, and those that look at it: `free_ids`, `cells`,
`lengths`, `used`.
"""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from refemu.units.leankv import page_manager
from refemu.units.leankv.page_manager import Request, Shape

NAMES = st.integers(0, 5)  #: of sequences: few, so that known and unknown ones are drawn


def shapes() -> st.SearchStrategy[Shape]:
    """Small managers with every policy, whose pools run out and whose tables overflow."""
    return st.builds(
        lambda low, high, **others: Shape(high_tokens=high, low_tokens=None if low is None else low + high, **others),
        pages=st.integers(4, 40),
        layers=st.integers(1, 2),
        heads=st.integers(1, 3),
        high=st.integers(1, 3),
        low=st.none() | st.integers(0, 3),
        max_len=st.integers(1, 12),
        slots=st.integers(1, 3),
        reserve_low=st.integers(0, 1),
        table_extra=st.integers(0, 2),
        lazy_pages=st.booleans(),
        scrub=st.booleans(),
    )


class PageManagerMachine(RuleBasedStateMachine):
    """State machine that drives a device and the golden manager with the same calls and compares them.

    A call must be valid for both or raise ValueError in both.
    """

    golden: page_manager.PageManager  #: the golden manager
    device: Any  #: what `make` makes: any object with the methods of the golden manager

    def make(self, shape: Shape) -> Any:
        """Make the device: override this. By default it is a second golden manager.

        Parameters
        ----------
        shape : Shape
            Parameters of the manager.

        Returns
        -------
        object
            Device with the methods of the golden manager.
        """
        from refemu.units.leankv.page_manager import compiled as page_manager_compiled

        return page_manager_compiled.PageManager(**vars(shape))

    @initialize(shape=shapes())
    def begin(self, shape: Shape) -> None:
        """Make a golden manager and a device of one shape.

        Parameters
        ----------
        shape : Shape
            Drawn parameters.
        """
        self.shape = shape
        self.golden = page_manager.PageManager(**vars(shape))
        self.device = self.make(shape)

    def call(self, method: str, *arguments: Any) -> None:
        """Make the same call of both; an invalid call must raise ValueError in both and change nothing.

        Parameters
        ----------
        method : str
            Name of the method.
        *arguments : object
            Its arguments.

        Raises
        ------
        AssertionError
            Only one raises ValueError, or an invalid call changed the device.
        """
        try:
            getattr(self.golden, method)(*arguments)
        except ValueError as error:
            before = self.observed()
            try:
                getattr(self.device, method)(*arguments)
            except ValueError:
                assert self.observed() == before, f"{method} raised ValueError and changed the device"
                return
            raise AssertionError(f"{method}{arguments}: the device accepts an invalid call: {error}") from None
        getattr(self.device, method)(*arguments)

    def observed(self) -> tuple[object, ...]:
        """Observable state of the device.

        Returns
        -------
        tuple
            Free pages, runs and lengths.
        """
        names = list(self.golden.requests.table)
        return (
            [int(page) for page in self.device.free_ids()],
            self.runs(self.device, names),
            np.asarray(self.device.lengths(names)).tolist(),
        )

    def runs(self, manager: Any, names: list[int]) -> list[list[int]]:
        """Pages of every head in the order of the table: the high run, then the low run.

        Parameters
        ----------
        manager : object
            Device or golden manager.
        names : list of int
            Sequences.

        Returns
        -------
        list of list of int
            Page ids by head.
        """
        cells, used = (
            np.asarray(values).reshape(-1, size)
            for values, size in ((manager.cells(names), self.shape.length), (manager.used(names), 2))
        )
        return [[*row[:high], *row[::-1][:low]] for row, (high, low) in zip(cells.tolist(), used.tolist(), strict=True)]

    @property
    def requests(self) -> dict[int, Request]:
        """Sequences that the golden manager holds."""
        return self.golden.requests.table

    @rule(prompts=st.dictionaries(NAMES, st.integers(0, 13), max_size=3))
    def prompt_allocate(self, prompts: dict[int, int]) -> None:
        """Admit sequences; known names, empty and too long prompts are among them.

        Parameters
        ----------
        prompts : dict of int
            Drawn tokens of the prompt by name.
        """
        self.call("prompt_allocate", prompts)

    def _heads(self, data: st.DataObject, sequences: list[int], values: st.SearchStrategy[tuple[int, int]]) -> Any:
        count = len(sequences) * self.shape.layers * self.shape.heads
        pairs = data.draw(st.lists(values, min_size=count, max_size=count))
        table = np.array(pairs, np.int64).reshape(len(sequences), self.shape.layers, self.shape.heads, 2)
        return table[..., 0], table[..., 1] * (self.shape.low_tokens is not None)

    @precondition(lambda self: any(not request.running for request in self.requests.values()))
    @rule(data=st.data())
    def prompt_release(self, data: st.DataObject) -> None:
        """Release prompts; every head retains any number of tokens, at most those of the prompt.

        Parameters
        ----------
        data : DataObject
            Draws the sequences and their tokens.
        """
        waiting = [name for name, request in self.requests.items() if not request.running]
        chosen = data.draw(st.lists(st.sampled_from(waiting), unique=True, min_size=1))
        most = min(self.requests[name].prompt for name in chosen)
        kept = st.integers(0, most).flatmap(lambda high: st.tuples(st.just(high), st.integers(0, most - high)))
        self.call("prompt_release", chosen, *self._heads(data, chosen, kept))

    @precondition(lambda self: any(request.running for request in self.requests.values()))
    @rule(data=st.data())
    def step_allocate(self, data: st.DataObject) -> None:
        """Grow one section of every head, or none.

        Parameters
        ----------
        data : DataObject
            Draws the sequences and their sections.
        """
        running = [name for name, request in self.requests.items() if request.running]
        chosen = data.draw(st.lists(st.sampled_from(running), unique=True, min_size=1))
        self.call("step_allocate", chosen, *self._heads(data, chosen, st.sampled_from([(0, 0), (1, 0), (0, 1)])))

    @rule(sequences=st.lists(NAMES, max_size=3))
    def finish(self, sequences: list[int]) -> None:
        """Finish sequences; unknown names and the same one twice are among them.

        Parameters
        ----------
        sequences : list of int
            Drawn names.
        """
        self.call("finish", sequences)

    @rule(
        data=st.data(),
        sequences=st.lists(NAMES, min_size=1, max_size=2),
        method=st.sampled_from(["prompt_release", "step_allocate"]),
        pair=st.sampled_from([(99, 0), (1, 1), (-1, 0), (0, -1)]),
    )
    def impossible(self, data: st.DataObject, sequences: list[int], method: str, pair: tuple[int, int]) -> None:
        """Call with numbers that no head can have, or sequences in the wrong phase.

        Parameters
        ----------
        data : DataObject
            Source of further draws.
        sequences : list of int
            Drawn names.
        method : str
            Drawn method.
        pair : (int, int)
            Drawn numbers of high and low tokens.
        """
        shape = len(sequences), self.shape.layers, self.shape.heads
        self.call(method, sequences, np.full(shape, pair[0]), np.full(shape, pair[1]))

    @invariant()
    def device_is_as_golden(self) -> None:
        """Check free pages in their order, the runs of every head, and its tokens."""
        if hasattr(self, "golden"):
            names = list(self.requests)
            assert [int(page) for page in self.device.free_ids()] == self.golden.free_ids()
            assert self.runs(self.device, names) == self.runs(self.golden, names)
            assert np.asarray(self.device.lengths(names)).tolist() == self.golden.lengths(names).tolist()

    @invariant()
    def every_page_has_one_owner(self) -> None:
        """Check that every page is free or in one run: none lost, none with two owners, no stale id read."""
        if hasattr(self, "golden"):
            owned = [page for run in self.runs(self.device, list(self.requests)) for page in run]
            assert sorted(owned + [int(page) for page in self.device.free_ids()]) == list(range(self.shape.pages))

    @invariant()
    def pages_hold_their_tokens(self) -> None:
        """Check that runs are as long as their tokens need; prompts, reserves and eager pages may have some more."""
        if hasattr(self, "golden"):
            names, shape = list(self.requests), self.shape
            tokens, used = (np.asarray(x).reshape(-1, 2) for x in (self.device.lengths(names), self.device.used(names)))
            need = -(-tokens // np.array([shape.high_tokens, shape.low_tokens or 1]))
            assert (used >= need).all() and (used[:, 0] + used[:, 1] <= shape.length).all()
            running = np.array([self.requests[name].running for name in names], np.bool_)
            if shape.lazy_pages:
                assert (used == need)[np.repeat(running, shape.layers * shape.heads)].all()
