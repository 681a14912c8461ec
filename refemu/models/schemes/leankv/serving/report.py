"""Report of a simulation: totals, and a row for every step."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

COLUMNS = (
    "seconds",
    "running",
    "waiting",
    "stalled",
    "high_pages",
    "low_pages",
    "fragmentation",
    "tokens",
    "preemptions",
    "prompt",
)  #: of the series; `stalled`: arrived requests wait for pages; `tokens` and `preemptions` are sums so far


@dataclass
class Series:
    """Rows of all steps: state after the step, at the time of its end."""

    rows: list[tuple[float, ...]] = field(default_factory=list)

    def column(self, name: str) -> np.ndarray:
        """float64 values of a column, step by step.

        Parameters
        ----------
        name : str
            One of `COLUMNS`.

        Returns
        -------
        ndarray of float64 (steps,)
            Values.
        """
        index = COLUMNS.index(name)
        return np.array([row[index] for row in self.rows], np.float64)


@dataclass(frozen=True)
class Report:
    """A simulation."""

    scheme: str  #: its text
    shape: str  #: name of the sizes or of the model
    gpu: str
    setting: dict[str, Any]  #: constants and parameters
    total: dict[str, Any]  #: batch, tokens, tokens_per_second, seconds, steps, stalls, bytes, bound
    requests: dict[str, int]  #: number, finished, preempted, preemptions, rejected, aborted
    pages: dict[str, Any]  #: number, bytes, leaked, fragmentation, ...
    series: Series

    def as_json(self) -> dict[str, Any]:
        """All but the series, for JSON.

        Returns
        -------
        dict
            Values by name.
        """
        names = ("scheme", "shape", "gpu", "setting", "total", "requests", "pages")
        return {name: getattr(self, name) for name in names}
