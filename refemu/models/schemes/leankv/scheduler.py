"""The scheduler of the engine and of the simulator: which requests run, wait and yield [leankv §6.1].

Requests are admitted in the order of arrival, as many as fit (D-leankv-52). If a generation step lacks pages, the
request that was admitted last yields and goes to the front of the queue, until the step fits (D-leankv-68). So the
oldest request always advances, and no request waits for ever.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, get_args

from refemu.arith.checks import require_choice, require_int
from refemu.units.declaration import decides

Preemption: TypeAlias = Literal["recompute", "swap", "none"]
PREEMPTIONS: tuple[Preemption, ...] = get_args(Preemption)


class Scheduler:
    """Names of requests: waiting, in the order in which they will start, and running, in the order of admission."""

    def __init__(self, slots: int, preemption: Preemption = "recompute") -> None:
        """Start without requests.

        Parameters
        ----------
        slots : int
            Most requests that run at once, at least 1.
        preemption : {"recompute", "swap", "none"}
            What happens to the pages of a request that yields; with "none" no request has to (D-leankv-68).

        Raises
        ------
        Refused
            A value is out of range.
        """
        require_int(slots, 1, 1 << 24, "scheduler", "slots")
        require_choice(preemption, PREEMPTIONS, "scheduler", "preemption")
        self.slots: int = slots
        self.preemption: Preemption = preemption
        self.waiting: deque[int] = deque()
        self.running: list[int] = []
        self._yielded: set[int] = set()  # requests that wait for another to end

    def arrive(self, name: int) -> None:
        """Append a request to the queue.

        Parameters
        ----------
        name : int
            Its name.
        """
        self.waiting.append(name)

    @property
    def blocked(self) -> bool:
        """Whether no request can start, however many pages are free."""
        return not self.waiting or len(self.running) == self.slots or self.waiting[0] in self._yielded

    @decides("D-leankv-52")
    def admissible(self, needed: Callable[[int], Sequence[int]], free: Sequence[int]) -> list[int]:
        """List the first waiting requests that fit together.

        Parameters
        ----------
        needed : function
            Pages that a request needs in each worker's pool.
        free : sequence of int
            Free pages of each pool.

        Returns
        -------
        list of int
            Names, in the order of the queue; none while the first one has just yielded (D-leankv-68).
        """
        names, left = list[int](), list(free)
        for name in self.waiting:
            left = [pages - need for pages, need in zip(left, needed(name), strict=True)]
            if name in self._yielded or len(self.running) + len(names) == self.slots or min(left) < 0:
                break
            names.append(name)
        return names

    def admit(self, names: Sequence[int]) -> None:
        """Start the first waiting requests.

        Parameters
        ----------
        names : sequence of int
            As `admissible` lists them.
        """
        for name in names:
            self.waiting.remove(name)
            self.running.append(name)

    def finish(self, names: Sequence[int]) -> None:
        """Remove running requests that ended; those that yielded may start again.

        Parameters
        ----------
        names : sequence of int
            Their names.
        """
        for name in names:
            self.running.remove(name)
        self._yielded.clear()

    @decides("D-leankv-68")
    def preempt(self) -> int | None:
        """Move the request that was admitted last to the front of the queue.

        Returns
        -------
        int or None
            Its name; None if fewer than two run, so that nobody else could use its pages.
        """
        if len(self.running) < 2:
            return None
        name = self.running.pop()
        self.waiting.appendleft(name)
        self._yielded.add(name)
        return name

    def hopeless(self) -> int | None:
        """Find a request that cannot start although nothing runs.

        Returns
        -------
        int or None
            The first waiting request if nothing runs, else None. If it does not fit now, it never will.
        """
        return self.waiting[0] if self.waiting and not self.running else None

    def drop(self, name: int) -> None:
        """Remove a request that is aborted.

        Parameters
        ----------
        name : int
            Its name, running or waiting.
        """
        if name in self.running:
            self.finish([name])
        else:
            self.waiting.remove(name)
        self._yielded.discard(name)
