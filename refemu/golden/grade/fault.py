"""A fault: one change of a device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from refemu.golden.grade.answers import Answers

FaultClass: TypeAlias = Literal[
    "bits", "lanes", "order", "words", "reset", "use", "width", "rounding", "decisions", "model"
]
CLASSES: tuple[FaultClass, ...] = get_args(FaultClass)
QUICK = CLASSES[:-1]  #: the default, since mutants of a model take minutes


@dataclass(frozen=True, eq=False)
class Fault:
    """One change of a device, and the rows of any stimulus that detect it."""

    id: str  #: stable: "stuck_at_0/out.y/3/5"
    says: str  #: what the device does
    #: wrong(answers): bool (rows,), rows in which the device's answer is wrong. Raises Refused or RefusedType if the
    #: stimulus is invalid for the device
    wrong: Callable[[Answers], np.ndarray]
    #: tried(answers): number of rows that `wrong` examines, by default all
    tried: Callable[[Answers], int] = lambda answers: answers.rows
    decision: str = ""  #: id of the decision if the fault is a variant of one


Faults: TypeAlias = Callable[
    [Answers], Iterator[Fault]
]  #: faults that a device of this unit and configuration can have
