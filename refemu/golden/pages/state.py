"""Fields of a unit's State other than ports: the event, counters and internal values, with their comments."""

from dataclasses import dataclass, fields
from typing import Literal, get_args

from refemu import units
from refemu.golden.pages.named_caches import following
from refemu.units import comments
from refemu.units.unit import AnyUnit, Config

Kind = Literal["event", "counter", "inner"]
Total = Literal["sum", "largest", ""]

_ORDER: tuple[Kind, ...] = get_args(Kind)
_ROWS = {
    "combinational": "a row is one call, whose outputs follow from its inputs alone; {shows}",
    "event": "a row is one step, and registers retain their values between steps, so the rows of a case are "
    "consecutive steps from reset; {shows}",
}


@dataclass(frozen=True)
class Field:
    """A field of a State other than a port."""

    of: str  #: unit
    name: str
    kind: Kind  #: "inner": registers of sub-units, and values that an event leaves for the next
    total: Total  #: for a counter: how a Result combines several devices
    meaning: str


@following(units.find)
def of_unit(name: str, unit: AnyUnit) -> dict[str, Field]:
    """Fields of a unit's State that are not ports in some ready configuration, by name: event, counters, others."""
    device = unit.unit_class(**next(iter(unit.configs.values())))
    meanings = comments.of_class(type(device.state))  # type: ignore[arg-type]  # a class is hashable
    ports = set.intersection(*({port.name for port in sides.all} for sides in unit.ready_ports))
    table = {}
    for each in fields(device.state):
        if each.name not in ports:
            counted = each.name in unit.counters
            kind: Kind = "event" if each.name == "event" else "counter" if counted else "inner"
            total: Total = "largest" if each.name in unit.peaks else "sum" if counted else ""
            table[each.name] = Field(name, each.name, kind, total, meanings.get(each.name, ""))
    return dict(sorted(table.items(), key=lambda item: _ORDER.index(item[1].kind)))


def of_config(unit: AnyUnit, config: Config) -> list[Field]:
    """Fields of a unit's State that are not ports in one configuration."""
    ports = {port.name for port in unit.ports(config).all}
    return [field for field in of_unit(unit.key).values() if field.name not in ports]


def timing(unit: AnyUnit) -> str:
    """Description of a row of a unit's sets."""
    shows = f"`refemu step {unit.key}` shows the events inside it"
    return f"{unit.timing}: {_ROWS[unit.timing].format(shows=shows)}"
