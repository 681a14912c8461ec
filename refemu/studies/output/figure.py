"""Figures of a study as data: panels of series, measured by refemu or stated by a paper."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from refemu.arith.checks import Refused

Form: TypeAlias = Literal["bars", "lines", "points", "steps"]


@dataclass(frozen=True)
class Series:
    """Values over places; places are names in a panel of bars, else numbers."""

    label: str  #: in the legend
    x: tuple[float, ...] | tuple[str, ...]
    y: tuple[float, ...]
    error: tuple[float | None, ...] = ()  #: standard errors, drawn on either side
    source: str = ""  #: source of a paper's values, "[kllm Table II]"; "" if measured by refemu
    form: Form | None = None  #: form, if it differs from the panel's

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or (self.error and len(self.error) != len(self.y)):
            raise Refused(
                f"series {self.label}: must have equally many places and values, got {len(self.x)}, {len(self.y)}"
            )


@dataclass(frozen=True)
class Line:
    """A value that a paper or a formula states for all places."""

    value: float
    label: str


@dataclass(frozen=True)
class Panel:
    """Series with common axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    form: Form = "bars"
    log_x: bool = False
    log_y: bool = False
    lines: tuple[Line, ...] = ()
    base: float = 0.0  #: start of the bars
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, from a run."""

    name: str  #: "fig3"
    place: str  #: "[olive Fig. 3]"; "" if no paper has it
    title: str
    panels: tuple[Panel, ...]
    caption: str  #: description of the run, and statements of the paper
