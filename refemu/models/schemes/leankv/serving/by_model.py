"""A server that runs a model: its attention decides which tokens are significant."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.arith import integers
from refemu.arith.checks import Refused
from refemu.models.schemes.leankv.engine import Engine
from refemu.models.schemes.leankv.scheduler import Preemption, Scheduler
from refemu.models.schemes.leankv.server import Events
from refemu.models.schemes.leankv.serving.pages import Usage
from refemu.models.schemes.leankv.serving.trace import Arrival
from refemu.units.leankv.page_manager import PageManager

SHIFT = 7  #: tokens between the starts of the prompts of two requests in the text


class ByModel:
    """The engine, with prompts of a text, as the simulation sees it."""

    def __init__(self, prepared: Any, ids: Sequence[int], slots: int, preemption: Preemption) -> None:
        """ids: tokens of a text, from which prompts are cut."""
        self.engine: Engine = Engine(prepared, slots, preemption=preemption)
        self.ids = np.asarray(ids, np.int64)
        self.swapped: int = 0  #: bytes to or from the host in the last step
        self.computed: list[int] = []  #: lengths of the prompts that the last step computed
        self.fresh: int = 0  #: tokens that the last step generated
        self._known: int = 0

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler of the engine."""
        return self.engine.scheduler

    @property
    def managers(self) -> list[PageManager]:
        """Memory manager of each worker."""
        return self.engine.managers

    @property
    def page(self) -> tuple[int, tuple[int, int]]:
        """Bytes of a page; tokens of a high and of a low page."""
        high, low = (*self.engine.paged.units.pages.sections, self.engine.paged.units.pages.high)[:2]
        return high.size, (high.tokens, low.tokens)

    @property
    def requests(self) -> Sequence[Any]:
        """Requests that have arrived and were accepted."""
        return list(self.engine.requests.values())

    def submit(self, request: Arrival) -> int | None:
        """Add a request; returns its name, or None for one that can never be served."""
        start = SHIFT * len(self.engine.requests) % len(self.ids)
        tokens = np.take(self.ids, np.arange(start, start + request.prompt), mode="wrap")
        try:
            return self.engine.submit(tokens, request.generate)
        except Refused:
            return None

    def step(self) -> Events:
        """The next step."""
        requests, engine = self.engine.requests, self.engine
        saved = [name for name in engine.waiting if requests[name].pages is not None]
        before = {name: self._bytes(requests[name].pages) for name in saved}
        step = engine.step()
        events = Events()
        if step is not None:
            events = Events(step.kind, step.names, step.finished, list(step.preempted), list(step.aborted))
        back = [name for name in events.names if name in before and events.kind == "prompt"]
        self.computed = [
            len(requests[name].prompt) for name in events.names if events.kind == "prompt" and name not in back
        ]
        went = [self._bytes(requests[name].pages) for name in events.preempted if requests[name].pages is not None]
        self.swapped = int(integers.total(np.array([*went, *(before[name] for name in back)], np.int64)))
        generated = int(integers.total(np.array([len(request.fed) for request in requests.values()], np.int64)))
        self.fresh, self._known = generated - self._known, generated
        return events

    def _bytes(self, images: Any) -> int:
        return max((image.pages.nbytes for image in images), default=0)

    def usage(self, names: Sequence[int] | None = None) -> list[Usage]:
        """What requests hold in each worker; None: all."""
        usages = []
        for pool in self.engine.pools.pools:
            held = list(pool.manager.requests.table) if names is None else list(names)
            tokens, pages = pool.manager.lengths(held), pool.manager.used(held)
            counts = [int(integers.total(part[..., section])) for part in (tokens, pages) for section in range(2)]
            high, low = pool.layouts.high, pool.layouts.low or pool.layouts.high
            each = tuple(page.config.token_bytes(page.head_size) for page in (high, low))
            entries = pool.manager.shape.layers * pool.manager.shape.heads
            usages.append(Usage((counts[0], counts[1]), (counts[2], counts[3]), (each[0], each[1]), high.size, entries))
        return usages

    @property
    def number(self) -> int:
        """Requests that were accepted."""
        return len(self.engine.requests)
