"""Fields of a unit's State beside its ports: the event, counters, what else a debugger shows; by their comments."""

from dataclasses import dataclass, fields
from functools import cache
from typing import Literal

from refemu import units
from refemu.golden.pages import comments

Kind = Literal["event", "counter", "inner"]
Total = Literal["sum", "largest", ""]


@dataclass(frozen=True)
class Field:
    """A field of a State that is no port."""

    of: str  #: unit
    name: str
    kind: Kind  #: "inner": registers of sub-units, and values that an event leaves for the next
    total: Total  #: of a counter: what a Result holds for several devices
    meaning: str


@cache
def of_unit(name: str) -> dict[str, Field]:
    """Fields of a unit's State beside ports, by name, in the order of the class."""
    unit = units.find(name)
    config = next(iter(unit.configs.values()))
    device = unit.unit_class(**config)
    meanings = comments.of_class(type(device.state))
    ports = {port.name for port in device.ports.all}
    table = {}
    for each in fields(device.state):
        if each.name not in ports:
            counted = each.name in unit.counters
            kind: Kind = "event" if each.name == "event" else "counter" if counted else "inner"
            total: Total = "largest" if each.name in unit.peaks else "sum" if counted else ""
            table[each.name] = Field(name, each.name, kind, total, meanings.get(each.name, ""))
    return table
