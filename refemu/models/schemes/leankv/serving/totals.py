"""Sums over the pages of all workers, and the report of a finished simulation."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.models.schemes.leankv.serving.pages import Store
from refemu.models.schemes.leankv.serving.report import Report

if TYPE_CHECKING:
    from refemu.models.schemes.leankv.serving.simulation import Clock, Setting


def state(stores: Sequence[Store]) -> tuple[int, int, int, int]:
    """Pages held at the high and the low precision, bytes of the tokens in them, and bytes of the pages."""
    high = low = used = bytes_held = 0
    for store in stores:
        for held in store.held.values():
            pages = int(held.pages[0]), int(held.pages[1])
            high, low = high + pages[0], low + pages[1]
            bytes_held += (pages[0] + pages[1]) * store.layout.page
        used += stored_bytes(store, list(store.held))
    return high, low, used, bytes_held


def stored_bytes(store: Store, names: Sequence[int]) -> int:
    """Bytes of the stored tokens of requests in one worker, with metadata, scores and positions."""
    total, (high, low) = 0, store.layout.token
    for name in names:
        tokens = store.held[name].tokens
        total += high * int(tokens[0]) + low * int(tokens[1])
    return total


def stored_tokens(stores: Sequence[Store], names: Sequence[int]) -> float:
    """Stored tokens of requests, the mean of all heads."""
    total = heads = 0
    for store in stores:
        heads += len(store.limits)
        for name in names:
            tokens = store.held[name].tokens
            total += int(tokens[0]) + int(tokens[1])
    return total / heads


def report(scheme: str, setting: "Setting", clock: "Clock") -> Report:
    """The report of a simulation that has ended."""
    counts, series, stores = clock.counts, clock.series, clock.server.stores
    running = series.column("running")[series.column("prompt") == 0]
    batch = running[running > 0]
    seconds = clock.now
    total = {
        "batch": {"mean": _mean(batch), "max": int(batch.max(initial=0))},
        "tokens": counts["tokens"],
        "tokens_per_second": counts["tokens"] / seconds if seconds else None,
        "seconds": seconds,
        "generation_seconds": clock.generating,
        "steps": {"prompt": counts["prompt"], "generation": counts["generation"]},
        "stalls": {"steps": clock.stalled_steps, "seconds": clock.stalled},
        "first_token_seconds": _mean(np.array([t - clock.arrived[name] for name, t in clock.first.items()])),
        "bytes": {name: int(count) for name, count in clock.bytes.items()},
        "operations": int(clock.operations),
        "bound_seconds": clock.bound,
        "not_modelled": ["activations", "norms and softmax", "kernel launches", "memory manager", "compressor"],
    }
    names = ("finished", "preempted", "preemptions", "rejected", "aborted")
    requests = {"number": len(clock.server.requests), **{name: counts[name] for name in names}}
    fragmentation = series.column("fragmentation")[series.column("running") > 0]
    leaked = high = low = 0
    for store in stores:
        leaked += store.leaked()
    peak = series.column("high_pages") + series.column("low_pages")
    high, low = (int(series.column(name).max(initial=0)) for name in ("high_pages", "low_pages"))
    pages = {
        "number": stores[0].shape.pages,
        "bytes": stores[0].layout.page,
        "tokens": list(stores[0].layout.tokens),
        "leaked": leaked,
        "fragmentation": _mean(fragmentation),
        "fragmentation_max": float(fragmentation.max(initial=0)),
        "peak": {"all": int(peak.max(initial=0)), "high": high, "low": low},
    }
    return Report(scheme, setting.shape, setting.gpu, _setting(setting, clock), total, requests, pages, series)


def _setting(setting: "Setting", clock: "Clock") -> dict[str, Any]:
    gpu = asdict(clock.rates.gpu)
    chosen = {name: value for name, value in asdict(setting).items() if name not in ("shape", "gpu")}
    return chosen | gpu | {"weight_bytes": clock.rates.weight_bytes, "max_tokens": clock.server.stores[0].shape.max_len}


def _mean(values: np.ndarray) -> float | None:
    """The mean; None of nothing. Sums of times are reported values, not bits of a device."""
    return float(values.mean()) if values.size else None
