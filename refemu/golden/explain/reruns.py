"""Guesses that run the unit: variants of its decisions, parameters of ready configurations."""

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any

from refemu.arith.checks import Refused
from refemu.formats import config_text
from refemu.golden.explain.table import Table
from refemu.golden.faults.fault import Fault
from refemu.units.unit import Config
from refemu.units.variant import Variant


def decisions(table: Table) -> Iterator[Fault]:
    """One for each alternative, then for parameters of other ready configurations, and for numbers off by one."""
    owners: dict[str, str] = {}
    for variant in table.unit.variants:
        values = parameters(table.config, variant)
        owners |= dict.fromkeys(values, variant.decision)
        says = f"{variant.decision}: {variant.says}"
        yield Fault(says, says, variant.decision, values, variants=(variant,))
    for parameter, current in table.config.items():
        owner = owners.get(parameter, "")
        offered = [] if owner else _candidates(table, parameter, current)
        for value in [*offered, *(number for number in _off_by_one(current) if number not in offered)]:
            says = f"{parameter} is {text(value)} (here {text(current)})"
            variant = Variant(owner, says, partial(_with, parameter, value))
            says, shown = f"{owner}{': ' * bool(owner)}{says}", {parameter: text(value)}
            yield Fault(says, says, owner or "parameter", shown, 1, variants=(variant,))


def text(value: Any) -> str:
    """A parameter's value as text."""
    return repr(value.value if isinstance(value, Enum) else value)


def parameters(config: Config, variant: Variant) -> Mapping[str, Any]:
    """Parameters of a variant, or its description if it changes the device itself."""
    try:
        changed = variant.apply(config)
    except Refused:
        return {}
    texts = {name: (_plain(config.get(name)), _plain(value)) for name, value in changed.items()}
    pairs = {name: new for name, (old, new) in texts.items() if f"{old}[]" != new and old != new}
    return pairs or {"device": variant.says}


def _plain(value: Any) -> Any:
    """A number or word unchanged; an object as text for a command line."""
    value = value.value if isinstance(value, Enum) else value
    return value if isinstance(value, int | float | str | bool | type(None)) else config_text.write(value)


def _candidates(table: Table, parameter: str, current: Any) -> list[Any]:
    offered = [config[parameter] for config in table.unit.configs.values() if parameter in config]
    if isinstance(current, bool):
        offered.append(not current)
    if isinstance(current, Enum):
        offered += list(type(current))
    return [value for at, value in enumerate(offered) if value != current and value not in offered[:at]]


def _off_by_one(current: Any) -> list[int]:
    """An integer parameter off by one: a size, a count or a place."""
    return [current - 1, current + 1] if isinstance(current, int) and not isinstance(current, bool) else []


def _with(parameter: str, value: Any, config: Config) -> Config:
    return Config(**{**config, parameter: value})
