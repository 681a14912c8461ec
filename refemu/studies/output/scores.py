"""Tables and series of the scores of schemes: perplexities with their spread, and changes paired by window."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from refemu.models.scores.uncertainty import Change, Spread
from refemu.studies.evaluation import Score, Setting
from refemu.studies.output.figure import Series
from refemu.studies.output.table import (
    CHANGE,
    CHANGE_ERROR,
    ERROR,
    LEAST,
    MOST,
    PERPLEXITY,
    WINDOWS,
    Column,
    Table,
)

MEANING = Column("meaning", "text", "", "the paper's name of the scheme")
SCHEME = Column("scheme", "text", "scheme", "as `--scheme` takes it")
OVER = Column("over", "text", "over", "scheme of the reference")
COLUMNS = (MEANING, SCHEME, PERPLEXITY, ERROR, LEAST, MOST, WINDOWS, OVER, CHANGE, CHANGE_ERROR)


def table(name: str, title: str, scores: Sequence[tuple[str, Score, Score | None]]) -> Table:
    """A row for every meaning, score and reference."""
    return Table(name, title, COLUMNS, tuple(_row(*each) for each in scores))


def _row(meaning: str, score: Score, reference: Score | None) -> tuple[object, ...]:
    alone = reference is None or reference.scheme == score.scheme
    change = None if alone or reference is None else score.over(reference)
    windows = score_of_windows(score)
    return (
        meaning,
        score.scheme,
        score.perplexity,
        score.error,
        min(windows),
        max(windows),
        len(windows),
        None if change is None or reference is None else reference.scheme,
        None if change is None else change.percent,
        None if change is None else change.error,
    )


def score_of_windows(score: Score) -> list[float]:
    """The perplexity of every window."""
    return [float(np.exp(loss)) for loss in score.losses]


def ratios(name: str, names: Sequence[str], scores: Sequence[Score], reference: Score) -> Series:
    """Perplexities relative to the reference, with standard errors paired by window. name: in the legend."""
    changes = [score.over(reference) for score in scores]
    return Series(
        name,
        tuple(names),
        tuple(1 + change.percent / 100 for change in changes),
        tuple(None if change.error is None else change.error / 100 for change in changes),
    )


def series(name: str, places: Iterable[float] | Iterable[str], values: Sequence[Change | Spread]) -> Series:
    """Changes in percent, or means, with their standard errors."""
    centers = tuple(value.percent if isinstance(value, Change) else value.mean for value in values)
    at: Any = tuple(places)
    return Series(name, at, centers, tuple(value.error for value in values))


def stated(name: str, source: str, values: Mapping[str, float], reference: float) -> Series:
    """Perplexities stated by a paper, relative to a stated reference."""
    return Series(name, tuple(values), tuple(value / reference for value in values.values()), source=source)


def about(setting: Setting) -> str:
    """Model, windows and meaning of the bars, for captions and titles."""
    count, name = len(setting.windows), setting.label
    windows = "1 window" if count == 1 else f"{count} windows"
    spread = f"± standard error over {windows}" if count > 1 else "one window, so no standard error"
    decoded = f", the first {setting.prefill} of each as a prompt" if setting.prefill else ""
    return f"{name}, {windows} of {setting.win} tokens{decoded}; {spread}."
