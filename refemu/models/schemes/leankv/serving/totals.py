"""Sums over the pages of all workers, and the report of a finished simulation."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from refemu.models.schemes.leankv.serving.clock import Clock
from refemu.models.schemes.leankv.serving.report import Report
from refemu.models.schemes.leankv.serving.setting import Setting
from refemu.units.leankv.page_manager import PageManager


def report(scheme: str, setting: Setting, clock: Clock) -> Report:
    """The report of a simulation that has ended."""
    counts, series, server = clock.counts, clock.series, clock.server
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
    requests = {"number": server.number + counts["rejected"], **{name: counts[name] for name in names}}
    fragmentation = series.column("fragmentation")[series.column("running") > 0]
    peak = series.column("high_pages") + series.column("low_pages")
    high, low = (int(series.column(name).max(initial=0)) for name in ("high_pages", "low_pages"))
    pages = {
        "number": server.managers[0].shape.pages,
        "bytes": server.page[0],
        "tokens": list(server.page[1]),
        "leaked": leaked(server.managers),
        "fragmentation": _mean(fragmentation),
        "fragmentation_max": float(fragmentation.max(initial=0)),
        "peak": {"all": int(peak.max(initial=0)), "high": high, "low": low},
    }
    return Report(
        scheme, setting.model or setting.shape, setting.gpu, _setting(setting, clock), total, requests, pages, series
    )


def leaked(managers: Sequence[PageManager]) -> int:
    """Pages that are not exactly once in the free list of their manager, when no request holds any."""
    pages = 0
    for manager in managers:
        counts = np.bincount(np.array(manager.free_ids(), np.int64), minlength=manager.shape.pages)
        pages += int(np.count_nonzero(counts != 1))
    return pages


def _setting(setting: Setting, clock: Clock) -> dict[str, Any]:
    gpu = asdict(clock.rates.gpu)
    chosen = {name: value for name, value in asdict(setting).items() if name not in ("shape", "gpu", "model")}
    return (
        chosen | gpu | {"weight_bytes": clock.rates.weight_bytes, "max_tokens": clock.server.managers[0].shape.max_len}
    )


def _mean(values: np.ndarray) -> float | None:
    """The mean; None of nothing. Sums of times are reported values, not bits of a device."""
    return float(values.mean()) if values.size else None
