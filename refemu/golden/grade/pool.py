"""Legal rows of a unit outside a set: a fault that only they detect is one that the set misses."""

from dataclasses import dataclass
from functools import cached_property

from refemu.golden.faults.fault import Fault
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade.answers import Answers
from refemu.golden.grade.every import Every
from refemu.golden.make.random_cases import random_cases
from refemu.units.unit import AnyUnit, Cases, Kind

ROWS = 10_000  #: least number of random rows
_KINDS: tuple[Kind, ...] = ("paper", "edge", "exhaustive")


@dataclass(eq=False)
class Pool:
    """Legal rows of a unit in a configuration, computed when a fault first needs them; all of them if they are few."""

    unit: AnyUnit
    config: str  #: name of a ready configuration
    seed: int  #: seed of the set's random cases; the pool has the next ones
    least: int = ROWS  #: random rows

    @cached_property
    def every(self) -> Every:
        """All legal inputs, where they are few."""
        return Every(self.unit, self.unit.config(self.config))

    @cached_property
    def answers(self) -> Answers:
        """All legal inputs, or a sample of them."""
        return self.every.rows() if self.every.count else self._sample()

    @cached_property
    def _sequences(self) -> Answers:
        return self.every.sequences()

    def of(self, fault: Fault) -> Answers:
        """Rows that show a fault: of one that remembers rows, all inputs in several orders."""
        return self._sequences if fault.remembers and self.every.count else self.answers

    def _sample(self) -> Answers:
        """Cases of every kind except "model", and random ones until there are enough rows."""
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
        """Number of rows so far, 0 until a fault needs them."""
        return self.answers.rows if "answers" in self.__dict__ else 0


def _rows(unit: AnyUnit, block: Cases) -> int:
    shape = next(iter(block.inputs.values())).shape
    return int(shape[0] * (shape[1] if unit.timing == "event" else 1))
