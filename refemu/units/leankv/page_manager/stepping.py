"""Events inside the calls of page_manager: plans, levels of prefix sums, pointers of the list, writes to the table.

Paper: [leankv §5.2, Fig. 5]. The call is made at once, so that an
error changes nothing; every event is the State of the units at that time, and leads to the next.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from refemu.arith.checks import Refused
from refemu.units.declaration import DeclaredState
from refemu.units.leankv.page_manager.pool import Pool
from refemu.units.leankv.page_manager.requests import Moved
from refemu.units.leankv.prefix_sum import PrefixSum


class Stepping(Pool):
    """A pool whose calls are stepped; `PageManager` adds the calls."""

    @property
    def busy(self) -> bool:
        """Whether events of a call remain."""
        return self._last.get("following") is not None

    def _open(self, *inputs: Any) -> DeclaredState:
        """Make the call, then show its events one by one."""
        op, members, *lanes_of = inputs
        before = self._last, self._moves
        latched = dict(zip(("sequences", "prompts", "high", "low"), map(list, lanes_of), strict=True))
        self._note("plan", op=op, members=members, **latched)
        index, self._moves, self._log = self._last["index"], (Moved(), Moved()), []
        try:
            self._called(op, members, **latched)
        except Refused:
            (self._last, self._moves), self._log = before, None
            raise
        log, self._log = self._log, None
        self._last |= {"op": op, "members": members, **latched, "index": index}
        first = self.state
        for state in reversed(log):
            first = replace(state, following=first)
        self.state = first
        return first

    def _continue(self) -> DeclaredState:
        following: DeclaredState = self._last["following"]
        self.state = following
        return following

    def _called(
        self, op: int, members: int, sequences: Sequence[int], prompts: Sequence[int], high: Any, low: Any
    ) -> None:
        """Make one of the four calls."""
        raise NotImplementedError

    def _levels(self, counts: Sequence[int], base: int) -> None:
        """Log the plan of a prefix sum, and the levels of the network."""
        if not counts:
            return
        network = PrefixSum(len(counts))
        state = network.step(tuple(counts), base)
        self._inner("plan", Moved(tuple(counts), state.inclusive))
        while network.busy:
            self._inner("level", Moved(tuple(counts), network.step().inclusive))

    def _inner(self, event: str, moved: Moved | None = None) -> None:
        """Save the State of an event inside a stepped call."""
        if self._log is not None:
            self._last["event"] = event
            if moved:
                self._moves = moved, Moved()
            self._log.append(self.state)

    def _append(self, entry: int, section: int, ids: Sequence[int]) -> None:
        """Append pages to a run."""
        self.table.append(entry, section, ids)
        self._inner("append")

    def _set_tokens(self, entry: int, high: int, low: int) -> None:
        """Record the tokens of both runs."""
        self.table.set_tokens(entry, high, low)
        self._inner("tokens")

    def _split(self, entry: int, high: int, low: int) -> list[int]:
        """Split the runs of a released prompt; return the surplus pages."""
        ids = self.table.split(entry, high, low)
        self._inner("split")
        return ids

    def _clear(self, entry: int) -> list[int]:
        """Empty an entry; return its pages."""
        ids = self.table.clear(entry)
        self._inner("clear")
        return ids
