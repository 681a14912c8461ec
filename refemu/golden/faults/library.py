"""The library: every class of structural faults, as coverage injects them and as a diagnosis searches them."""

from collections.abc import Iterator, Mapping

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
    inputs = table.groups[0].pick(slice(0, FIRST)).inputs
    first = answers_of.of_cases(table.unit, table.config, [Cases("edge", "first cases", inputs)])
    yield from rounding.faults(first)
    registers = stepping.registers(first, PROBED)
    yield from width.suspected(table, {name for name, read in registers.items() if read})
    yield from reset.suspected(table, tuple(registers))
