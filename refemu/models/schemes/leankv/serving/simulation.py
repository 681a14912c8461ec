"""The simulation: arrivals, steps of a server, and the time of each step [leankv §5.3, §6.1, §7.4]."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from refemu.arguments import checked
from refemu.arith.checks import Refused, RefusedType, lookup, require_int
from refemu.models.machine import shapes
from refemu.models.machine.shapes import Shape
from refemu.models.schemes import scheme_text
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.leankv.config import READY, LeanKvConfig
from refemu.models.schemes.leankv.serving import build, running, totals
from refemu.models.schemes.leankv.serving.by_model import ByModel
from refemu.models.schemes.leankv.serving.by_shape import ByShape
from refemu.models.schemes.leankv.serving.clock import Clock
from refemu.models.schemes.leankv.serving.gpu import GPUS, Rates
from refemu.models.schemes.leankv.serving.invariants import CheckedStore
from refemu.models.schemes.leankv.serving.pages import Store
from refemu.models.schemes.leankv.serving.report import Report
from refemu.models.schemes.leankv.serving.saved import Saved
from refemu.models.schemes.leankv.serving.setting import Setting
from refemu.models.schemes.leankv.serving.trace import MOST, Arrival
from refemu.models.schemes.scheme import Progress, Scheme

#: parameters of a scheme that a simulation by shape reads
USED = {"high", "low", "window", "page_bytes", "k_vec", "k_group", "v_vec", "v_group", "align", "num_pages"}
STEPS = 16  #: steps by shape between two reports of progress, each of which takes as long as some steps


@checked
def simulate(
    scheme: "str | Scheme",
    trace: Sequence[Arrival],
    setting: Setting | None = None,
    state: str | Path | None = None,
    progress: Progress | None = None,
) -> Report:
    """Serve requests on a GPU, step by step.

    Parameters
    ----------
    scheme : str or Scheme
        A LeanKV scheme, or `fp16` for the paged cache without compression.
    trace : sequence of Arrival
        Requests in the order of arrival.
    setting : Setting, optional
        Shape, GPU and scheduler; the default is Llama-2-7B on one L40.
    state : str or Path, optional
        File for the state of the simulation, which is saved each minute: an interrupted simulation resumes from it. It
        is deleted at the end.
    progress : callable, optional
        Called as progress(what, done, total) with the generated tokens.

    Returns
    -------
    Report
        Totals, and the state after every step.

    Raises
    ------
    Refused
        A parameter is invalid or changes nothing, the weights leave no memory for pages, or the state is of another
        simulation.
    RefusedType
        The scheme stores its cache in another way.
    """
    setting = setting or Setting()
    config = scheme_text.parse(scheme) if isinstance(scheme, str) else scheme
    if not trace:
        raise Refused("simulate: trace must have a request, got none")
    times = [request.arrival for request in trace]
    if times != sorted(times):
        raise Refused("simulate: requests of the trace must be in the order of arrival; sort them by `arrival`")
    require_int(setting.slots, 1, 1 << 12, "simulate", "slots")
    if setting.context is not None:
        require_int(setting.context, 1, MOST, "simulate", "context")
    server: ByShape | ByModel
    if setting.model is None:
        sizes, rates = _checked(setting)
        server = ByShape(_stores(config, setting, sizes, rates, trace), setting.slots, setting.preemption)
    else:
        server, rates = running.build(config, setting, trace)
    clock = Clock(server, rates)
    shown = _shown(progress, trace, STEPS if setting.model is None else 1)
    if state is None:
        clock.run(trace, shown)
    else:
        _resumed(clock, trace, Saved(Path(state), scheme_text.text(config), trace, setting), shown)
    return totals.report(scheme_text.text(config), setting, clock)


def _shown(progress: Progress | None, trace: Sequence[Arrival], every: int) -> Callable[[Clock], None]:
    """Report the generated tokens after `every` steps."""
    total = 0
    for request in trace:
        total += request.generate

    def shown(clock: Clock) -> None:
        if progress is not None and len(clock.series.rows) % every == 0:
            progress("tokens", clock.counts["tokens"], total)

    return shown


def _resumed(clock: Clock, trace: Sequence[Arrival], saved: Saved, shown: Callable[[Clock], None]) -> None:
    """Run from the last saved state."""
    if isinstance(clock.server, ByModel):
        raise Refused("simulate: a state of a model that runs cannot be saved; leave out --state")
    saved.read(clock)

    def after(now: Clock) -> None:
        shown(now)
        if saved.due():
            saved.write(now)

    clock.run(trace, after)
    saved.path.unlink(missing_ok=True)


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
    kind = CheckedStore if setting.check else Store
    places = setting.workers, memory, longest, min(setting.slots, len(trace))
    if isinstance(config, Fp16Config):
        named = [name for name in ("quality", "high_share", "pruned_share") if getattr(setting, name) is not None]
        if named or config != Fp16Config():
            raise Refused(f"simulate: {(named or ['a parameter'])[0]} of fp16 changes nothing; leave it out")
        return build.uncompressed(sizes, *places, setting.seed, kind)
    if not isinstance(config, LeanKvConfig):
        raise RefusedType(f"simulate: scheme must be one of LeanKV's or fp16, got {scheme_text.name(config)}")
    _require_used(config)
    share = build.high_and_pruned(config, setting.shape, setting.quality, setting.high_share, setting.pruned_share)
    return build.compressed(config, sizes, *places, share, setting.seed, kind)


def _require_used(config: LeanKvConfig) -> None:
    """Reject parameters that change nothing without a model."""
    base = READY[scheme_text.name(config)]
    for field in fields(LeanKvConfig):
        value = getattr(config, field.name)
        if field.name not in USED and value != getattr(base, field.name):
            raise Refused(f"simulate: {field.name} changes nothing in a simulation by shape, got {value}; leave it out")
