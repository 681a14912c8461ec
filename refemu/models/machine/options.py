"""Options of a machine as text, `lanes=8,overlap=none`, and the check that each of them changes something."""

import dataclasses
from collections.abc import Callable
from typing import Any, get_type_hints

from refemu.arith.checks import Refused, lookup
from refemu.formats import config_text
from refemu.models import schemes
from refemu.models.schemes.kind import kind_of
from refemu.models.schemes.scheme import Scheme


def options(config: Scheme, text: str | Any = "") -> Any:
    """The options of a scheme's machine; None for a scheme whose machine has none.

    text: `name=value,...`, or the options themselves. Raises Refused for unknown names and invalid values.
    """
    kind = kind_of(config).options
    if kind is None:
        if text:
            raise Refused(f"the accelerator of scheme {schemes.name(config)} has no options, got {text}")
        return None
    if not isinstance(text, str):
        return text
    hints, values = get_type_hints(kind), {}
    for name, value in config_text.assignments(text, "accelerator").items() if text else ():
        known = dict.fromkeys(field.name for field in dataclasses.fields(kind))
        lookup(f"option of the accelerator of {schemes.name(config)}", name, known)
        values[name] = config_text.read(value, hints[name], f"accelerator: {name}")
    return kind(**values)


def others(chosen: Any) -> dict[str, Any]:
    """For each option that differs from its default, the options with that default; invalid ones are left out."""
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(chosen) if chosen is not None else ():
        if getattr(chosen, field.name) not in (field.default, "refuse"):  # what only rejects never changes a number
            try:
                defaults[field.name] = dataclasses.replace(chosen, **{field.name: field.default})
            except Refused:
                continue
    return defaults


def require_effect(chosen: Any, numbers: Callable[[Any], Any]) -> None:
    """Raise Refused for an option that changes no number. numbers(options): what is printed."""
    mine = None
    for name, other in others(chosen).items():
        mine = numbers(chosen) if mine is None else mine
        try:
            same = numbers(other) == mine
        except Refused:
            continue
        if same:
            got = config_text.write(getattr(chosen, name))
            raise Refused(f"accelerator: option {name} changes no number here, got {got}; leave it out")
