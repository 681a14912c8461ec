"""Plan of the rows of a cycle-accurate unit: the operation of each, and the event that it executes."""

from dataclasses import dataclass

import numpy as np

from refemu.arith.jit import kernel


@dataclass(frozen=True, eq=False)
class Plan:
    """Operations of all devices, numbered in order from 1; 0 is the reset state."""

    length: int  #: events of an operation
    operation: np.ndarray  #: int64 (devices, rows): operation under way, or the last one
    before: np.ndarray  #: previous operation of the same device
    phase: np.ndarray  #: number of the last event in its operation
    active: np.ndarray  #: bool: an event is executed

    @property
    def busy(self) -> np.ndarray:
        """Whether events of the operation remain."""
        return np.asarray((self.operation > 0) & (self.phase < self.length - 1))

    @property
    def valid(self) -> np.ndarray:
        """Whether the row closes an operation."""
        return self.rows(self.length - 1)

    def rows(self, phase: int) -> np.ndarray:
        """Rows in which event `phase` of an operation is executed: bool (devices, rows)."""
        return np.asarray(self.active & (self.phase == phase))

    def taken(self, operand: np.ndarray) -> np.ndarray:
        """The operands of all operations, from those of all rows."""
        return operand[self.rows(0)]

    def shown(self, values: np.ndarray, phase: int, reset: int = 0) -> np.ndarray:
        """By row, a register that event `phase` writes. values: those of all operations."""
        table = np.concatenate([np.full_like(values, reset, shape=(1, *values.shape[1:])), values])
        return np.asarray(table[np.where(self.phase >= phase, self.operation, self.before)])

    def traced(self, values: np.ndarray, reset: int = 0) -> np.ndarray:
        """By row, a register that several events write. values: those of all operations, (operations, events)."""
        table = np.concatenate([np.full_like(values, reset, shape=(1, *values.shape[1:])), values])
        return np.asarray(table[self.operation, self.phase])

    def counted(self, values: np.ndarray) -> int:
        """Sum over the executed events. values: increments, (operations, events)."""
        return int(_summed(np.ascontiguousarray(values, np.int64), self.operation, self.phase, self.active))


def plan(start: np.ndarray, length: int) -> Plan:
    """The plan of devices by their inputs `start` (devices, rows), for operations of `length` events."""
    shape = start.shape
    operation, before, phase = (np.zeros(shape, np.int64) for _ in range(3))
    active = np.zeros(shape, np.bool_)
    _planned(start, np.int64(length), operation, before, phase, active)
    return Plan(length, operation, before, phase, active)


@kernel
def _planned(start, length, operation, before, phase, active):
    count = np.int64(0)
    for d in range(start.shape[0]):
        now, last, at, left = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for t in range(start.shape[1]):
            if left > 0:
                at, left = at + 1, left - 1
                active[d, t] = True
            elif start[d, t] != 0:
                count += 1
                last, now, at, left = now, count, np.int64(0), length - 1
                active[d, t] = True
            operation[d, t], before[d, t], phase[d, t] = now, last, at


@kernel
def _summed(values, operation, phase, active):
    total = np.int64(0)
    for d in range(operation.shape[0]):
        for t in range(operation.shape[1]):
            if active[d, t]:
                total += values[operation[d, t] - 1, phase[d, t]]
    return total
