"""A server of a model of which only sizes are known."""

from collections.abc import Sequence
from dataclasses import dataclass

from refemu.models.schemes.leankv.scheduler import Preemption
from refemu.models.schemes.leankv.server import Events, Server
from refemu.models.schemes.leankv.serving.invariants import CheckedStore
from refemu.models.schemes.leankv.serving.pages import Store, Usage
from refemu.models.schemes.leankv.serving.trace import Arrival
from refemu.units.leankv.page_manager import PageManager


@dataclass
class State:
    """Progress of one request."""

    prompt: int
    generate: int
    done: int = 0  #: generated tokens


class ByShape(Server):
    """Requests by lengths, on the pages of every worker."""

    def __init__(self, stores: Sequence[Store], slots: int, preemption: Preemption) -> None:
        super().__init__(slots, preemption)
        self.stores: tuple[Store, ...] = tuple(stores)
        self._requests: dict[int, State] = {}
        self._grown: list[int] = []  # requests that the last steps generated for, together
        self._uncounted = 0  # tokens of each of them that are not in `done` yet
        self._left = 0  # steps until the first of them ends
        self._asked: tuple[int, list[int]] = -1, []  # a request that waits, and the pages that it needs
        self.swapped: int = 0  #: bytes to or from the host in the last step, of the worker with the most
        self._rejected = 0
        self.fresh: int = 0  #: tokens that the last step generated
        self.computed: list[int] = []  #: lengths of the prompts that the last step computed

    @property
    def requests(self) -> dict[int, State]:
        """Progress of all requests by name."""
        for name in self._grown if self._uncounted else ():
            self._requests[name].done += self._uncounted
        self._uncounted = 0
        return self._requests

    @requests.setter
    def requests(self, requests: dict[int, State]) -> None:
        self._requests, self._grown, self._uncounted = requests, [], 0

    def submit(self, request: Arrival) -> int | None:
        """Add a request; returns its name, or None for one that can never be served."""
        shape, name = self.stores[0].shape, len(self._requests)
        self._requests[name] = State(request.prompt, request.generate)
        length = request.prompt + request.generate - 1
        tokens = length if self.scheduler.preemption == "none" else request.prompt
        fits = all(store.pages_for(tokens) <= store.shape.pages for store in self.stores)
        if length > shape.max_len or not fits:
            self._rejected += 1
            return None
        self.scheduler.arrive(name)
        return name

    def step(self) -> Events:
        """The next step."""
        self.swapped, self.computed = 0, []
        events = self._advance()[0]
        for store in self.stores:
            if isinstance(store, CheckedStore):
                store.require_names(self.scheduler.running)
        self.fresh = len(events.names) if events.kind == "generation" else len(self.computed)
        return events

    @property
    def managers(self) -> list[PageManager]:
        """Memory manager of each worker."""
        return [store.manager for store in self.stores]

    @property
    def page(self) -> tuple[int, tuple[int, int]]:
        """Bytes of a page; tokens of a high and of a low page."""
        return self.stores[0].layout.page, self.stores[0].layout.tokens

    @property
    def number(self) -> int:
        """Requests that were accepted."""
        return len(self.requests) - self._rejected

    def usage(self, names: Sequence[int] | None = None) -> list[Usage]:
        """What requests hold in each worker; None: all."""
        return [store.usage(names) for store in self.stores]

    def _from_host(self, state: State) -> bool:
        """Whether the pages of a request that starts are on the host."""
        return self.scheduler.preemption == "swap" and state.done > 0

    def _length(self, name: int) -> int:
        """Tokens in the cache once a request has started: from the host, the newest one has not been computed yet."""
        state = self.requests[name]
        return state.prompt + state.done - self._from_host(state)

    def _over(self) -> tuple[int, ...]:
        if self._left > 0 and self._grown == self.scheduler.running:
            return ()
        requests = self.requests
        return tuple(n for n in self.scheduler.running if requests[n].done >= requests[n].generate)

    def _ended(self, name: int) -> bool:
        return self.requests[name].done >= self.requests[name].generate

    def _needed(self, name: int) -> list[int]:
        if name != self._asked[0]:
            self._asked = name, [store.pages_for(self._length(name)) for store in self.stores]
        return self._asked[1]

    def _most(self, name: int) -> list[int]:
        state = self.requests[name]
        return [store.pages_for(state.prompt + state.generate - 1) for store in self.stores]

    def _prompts(self, names: Sequence[int]) -> None:
        lengths, self._asked = {name: self._length(name) for name in names}, (-1, [])
        for store in self.stores:
            store.admit(lengths)
        back = [name for name in names if self._from_host(self.requests[name])]
        self._swap(back)
        self.computed = [length for name, length in lengths.items() if name not in back]
        for name in names:
            self.requests[name].done += name not in back

    def _generate(self, names: Sequence[int]) -> None:
        for store in self.stores:  # all or none
            store.plan(names)
        for store in self.stores:
            store.step(names)
        if self._grown != names:
            requests = self.requests
            self._grown, self._left = list(names), min(requests[name].generate - requests[name].done for name in names)
        self._uncounted, self._left = self._uncounted + 1, self._left - 1

    def _finish(self, names: Sequence[int]) -> None:
        for store in self.stores:
            store.finish(names)

    def _yield(self, name: int) -> None:
        if self.scheduler.preemption == "swap":
            self._swap([name])
        for store in self.stores:
            store.preempt(name)

    def _swap(self, names: Sequence[int]) -> None:
        """Count the pages of requests that go to the host or come back."""
        moved = [0]
        for store in self.stores:
            high, low = store.usage(names).pages
            moved.append((high + low) * store.layout.page)
        self.swapped += max(moved)
