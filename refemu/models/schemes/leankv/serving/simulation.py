"""The simulation: arrivals, steps of a server, and the time of each step [leankv §5.3, §6.1, §7.4]."""

from collections import deque
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from refemu.arith.checks import Refused, RefusedType, lookup, require_int
from refemu.models.machine import shapes
from refemu.models.machine.shapes import Shape
from refemu.models.schemes import scheme_text
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.leankv.config import READY, LeanKvConfig
from refemu.models.schemes.leankv.serving import build, running, totals
from refemu.models.schemes.leankv.serving.by_model import ByModel
from refemu.models.schemes.leankv.serving.by_shape import ByShape
from refemu.models.schemes.leankv.serving.gpu import GPUS, Rates, Work
from refemu.models.schemes.leankv.serving.pages import Store
from refemu.models.schemes.leankv.serving.report import Report, Series
from refemu.models.schemes.leankv.serving.server import Events
from refemu.models.schemes.leankv.serving.setting import Setting
from refemu.models.schemes.leankv.serving.trace import Arrival
from refemu.models.schemes.scheme import Scheme

#: parameters of a scheme that a simulation by shape reads
USED = {"high", "low", "window", "page_bytes", "k_vec", "k_group", "v_vec", "v_group", "align", "num_pages"}


def simulate(scheme: "str | Scheme", trace: Sequence[Arrival], setting: Setting | None = None) -> Report:
    """Serve requests on a GPU, step by step.

    Parameters
    ----------
    scheme : str or Scheme
        A LeanKV scheme, or `fp16` for the paged cache without compression.
    trace : sequence of Arrival
        Requests in the order of arrival.
    setting : Setting, optional
        Shape, GPU and scheduler; the default is Llama-2-7B on one L40.

    Returns
    -------
    Report
        Totals, and the state after every step.

    Raises
    ------
    Refused
        A parameter is invalid or changes nothing, or the weights leave no memory for pages.
    RefusedType
        The scheme stores its cache in another way.
    """
    setting = setting or Setting()
    config = scheme_text.parse(scheme) if isinstance(scheme, str) else scheme
    if not trace:
        raise Refused("simulate: trace must have a request, got none")
    require_int(setting.slots, 1, 1 << 12, "simulate", "slots")
    server: ByShape | ByModel
    if setting.model is None:
        sizes, rates = _checked(setting)
        server = ByShape(_stores(config, setting, sizes, rates, trace), setting.slots, setting.preemption)
    else:
        server, rates = running.build(config, setting, trace)
    clock = Clock(server, rates)
    clock.run(trace)
    return totals.report(scheme_text.text(config), setting, clock)


def _checked(setting: Setting) -> tuple[Shape, Rates]:
    sizes, gpu = shapes.find(setting.shape), lookup("gpu", setting.gpu, GPUS)
    if sizes.encoder:
        raise Refused(f"simulate: shape must be a decoder, got {setting.shape}")
    require_int(setting.workers, 1, 1 << 10, "simulate", "workers")
    if sizes.kv_heads % setting.workers:
        raise Refused(f"simulate: workers must divide the {sizes.kv_heads} KV heads, got {setting.workers}")
    if not 0 < setting.memory_share <= 1:
        raise Refused(f"simulate: memory_share must be above 0 and at most 1, got {setting.memory_share}")
    return sizes, Rates(sizes, gpu, setting.workers)


def _stores(config: Any, setting: Setting, sizes: Shape, rates: Rates, trace: Sequence[Arrival]) -> list[Store]:
    memory = int(rates.gpu.memory * setting.memory_share) - rates.weight_bytes
    if memory <= 0:
        raise Refused(
            f"simulate: the weights of {setting.shape} take {rates.weight_bytes} bytes of each GPU, more than "
            f"{setting.memory_share} of its {rates.gpu.memory}; give more workers"
        )
    longest = setting.context or max(request.prompt + request.generate - 1 for request in trace)
    places = setting.workers, memory, longest, min(setting.slots, len(trace))
    if isinstance(config, Fp16Config):
        given = [name for name in ("quality", "high_share", "pruned_share") if getattr(setting, name) is not None]
        if given or config != Fp16Config():
            raise Refused(f"simulate: {(given or ['a parameter'])[0]} of fp16 changes nothing; leave it out")
        return build.uncompressed(sizes, *places, setting.seed)
    if not isinstance(config, LeanKvConfig):
        raise RefusedType(f"simulate: scheme must be one of LeanKV's or fp16, got {scheme_text.name(config)}")
    _require_used(config)
    share = build.high_and_pruned(config, setting.shape, setting.quality, setting.high_share, setting.pruned_share)
    return build.compressed(config, sizes, *places, share, setting.seed)


def _require_used(config: LeanKvConfig) -> None:
    """Reject parameters that change nothing without a model."""
    base = READY[scheme_text.name(config)]
    for field in fields(LeanKvConfig):
        value = getattr(config, field.name)
        if field.name not in USED and value != getattr(base, field.name):
            raise Refused(f"simulate: {field.name} changes nothing in a simulation by shape, got {value}; leave it out")


class Clock:
    """Time, and what happened until now."""

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

    def run(self, trace: Sequence[Arrival]) -> None:
        """Serve all requests."""
        coming, plan = deque(trace), self.server.scheduler
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
