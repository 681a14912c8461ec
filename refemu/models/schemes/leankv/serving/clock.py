"""Time of a simulation, and counts of its steps."""

from collections import deque
from collections.abc import Callable, Sequence

from refemu.models.schemes.leankv.server import Events
from refemu.models.schemes.leankv.serving.by_model import ByModel
from refemu.models.schemes.leankv.serving.by_shape import ByShape
from refemu.models.schemes.leankv.serving.gpu import Rates, Work
from refemu.models.schemes.leankv.serving.report import Series
from refemu.models.schemes.leankv.serving.trace import Arrival


class Clock:
    """Time, and what happened until now."""

    server: ByShape | ByModel
    rates: Rates
    now: float
    operations: float
    stalled: float
    generating: float
    stalled_steps: int

    def __init__(self, server: ByShape | ByModel, rates: Rates) -> None:
        self.server, self.rates = server, rates
        self.now = 0.0
        self.series: Series = Series()
        self.counts: dict[str, int] = dict.fromkeys(
            ("finished", "preempted", "preemptions", "rejected", "aborted", "prompt", "generation", "tokens"), 0
        )
        self.bound: dict[str, float] = dict.fromkeys(("memory", "compute", "link"), 0.0)
        self.bytes: dict[str, float] = dict.fromkeys(("weights", "cache", "swapped", "reduced"), 0.0)
        self.operations = self.stalled = self.generating = 0.0
        self.stalled_steps = 0
        self.lost: set[int] = set()  # requests that were preempted
        self.first: dict[int, float] = {}  # time of the first token
        self.arrived: dict[int, float] = {}

    def run(self, trace: Sequence[Arrival], after: Callable[["Clock"], None] = lambda clock: None) -> None:
        """Serve all requests, except those that have arrived before; `after` is called after every step."""
        coming, plan = deque(trace[len(self.server.requests) :]), self.server.scheduler
        while coming or plan.waiting or plan.running:
            if not plan.waiting and not plan.running:
                self.now = max(self.now, coming[0].arrival)
            while coming and coming[0].arrival <= self.now:
                request = coming.popleft()
                name = self.server.submit(request)
                self.counts["rejected"] += name is None
                if name is not None:
                    self.arrived[name] = request.arrival
            if plan.waiting or plan.running:
                self._record(self.server.step())
                after(self)

    def _record(self, events: Events) -> None:
        """Take the time of a step, and note the state after it."""
        work = self._work(events)
        seconds, bound = self.rates.seconds(work)
        self.now += seconds
        self.bound[bound] += seconds
        for name in self.bytes:
            self.bytes[name] += getattr(work, name)
        self.operations += work.linear + work.attention
        self._count(events, seconds)

    def _count(self, events: Events, seconds: float) -> None:
        plan, counts = self.server.scheduler, self.counts
        counts["finished"] += len(events.finished)
        counts["aborted"] += len(events.aborted)
        counts["preemptions"] += len(events.preempted)
        self.lost.update(events.preempted)
        counts["preempted"] = len(self.lost)
        if events.kind != "finish":
            counts[events.kind] += 1
        counts["tokens"] += self.server.fresh
        self.generating += seconds * (events.kind == "generation")
        for name in events.names if events.kind == "prompt" else ():
            self.first.setdefault(name, self.now)
        stalled = bool(plan.waiting) and len(plan.running) < plan.slots
        self.stalled += seconds * stalled
        self.stalled_steps += stalled
        high = low = used = whole = 0
        for usage in self.server.usage():
            high, low, used = high + usage.pages[0], low + usage.pages[1], used + usage.bytes
            whole += (usage.pages[0] + usage.pages[1]) * usage.page
        share = 1 - used / whole if whole else 0.0
        row = (self.now, len(plan.running), len(plan.waiting), stalled, high, low, share)
        self.series.rows.append((*row, counts["tokens"], counts["preemptions"], events.kind == "prompt"))

    def _work(self, events: Events) -> Work:
        """Work of the worker with the most bytes."""
        server, batch = self.server, len(events.names)
        if events.kind == "finish":
            return self.rates.work(0, 0, 0, 0, server.swapped)
        usages = server.usage(events.names)
        moved = max(usage.bytes for usage in usages)  # written after a prompt, read in a step
        if events.kind == "prompt":
            tokens = pairs = 0
            for length in server.computed:
                tokens, pairs = tokens + length, pairs + length * (length + 1) // 2
            return self.rates.work(tokens, len(server.computed), pairs, moved if tokens else 0, server.swapped)
        stored = heads = 0
        for usage in usages:
            stored, heads = stored + usage.tokens[0] + usage.tokens[1], heads + usage.heads
        return self.rates.work(batch, batch, stored / heads, moved, server.swapped)
