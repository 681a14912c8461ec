"""Fault libraries: faulty devices of any unit, from entry points `refemu.faults` of distributions, or by call.

An entry point has the name of a unit, so that the libraries of a unit are found without loading others.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from refemu import plugins
from refemu.arith.checks import Refused, RefusedType
from refemu.units.variant import Variant

DECISION, FAULT = (re.compile(rf"{letter}-[a-z]+-\d{{1,6}}") for letter in "DF")


@dataclass(frozen=True)
class FaultLibrary:
    """Faulty devices of a unit in addition to its own: variants of its decisions, and faults."""

    unit: str  #: name of the unit; for a plug-in's unit "distribution/unit"
    faults: Sequence[Variant]  #: each with an id: of a decision, "D-olive-1", or of the fault, "F-lab-1"


def _validated(library: object, name: str, origin: plugins.Origin) -> FaultLibrary:
    known = required(library)
    if name not in (known.unit, known.unit.rpartition("/")[2]):
        raise Refused(f"faults of {known.unit}: the entry point must have the unit's name, got {name!r}")
    return known


def required(library: object) -> FaultLibrary:
    """Check a library; raises RefusedType for a wrong type of it or of an entry, Refused for another broken rule."""
    if not isinstance(library, FaultLibrary):
        raise RefusedType(f"faults: must be a FaultLibrary, got {type(library).__name__}")
    if not library.faults:
        raise Refused(f"faults of {library.unit}: must have at least one entry, got none")
    for number, each in enumerate(library.faults):
        require(each, f"faults of {library.unit}: entry {number}", DECISION, FAULT)
    return library


def require(each: object, thing: str, *ids: re.Pattern[str]) -> Variant:
    """Check a faulty device; raises RefusedType if it is not a Variant, Refused for a bad id or no description."""
    if not isinstance(each, Variant):
        raise RefusedType(f"{thing}: must be a Variant, got {type(each).__name__}")
    if not any(pattern.fullmatch(each.decision) for pattern in ids):
        forms = " or ".join(pattern.pattern for pattern in ids)
        raise Refused(f"{thing}: its id must be {forms}, got {each.decision!r}")
    if not each.says:
        raise Refused(f"{thing}: it must say what the device does, got nothing")
    return each


REGISTRY = plugins.Registry("fault", lambda: (), _validated)


def of_unit(key: str) -> tuple[Variant, ...]:
    """The faulty devices of a unit in all libraries; warns about a library that fails to load."""
    called = [REGISTRY.find(key)] if key in REGISTRY.called() else []
    libraries = (*_brought(key.rpartition("/")[2]), *called)
    return tuple(each for library in libraries if library.unit == key for each in library.faults)


def _brought(unit: str) -> Iterator[FaultLibrary]:
    """Libraries of distributions for units of a name."""
    for plug in plugins.plugs("fault"):
        if plug.name == unit:
            try:
                yield REGISTRY.load(plug)
            except plugins.Unloadable as error:
                warnings.warn(str(error), plugins.PluginWarning, stacklevel=2)


def broken(find: Callable[[str], object]) -> Iterator[plugins.Broken]:
    """Libraries that fail to load, and those of an unknown unit. find(name): the unit, or raises Refused."""
    libraries, failed = REGISTRY.working()
    yield from failed
    for plug in plugins.plugs("fault"):
        library = libraries.get(plug.name) or libraries.get(plug.key)
        try:
            find(library.unit) if library else None
        except Refused as error:
            about = f"plug-in {plug.origin.distribution} {plug.origin.version}: faults of {plug.name} have no unit"
            yield plugins.Broken("fault", plug.key, plug.origin.version, f"{about}: {error}")
