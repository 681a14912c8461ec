"""Legal rows of a unit beside those of a set: what they tell and the set does not is a hole of the set."""

from dataclasses import dataclass
from functools import cached_property

from refemu.golden.grade import answers as answers_of
from refemu.golden.grade.answers import Answers
from refemu.golden.make.generate import random_cases
from refemu.units.unit import AnyUnit, Cases, Kind

ROWS = 10_000  #: random rows, at least
_KINDS: tuple[Kind, ...] = ("paper", "edge", "exhaustive")


@dataclass(eq=False)
class Pool:
    """Legal rows of a unit in one configuration, computed when the first fault needs them."""

    unit: AnyUnit
    config: str  #: name of a ready configuration
    seed: int  #: of the random cases of the set; the pool's follow
    least: int = ROWS  #: random rows

    @cached_property
    def answers(self) -> Answers:
        """Cases of every kind that no model makes, and random ones until there are enough rows."""
        config = self.unit.config(self.config)
        cases = [block for kind in _KINDS for block in self.unit.stimuli(config, kind, 0)]
        each = 0
        for block in self.unit.stimuli(config, "random", self.seed + 1):
            each += _rows(self.unit, block)
        if each:
            cases += random_cases(self.unit, self.config, self.seed + 1, -(-self.least // each))
        return answers_of.of_cases(self.unit, config, cases, spare=True)

    @property
    def rows(self) -> int:
        """Rows so far: none until a fault needed them."""
        return self.answers.rows if "answers" in self.__dict__ else 0


def _rows(unit: AnyUnit, block: Cases) -> int:
    shape = next(iter(block.inputs.values())).shape
    return int(shape[0] * (shape[1] if unit.timing == "event" else 1))
