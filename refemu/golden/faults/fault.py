"""A fault: one change that makes a device faulty. Coverage injects it, and a diagnosis names it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np

from refemu.arith.checks import Refused, lookup
from refemu.golden.files import fields
from refemu.golden.grade import device, slices, stepping
from refemu.golden.grade.answers import Answers
from refemu.golden.make.rows import Block
from refemu.units import variant as other
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Config
from refemu.units.variant import Variant

FaultClass: TypeAlias = Literal[
    "bits", "lanes", "order", "words", "reset", "use", "width", "rounding", "decisions", "model"
]
CLASSES: tuple[FaultClass, ...] = get_args(FaultClass)
QUICK = CLASSES[:-1]  #: by default: mutants of a model take minutes


def known(name: str) -> FaultClass:
    """A class by its name. Refused: an unknown one, with the nearest."""
    return lookup("fault class", name, {str(each): each for each in CLASSES})


Kind: TypeAlias = Literal["decision", "structure"]
Words: TypeAlias = dict[str, np.ndarray]  #: bit patterns by output, "out.y": (rows, lanes)
Inputs: TypeAlias = Mapping[str, np.ndarray]  #: values by input port, of a block of cases
Change: TypeAlias = Callable[[np.ndarray, Port], Any]  #: right words -> words that the device gives
Exchange: TypeAlias = tuple[Any, str, Callable[..., Any]]  #: module, name of a function, what replaces it


class Rows(Protocol):
    """Rows of a stimulus: all of a set, or a sample of them."""

    @property
    def unit(self) -> AnyUnit:
        """Unit."""

    @property
    def config(self) -> Config:
        """Its configuration."""

    @property
    def ports(self) -> Mapping[str, Port]:
        """Compared outputs, "out.y"."""

    @property
    def numbers(self) -> np.ndarray:
        """Number of each row in the set."""

    def span(self, within: bool) -> tuple[np.ndarray, np.ndarray]:
        """First and last row of the case of each row; of the set, where not `within` a case or without registers."""

    def place(self, rows: np.ndarray) -> np.ndarray:
        """Index of the rows with these numbers, -1 for rows that are not here."""


@dataclass(frozen=True, eq=False)
class Fault:
    """One change that makes a device faulty: of its answers, inputs, registers, arithmetic or decisions."""

    id: str  #: stable: "stuck_at_0/out.y/3/5"
    says: str  #: what the device does
    name: str = ""  #: in a diagnosis: id of the decision, or "bit_stuck"
    parameters: Mapping[str, Any] = field(default_factory=dict)  #: what repeats it
    price: int = 0  #: bits that its parameters cost in a diagnosis
    array: str = ""  #: output whose words `word` changes
    word: Change | None = None
    answers: Callable[[Rows, Words], Words] | None = None  #: new words of some outputs, from those of all
    #: inputs that the device sees; from those of the bench, and the place of the row before each (-1: reset)
    stimulus: Callable[[Inputs, np.ndarray], Inputs] | None = None
    registers: stepping.Tampering | None = None
    arithmetic: Sequence[Exchange] = ()
    variants: tuple[Variant, ...] = ()
    program: Callable[[Answers], np.ndarray] | None = None  #: differing rows of a device of its own: a mutant
    looked_at: Callable[[Answers], int] | None = None  #: rows that `wrong` looks at, if not those of its kind
    remembers: bool = False  #: its answers depend on rows before or after, in a unit without registers too
    excuses: str = ""  #: output of which nothing is predicted in `lanes`
    lanes: tuple[int, ...] = ()  #: lanes that change; () for all
    only: int = 0  #: where a fault of all lanes is limited to `lanes`: lanes of the outputs concerned
    outputs: tuple[str, ...] = ()  #: outputs to which a fault for which the unit runs is limited; () for all

    @property
    def kind(self) -> Kind:
        """Whether it is a variant of a decision."""
        return "decision" if self.variants else "structure"

    @property
    def decision(self) -> str:
        """Id of its decision, where it is a variant of one."""
        return self.variants[0].decision if len(self.variants) == 1 else ""

    @property
    def runs(self) -> bool:
        """Whether the unit runs to find its answers."""
        return self.word is None and self.answers is None and not self.excuses

    def applied(self, rows: Rows, words: Words) -> Words:
        """Words that the device gives. words: without the fault. For faults that do not run."""
        if self.answers is not None:
            return self.answers(rows, words)
        if self.word is None:
            return words
        if not self.lanes:
            return {**words, self.array: self._cut(words[self.array], rows.ports[self.array])}
        array, lanes = words[self.array].copy(), list(self.lanes)
        array[:, lanes] = self._cut(array[:, lanes], rows.ports[self.array])
        return {**words, self.array: array}

    def _cut(self, codes: np.ndarray, port: Port) -> np.ndarray:
        assert self.word is not None
        cut: np.ndarray = self.word(codes, port) & codes.dtype.type(fields.mask_of(port.bits))
        return cut.astype(codes.dtype, copy=False)

    def wrong(self, answers: Answers) -> np.ndarray:
        """Rows in which the device differs: bool (rows,).

        A device that runs stops at the first part of the stimulus with such a row. Refused and RefusedType: the device
        cannot take the stimulus.
        """
        if self.program is not None:
            return self.program(answers)
        if not self.runs:
            wrong = np.zeros(answers.rows, np.bool_)
            for rows, here, piece in answers.pieces():
                wrong[rows] = self._differs(piece)[here]
            return wrong
        if self.registers is not None:
            return stepping.wrong(answers, self.registers)
        if self.arithmetic:
            with exchanged(self.arithmetic):
                return slices.until_wrong(answers, partial(_computed, answers))
        return device.wrong(answers, other.right(answers.unit, answers.config), self.stimulus, whole=False)

    def detected(self, answers: Answers) -> bool:
        """Whether the device differs in some row. Refused and RefusedType: as for `wrong`."""
        if self.program is not None or self.runs:
            return bool(self.wrong(answers).any())
        return any(self._differs(piece)[here].any() for _, here, piece in answers.pieces())

    def _differs(self, answers: Answers) -> np.ndarray:
        """Rows in which the device differs, of a fault that does not run."""
        if self.word is not None and self.lanes == tuple(range(*_ends(self.lanes))):
            lanes = slice(*_ends(self.lanes)) if self.lanes else slice(None)
            codes = answers.outputs[self.array][:, lanes]
            return answers.differs(self.array, self._cut(codes, answers.ports[self.array]), lanes)
        right, wrong = answers.outputs, np.zeros(answers.rows, np.bool_)
        for name, codes in self.applied(answers, right).items():
            if codes is not right[name]:
                wrong |= answers.differs(name, codes)
        return wrong

    def tried(self, answers: Answers) -> int:
        """Rows that `wrong` looks at, where none differs."""
        if answers.inputs:
            return answers.rows
        if self.looked_at is not None:
            return self.looked_at(answers)
        return slices.tried(answers) if self.registers or self.arithmetic else answers.rows


Faults: TypeAlias = Callable[[Answers], Iterator[Fault]]  #: those that a device of this unit and configuration can have


def bits_of(count: int) -> int:
    """Bits that say which of so many it is."""
    return max(0, count - 1).bit_length()


def short(array: str) -> str:
    """Name of the port of an array, "y" of "out.y"."""
    return array.partition(".")[2]


def _ends(lanes: tuple[int, ...]) -> tuple[int, int]:
    return (lanes[0], lanes[-1] + 1) if lanes else (0, 0)


def _computed(answers: Answers, block: Block) -> np.ndarray:
    """Rows of a block in which the readable unit, as it is at the moment, differs."""
    try:
        return device.readable(answers.unit, answers, block)
    except Exception as error:  # whatever a faulty device does
        raise Refused(f"{type(error).__name__}: {error}") from error


@contextmanager
def exchanged(changes: Sequence[Exchange]) -> Iterator[None]:
    """Functions of modules exchanged for others, and put back at the end."""
    with ExitStack() as stack:
        for module, name, function in changes:
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, function)
        yield
