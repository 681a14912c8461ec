"""A fault: one change that makes a device wrong."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from refemu.golden.grade.answers import Answers

FaultClass: TypeAlias = Literal[
    "bits", "lanes", "order", "words", "reset", "use", "width", "rounding", "decisions", "model"
]
CLASSES: tuple[FaultClass, ...] = get_args(FaultClass)
QUICK = CLASSES[:-1]  #: by default: mutants of a model take minutes


@dataclass(frozen=True, eq=False)
class Fault:
    """One change that makes a device wrong, and the rows of any stimulus that show it."""

    id: str  #: stable: "stuck_at_0/out.y/3/5"
    says: str  #: what the device does, for people
    #: wrong(answers): bool (rows,), rows in which the device's answer is not right. Refused and RefusedType: the device
    #: cannot take that stimulus
    wrong: Callable[[Answers], np.ndarray]
    #: tried(answers): rows that `wrong` looks at, by default all
    tried: Callable[[Answers], int] = lambda answers: answers.rows
    decision: str = ""  #: id of the decision, of a fault that is another answer to one


Faults: TypeAlias = Callable[[Answers], Iterator[Fault]]  #: those that a device of this unit and configuration can have
