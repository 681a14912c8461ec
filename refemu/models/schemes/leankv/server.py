"""A step of a server, whatever holds its pages: the engine with a model, or the simulator with sizes alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from refemu.models.schemes.leankv.scheduler import Preemption, Scheduler
from refemu.units.leankv.free_page_list import OutOfPages
from refemu.units.leankv.page_manager import PageManager


@dataclass
class Events:
    """Requests of a step by what happened to them, before the computation unless noted."""

    kind: str = "finish"  #: "prompt", "generation", or "finish" if nothing was computed
    names: tuple[int, ...] = ()  #: computed requests
    finished: tuple[int, ...] = ()  #: ended requests whose pages were freed
    preempted: list[int] = field(default_factory=list)  #: requests that yielded
    aborted: list[int] = field(default_factory=list)  #: requests that can never continue


class Server:
    """Steps of a scheduler; subclasses have the pages and the computation."""

    def __init__(self, slots: int, preemption: Preemption) -> None:
        self.scheduler: Scheduler = Scheduler(slots, preemption)

    def _advance(self) -> tuple[Events, Any]:
        """One step: what happened, and what `_prompts` or `_generate` returned.

        A step first frees the pages of requests that ended. Then it computes the prompts of all waiting requests that
        fit, or one token of every running request (D-leankv-52). A request that alone lacks pages is aborted.
        """
        plan, events, rows = self.scheduler, Events(), None
        events.finished = self._over()
        if events.finished:
            self._finish(events.finished)
            plan.finish(events.finished)
        if names := self._admissible():
            rows = self._prompts(names)
            plan.admit(names)
            events.kind, events.names = "prompt", tuple(names)
            return events, rows
        while plan.running:
            try:
                rows = self._generate(plan.running)
            except OutOfPages:
                self._make_space(events)
                continue
            events.kind, events.names = "generation", tuple(plan.running)
            return events, rows
        hopeless = plan.hopeless()
        if hopeless is not None and not (events.finished or events.aborted):  # else pages were freed just now
            self._abort(hopeless, events)
        return events, rows

    def _admissible(self) -> list[int]:
        """Waiting requests that fit; without preemption, for as long as they run."""
        plan = self.scheduler
        if plan.blocked:
            return []
        if plan.preemption != "none":
            return plan.admissible(self._needed, [manager.free for manager in self.managers])
        left = [manager.shape.pages for manager in self.managers]
        for name in plan.running:
            left = [pages - most for pages, most in zip(left, self._most(name), strict=True)]
        return plan.admissible(self._most, left)

    def _make_space(self, events: Events) -> None:
        """Preempt a request, or abort the only one."""
        name = self.scheduler.preempt()
        if name is None:
            name = self.scheduler.running[0]
            self._finish([name])
            self._abort(name, events)
        else:
            events.preempted.append(name)
            self._yield(name)

    def _abort(self, name: int, events: Events) -> None:
        self.scheduler.drop(name)
        self._aborted(name)
        events.aborted.append(name)

    def _over(self) -> tuple[int, ...]:
        """Running requests that have all their tokens."""
        return tuple(name for name in self.scheduler.running if self._ended(name))

    @property
    def managers(self) -> Sequence[PageManager]:
        """Memory manager of each worker."""
        raise NotImplementedError

    def _ended(self, name: int) -> bool:
        """Whether a request has all its tokens."""
        raise NotImplementedError

    def _needed(self, name: int) -> Sequence[int]:
        """Pages for the start of a request in each pool."""
        raise NotImplementedError

    def _most(self, name: int) -> Sequence[int]:
        """Most pages that a request can hold in each pool before it ends."""
        raise NotImplementedError

    def _prompts(self, names: Sequence[int]) -> Any:
        """Compute prompts, or take back requests that yielded."""
        raise NotImplementedError

    def _generate(self, names: Sequence[int]) -> Any:
        """Compute one token of each; raises OutOfPages and then has changed nothing."""
        raise NotImplementedError

    def _finish(self, names: Sequence[int]) -> None:
        """Free the pages of requests."""
        raise NotImplementedError

    def _yield(self, name: int) -> None:
        """Free the pages of a request that will start again."""
        raise NotImplementedError

    def _aborted(self, name: int) -> None:
        """Note that a request, which holds no pages, is aborted."""
