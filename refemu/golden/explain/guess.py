"""Stories: faults of which a device may be made, and what it then answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from refemu.golden.faults.fault import Fault, Words


@dataclass(frozen=True, eq=False)
class Story:
    """Faults of which a device is made: first those for which the unit runs, then changes of its answers."""

    guesses: tuple[Fault, ...] = ()

    @property
    def price(self) -> int:
        """Bits that the parameters of all faults cost."""
        bits = 0
        for guess in self.guesses:
            bits += guess.price
        return bits

    @property
    def order(self) -> tuple[int, int]:
        """What comes first of two that predict the same: fewer faults, decisions before structure."""
        return len(self.guesses), len([guess for guess in self.guesses if guess.kind != "decision"])

    def with_(self, guess: Fault) -> "Story":
        """The story with one fault more."""
        runs = tuple(each for each in self.guesses if each.runs)
        changes = tuple(each for each in self.guesses if not each.runs)
        return Story((*runs, guess, *changes) if guess.runs else (*runs, *changes, guess))

    def replaced(self, guess: Fault, other: Fault) -> "Story":
        """The story with another fault in the place of one."""
        return Story(tuple(other if each is guess else each for each in self.guesses))

    def limited(self, arrays: tuple[str, ...]) -> "Story":
        """The story with every fault for which the unit runs limited to some outputs."""
        return Story(tuple(replace(each, outputs=arrays) if each.runs else each for each in self.guesses))


@dataclass(frozen=True, eq=False)
class Prediction:
    """Answers of a device if a story is true."""

    story: Story
    words: Words
    known: np.ndarray  #: bool (rows,): rows that it can take; elsewhere the words are those before
    reached: np.ndarray | None = None  #: bool (rows,): those for which it was computed, None for all
    excused: dict[str, np.ndarray] = field(default_factory=dict)  #: cells that no word is predicted of, by array


def restricted(new: Words, old: Words, lanes: Sequence[int], count: int) -> Words:
    """`new` in some lanes of the arrays that have `count` lanes, `old` in the others."""
    words = dict(new)
    for name, array in old.items():
        if array.shape[1] == count:
            words[name] = array.copy()
            words[name][:, list(lanes)] = new[name][:, list(lanes)]
    return words
