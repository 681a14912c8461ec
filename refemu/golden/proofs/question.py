"""The unit, the design and the limits of a proof."""

from collections.abc import Sequence
from dataclasses import dataclass

from refemu.units.unit import AnyUnit

DEPTH = 8  #: events after a reset, where induction does not close
SECONDS = 60.0  #: time limit of the solver


@dataclass(frozen=True)
class Question:
    """What is to be proved."""

    unit: AnyUnit
    config: str
    sources: Sequence[str]
    map: str = ""  #: file of a port map
    top: str = ""
    depth: int = DEPTH
    seconds: float = SECONDS
    latency: int | None = None  #: edges from a row to its outputs; by default 1 for a unit with registers, else 0
    valid: bool = False  #: whether the design has valid and ready
    decisions: Sequence[str] = ()  #: "D-olive-20=saturate": variants that the design is to have
    solver: str = ""
