"""Record of a machine's work on one block: an entry for each operation, and the reasons of those it does not do."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refemu.arith.integers import total


@dataclass(frozen=True)
class Operation:
    """One operation of a block at the ports of a unit."""

    name: str  #: "blk.0.q", "blk.0.attn_in"
    unit: str  #: unit whose ports carried it
    parameters: Mapping[str, Any]  #: configuration of the unit
    shape: tuple[int, ...]  #: of a product: rows, columns, length of the sums; else of the tensor
    elements: int  #: results that were compared
    differing: int  #: results that differ from the scheme's; 0 is due
    cycles: int  #: clock cycles; 0 where the paper gives the unit no timing
    use: Mapping[str, float] = field(default_factory=dict)  #: part -> share of its cycles in which it worked, 0 to 1
    words: Mapping[str, int] = field(default_factory=dict)  #: port or buffer -> words moved


@dataclass(frozen=True)
class Absent:
    """An operation that the scheme does not give to the machine."""

    name: str
    reason: str  #: with the id of the decision


@dataclass(frozen=True)
class Report:
    """A machine's work on one block."""

    model: str
    scheme: str
    layer: int
    phase: str  #: "prompt" or "decode"
    tokens: int  #: of the prompt; the decode step is that of the token behind them
    prepare_seconds: float
    operations: tuple[Operation, ...]
    not_on_the_machine: tuple[Absent, ...]

    @property
    def differing(self) -> int:
        """Elements of all operations that differ from the scheme.

        Returns
        -------
        int
            0 where machine and scheme agree.
        """
        return int(total(np.array([operation.differing for operation in self.operations], np.int64)))

    def as_json(self) -> dict[str, Any]:
        """Plain lists, dictionaries and numbers.

        Returns
        -------
        dict
            Fields by name.
        """
        plain: dict[str, Any] = dataclasses.asdict(self)
        return plain


def differences(answer: np.ndarray, due: np.ndarray) -> int:
    """Number of elements that differ in some bit; shapes and item sizes must be equal."""
    left, right = (np.ascontiguousarray(array) for array in (answer, due))
    assert left.shape == right.shape and left.itemsize == right.itemsize
    word = np.dtype(f"u{left.itemsize}")
    return int(np.count_nonzero(left.view(word) != right.view(word)))
