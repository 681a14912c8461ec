"""Figures of a serving simulation: batch, pages, fragmentation, stalls, preemptions and throughput over time."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.studies.output.figure import Figure, Panel, Series

POINTS = 400  #: most points of a curve
#: mean batch on one L40 by shape, scheme and quality [leankv §7.4]
STATED: dict[tuple[str, str, str | None], float] = {
    ("llama-2-7b", "fp16", None): 22.0,
    ("llama-2-7b", "leankv", "lossless"): 62.0,
    ("llama-2-7b", "leankv", "five-percent"): 177.0,
    ("llama-3-8b", "fp16", None): 51.5,
}


def figures(report: Any) -> list[Figure]:
    """Draw a report.

    Parameters
    ----------
    report : Report
        Of the serving simulator.

    Returns
    -------
    list of Figure
        What the pages hold, and what is computed, over seconds; `batches`, if the paper has this simulation.
    """
    series, count = report.series, len(report.series.rows)
    rows = np.unique(np.linspace(0, count - 1, min(POINTS, count)).astype(np.int64))
    time = series.column("seconds")[rows]

    def curve(label: str, values: np.ndarray) -> Series:
        return Series(label, tuple(time.tolist()), tuple(values.tolist()), form="steps")

    def panel(title: str, unit: str, *names: tuple[str, str]) -> Panel:
        curves = [curve(label, series.column(name)[rows]) for label, name in names]
        return Panel(title, "seconds", unit, tuple(curves), form="steps")

    tokens, ends = series.column("tokens")[rows], np.concatenate([[0.0], time])
    rate = np.diff(tokens, prepend=0.0) / np.maximum(np.diff(ends), 1e-9)
    stalled = np.cumsum(np.diff(series.column("seconds"), prepend=0.0) * series.column("stalled"))[rows]
    panels = (
        panel("Batch", "requests", ("running", "running"), ("waiting", "waiting")),
        panel("Pages", "pages", ("high precision", "high_pages"), ("low precision", "low_pages")),
        panel("Fragmentation", "share of the bytes", ("unused bytes of pages", "fragmentation")),
        Panel("Stalls", "seconds", "seconds", (curve("requests wait for pages", stalled),), form="steps"),
        panel("Preemptions", "requests", ("preempted so far", "preemptions")),
        Panel("Throughput", "seconds", "tokens a second", (curve("generated", rate),), form="steps"),
    )
    setting = report.setting
    caption = (
        f"{report.requests['number']} requests on {setting['workers']} {report.gpu}; "
        f"preemption: {setting['preemption']}. Times are bytes over bandwidth, or "
        "operations over the peak rate."
    )
    title = f"{report.shape} under {report.scheme}"
    return [
        Figure(
            "serving-pages", "", title, panels[:3], f"{report.pages['number']} pages of {report.pages['bytes']} bytes"
        ),
        Figure("serving-steps", "", "Steps", panels[3:], caption),
        *batches([report]),
    ]


def batches(reports: Sequence[Any]) -> list[Figure]:
    """Compare mean batches with those that the paper states.

    Parameters
    ----------
    reports : sequence of Report
        Simulations; those that the paper does not have are left out.

    Returns
    -------
    list of Figure
        A figure with two bars for each; none without a simulation that the paper has.

    References
    ----------
    [leankv §7.4]
    """
    pairs = {_case(report): report.total["batch"]["mean"] for report in reports if _case(report) in STATED}
    if not pairs:
        return []
    names = tuple(" ".join(filter(None, case)) for case in pairs)
    series = (
        Series("simulated", names, tuple(pairs.values())),
        Series("paper", names, tuple(STATED[case] for case in pairs), source="[leankv §7.4]"),
    )
    panel = Panel("Mean batch on an L40", "", "requests", series)
    return [Figure("serving-batches", "[leankv §7.4]", "Batch sizes", (panel,), "The paper generates 4,096 tokens.")]


def _case(report: Any) -> tuple[str, str, str | None]:
    """Key of STATED; a scheme of "" for a simulation that the paper cannot have."""
    setting = report.setting
    plain = (report.gpu, setting["workers"], setting["high_share"], setting["pruned_share"]) == ("l40", 1, None, None)
    quality = setting["quality"] or (None if report.scheme == "fp16" else "lossless")
    return report.shape, report.scheme if plain else "", quality
