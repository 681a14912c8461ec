"""The figure of a serving simulation: batch, pages, fragmentation, stalls, preemptions and throughput over time."""

from typing import Any

import numpy as np

from refemu.studies.output.figure import Figure, Panel, Series

POINTS = 400  #: most points of a curve


def figures(report: Any) -> list[Figure]:
    """Draw a report.

    Parameters
    ----------
    report : Report
        Of the serving simulator.

    Returns
    -------
    list of Figure
        What the pages hold, and what is computed, over seconds.
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
    ]
