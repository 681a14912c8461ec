"""The library: every class of structural faults, as coverage injects them and as a diagnosis searches them."""

from collections.abc import Iterator, Mapping

import numpy as np

from refemu.golden.explain.table import Table
from refemu.golden.faults import bits, lanes, order, reset, rounding, use, width, words
from refemu.golden.faults.fault import Fault, FaultClass, Faults, Words
from refemu.golden.grade import answers as answers_of
from refemu.golden.grade import stepping
from refemu.units.unit import Cases

PROBED = 16  #: events in which a register is looked at
FIRST = 4  #: cases on which the primitives are seen that a unit uses

STRUCTURE: Mapping[FaultClass, Faults] = {
    "bits": bits.faults,
    "lanes": lanes.faults,
    "order": order.faults,
    "words": words.faults,
    "reset": reset.faults,
    "use": use.faults,
    "width": width.faults,
    "rounding": rounding.faults,
}


def suspected(table: Table, words_: Words) -> Iterator[Fault]:
    """Faults of the answers that their differences suggest. words_: as predicted so far."""
    yield from bits.suspected(table, words_)
    yield from words.suspected(table, words_)
    yield from order.suspected(table, words_)
    yield from lanes.suspected(table, words_)


def seen(table: Table) -> Iterator[Fault]:
    """Faults of the inputs."""
    yield from use.faults(table)


def computed(table: Table) -> Iterator[Fault]:
    """Faults of the arithmetic, and of the registers those that the differences suggest."""
    group = table.groups[0]
    inputs = group.pick(_few(table, group.rows)).inputs
    first = answers_of.of_cases(table.unit, table.config, [Cases("edge", "some cases", inputs)])
    yield from rounding.faults(first)
    registers = stepping.registers(first, PROBED)
    yield from width.suspected(table, {name for name, read in registers.items() if read})
    yield from reset.suspected(table, tuple(registers))


def _few(table: Table, rows: np.ndarray) -> np.ndarray:
    """FIRST cases, at first one for each array that differs: it uses what is wrong. rows: (cases, rows of a case)."""
    wrong = [(table.unlike(name, words) != 0).any(axis=1) for name, words in table.want.items()]
    firsts = [int(np.argmax(here)) for each in wrong if (here := each[table.place(rows)].any(axis=1)).any()]
    return np.array(list(dict.fromkeys([*firsts, *range(min(len(rows), FIRST))]))[:FIRST])
