"""Configurations of a unit by text: a ready name, or parameters as `n=4096,k=21` or `n8,k=3`.

refemu.formats.config_text has the grammar. Omitted parameters are those of the ready configuration at the
start of the text, or else the defaults of the constructor.
"""

import hashlib
import inspect
import re
import typing
from collections.abc import Mapping
from typing import Any

from refemu.arith.checks import Refused, lookup
from refemu.formats import config_text
from refemu.units.config import Config
from refemu.units.stepping import Descriptor

_WORD = re.compile(r"[A-Za-z0-9_]+")
_DIGEST = re.compile(r"x[0-9a-f]{12}")


def split(spec: str) -> tuple[str, str | None]:
    """Name of a unit and text of a configuration, from `unit` or `unit:configuration`."""
    name, colon, text = spec.partition(":")
    if colon and not text:
        raise Refused(f"{name}: a configuration must follow the colon, such as {name}:parameter=value")
    return name, text if colon else None


def config(unit: Descriptor, text: str) -> Config:
    """The configuration of a text; a ready one by its name. unit: a Unit.

    Raises Refused for an unknown ready name or parameter, with the nearest; or a parameter missing or out of range.
    """
    if text in unit.configs or ("=" not in text and "," not in text):
        ready: Config = lookup(f"configuration of {unit.name}", text, unit.configs)
        return ready
    first, _, rest = text.partition(",")
    base: Mapping[str, Any] = {}
    if "=" not in first:
        base, text = lookup(f"configuration of {unit.name}", first, unit.configs), rest
    changed = Config(**{**base, **_read(unit, text)})
    whole = full(unit, changed)
    unit.unit_class(**whole)
    return next((ready for ready in unit.configs.values() if full(unit, ready) == whole), whole)


def text(unit: Descriptor, parameters: Mapping[str, Any]) -> str:
    """The text of a configuration: its ready name, or the parameters that differ from defaults, in order.

    unit: a Unit. `config` parses it. Raises Refused for a value that has no text.
    """
    whole = full(unit, parameters)
    for name, ready in unit.configs.items():
        if full(unit, ready) == whole:
            return str(name)
    defaults = {name: each.default for name, each in _signature(unit).items()}
    listed = [name for name, default in defaults.items() if whole[name] != default] or list(defaults)[:1]
    return ",".join(f"{name}={config_text.write(whole[name])}" for name in listed)


def set_name(unit: Descriptor, text: str) -> str:
    """Name of the set of a configuration in the form of the function `text`. Different texts have different names.

    unit: a Unit. `orizuru-n4096-k21`; a digest follows if values are not plain words, or are ambiguous.
    The name of a plug-in's set begins with its distribution: `refemu-mx.mx_encoder-mxfp4`.
    """
    prefix = unit.key.replace("/", ".")
    if text in unit.configs:
        return f"{prefix}-{text}"
    values = config_text.assignments(text, unit.name)
    parts = [f"{name}{value}" if _WORD.fullmatch(value) else name for name, value in values.items()]
    name = "-".join(parts).lower()
    plain = all(map(_WORD.fullmatch, values.values()))
    if not plain or name in unit.configs or any(_ambiguous(unit, part) for part in parts):
        name = f"{name}-x{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return f"{prefix}-{name}"


def _ambiguous(unit: Descriptor, part: str) -> bool:
    """Whether a part of a name could mean another parameter, another value or a digest."""
    return (
        part != part.lower()
        or len([name for name in _signature(unit) if part.startswith(name)]) > 1
        or bool(_DIGEST.fullmatch(part))
    )


def _read(unit: Descriptor, text: str) -> dict[str, Any]:
    signature, hints = _signature(unit), typing.get_type_hints(unit.unit_class.__init__)
    values = {}
    for name, value in config_text.assignments(text, unit.name).items():
        lookup(f"parameter of {unit.name}", name, signature)
        values[name] = config_text.read(value, hints[name], f"{unit.name}.{name}")
    return values


def full(unit: Descriptor, parameters: Mapping[str, Any]) -> Config:
    """Every parameter of the constructor, in its order."""
    defaults = {name: each.default for name, each in _signature(unit).items()}
    values = {**defaults, **parameters}
    missing = [name for name in defaults if values[name] is inspect.Parameter.empty]
    if missing:
        raise Refused(f"{unit.name}: parameter {missing[0]} must be given, got none; add it, such as {missing[0]}=16")
    return Config(**values)


def _signature(unit: Descriptor) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(unit.unit_class).parameters
