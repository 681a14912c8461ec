"""Every configuration of every unit has one line in the table of compiled forms."""

from collections import Counter

from refemu import units
from tools import formal


def test_each_compiled_form_is_listed_once() -> None:
    count: Counter[str] = Counter()
    for spec in (*formal.COMPILED, *formal.WRITTEN, *formal.TRIED, *formal.OPEN):
        unit, _, config = spec.partition(":")
        count.update([spec] if config else [f"{unit}:{each}" for each in units.find(unit).configs])
    every = [f"{name}:{config}" for name in units.names() for config in units.find(name).configs]
    assert count == Counter(every)
