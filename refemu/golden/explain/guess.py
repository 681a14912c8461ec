"""Guesses about what a device did: other decisions, a changed stimulus or arithmetic, and changes of the answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from refemu.golden.explain.table import Table, Words
from refemu.units.variant import Variant

Kind: TypeAlias = Literal["decision", "structure"]
Inputs: TypeAlias = Mapping[str, np.ndarray]


def bits_of(count: int) -> int:
    """Bits that say which of so many it is."""
    return max(0, count - 1).bit_length()


@dataclass(frozen=True, eq=False)
class Guess:
    """One change that would make a device wrong."""

    kind: Kind
    id: str  #: of the decision, or name of the structural class
    detail: str  #: what the device does, for people
    parameters: Mapping[str, Any]
    price: int = 0  #: bits that its own parameters cost
    variant: Variant | None = None  #: of a decision
    arithmetic: Any = None  #: primitives that are exchanged, as grade.rounding has them
    stimulus: Callable[[Table, int, Inputs], Inputs] | None = None  #: what the device sees of group `int` of a table
    change: Callable[[Table, Words], Words] | None = None  #: new words of some arrays, from the words of all
    excuses: str = ""  #: array of which it predicts nothing in its lanes
    lanes: tuple[int, ...] = ()  #: those that it concerns; () for all
    only: int = 0  #: where just these lanes change: the number of lanes of the arrays concerned

    @property
    def runs(self) -> bool:
        """Whether the unit runs for it, in place of a change of its answers."""
        return self.change is None and not self.excuses


@dataclass(frozen=True, eq=False)
class Story:
    """Guesses of which a device is made: first those for which the unit runs, then changes of its answers."""

    guesses: tuple[Guess, ...] = ()

    @property
    def price(self) -> int:
        """Bits that the parameters of all guesses cost."""
        bits = 0
        for guess in self.guesses:
            bits += guess.price
        return bits

    @property
    def order(self) -> tuple[int, int]:
        """What comes first of two that predict the same: fewer guesses, decisions before structure."""
        return len(self.guesses), len([guess for guess in self.guesses if guess.kind != "decision"])

    def with_(self, guess: Guess) -> "Story":
        """The story with one guess more."""
        runs = tuple(each for each in self.guesses if each.runs)
        changes = tuple(each for each in self.guesses if not each.runs)
        return Story((*runs, guess, *changes) if guess.runs else (*runs, *changes, guess))

    def replaced(self, guess: Guess, other: Guess) -> "Story":
        """The story with another guess in the place of one."""
        return Story(tuple(other if each is guess else each for each in self.guesses))


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a device answers if a story is true."""

    story: Story
    words: Words
    known: np.ndarray  #: bool (rows,): rows that it can take; elsewhere the words are those before
    excused: dict[str, np.ndarray] = field(default_factory=dict)  #: cells that no word is predicted of, by array


def restricted(new: Words, old: Words, lanes: Sequence[int], count: int) -> Words:
    """`new` in some lanes of the arrays that have `count` lanes, `old` in the others."""
    words = dict(new)
    for name, array in old.items():
        if array.shape[1] == count:
            words[name] = array.copy()
            words[name][:, list(lanes)] = new[name][:, list(lanes)]
    return words
