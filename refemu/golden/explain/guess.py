"""Guesses about a device: variants of decisions, changed stimulus or arithmetic, changed answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from refemu.golden.explain.table import Table, Words
from refemu.units.variant import Variant

Kind: TypeAlias = Literal["decision", "structure"]
Inputs: TypeAlias = Mapping[str, np.ndarray]


def bits_of(count: int) -> int:
    """Bits that select one of `count`."""
    return max(0, count - 1).bit_length()


@dataclass(frozen=True, eq=False)
class Guess:
    """One change that would make a device wrong."""

    kind: Kind
    id: str  #: id of the decision, or name of the structural class
    detail: str  #: what the device does
    parameters: Mapping[str, Any]
    price: int = 0  #: bits of its parameters
    variant: Variant | None = None  #: of a decision
    arithmetic: Any = None  #: replaced primitives, in the form of grade.rounding
    stimulus: Callable[[Table, int, Inputs], Inputs] | None = None  #: the device's inputs for group `int` of a table
    change: Callable[[Table, Words], Words] | None = None  #: new words of some arrays, from the words of all arrays
    excuses: str = ""  #: array whose `lanes` it does not predict
    lanes: tuple[int, ...] = ()  #: lanes concerned; () for all
    only: int = 0  #: if only `lanes` change, the number of lanes of the arrays concerned

    @property
    def runs(self) -> bool:
        """Whether it runs the unit, rather than changing answers."""
        return self.change is None and not self.excuses


@dataclass(frozen=True, eq=False)
class Story:
    """Guesses that together describe a device: first those that run the unit, then changes of its answers."""

    guesses: tuple[Guess, ...] = ()

    @property
    def price(self) -> int:
        """Bits of the parameters of all guesses."""
        bits = 0
        for guess in self.guesses:
            bits += guess.price
        return bits

    @property
    def order(self) -> tuple[int, int]:
        """Order of equal predictions: fewer guesses first, decisions before structure."""
        return len(self.guesses), len([guess for guess in self.guesses if guess.kind != "decision"])

    def with_(self, guess: Guess) -> "Story":
        """The story with one more guess."""
        runs = tuple(each for each in self.guesses if each.runs)
        changes = tuple(each for each in self.guesses if not each.runs)
        return Story((*runs, guess, *changes) if guess.runs else (*runs, *changes, guess))

    def replaced(self, guess: Guess, other: Guess) -> "Story":
        """The story with one guess replaced."""
        return Story(tuple(other if each is guess else each for each in self.guesses))


@dataclass(frozen=True, eq=False)
class Prediction:
    """Answers of a device if a story is true."""

    story: Story
    words: Words
    known: np.ndarray  #: bool (rows,): rows valid for it; other rows have unchanged words
    excused: dict[str, np.ndarray] = field(default_factory=dict)  #: cells without a prediction, by array


def restricted(new: Words, old: Words, lanes: Sequence[int], count: int) -> Words:
    """`new` in some lanes of the arrays that have `count` lanes, `old` in the others."""
    words = dict(new)
    for name, array in old.items():
        if array.shape[1] == count:
            words[name] = array.copy()
            words[name][:, list(lanes)] = new[name][:, list(lanes)]
    return words
