"""Variants of the decisions that a unit takes, and devices that implement them.

A variant is a change of the configuration, a stepping class that overrides the decision, or a function on outputs. The
first two compose exactly; a function on outputs comes last.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.units import parameters
from refemu.units.config import Config
from refemu.units.declaration import Declared
from refemu.units.derivation import readable
from refemu.units.stepping import Descriptor, Result, Stepped

#: answer(config, inputs, result): outputs (and registers) of such a device by name, where they differ
Answer: TypeAlias = Callable[[Config, Mapping[str, np.ndarray], Any], Mapping[str, np.ndarray]]


def _unchanged(config: Config) -> Config:
    """Return the configuration unchanged."""
    return config


@dataclass(frozen=True)
class Variant:
    """Variant of a decision. `apply` or `answer` raises for a ready configuration that cannot have it."""

    decision: str  #: id, "D-olive-33"
    says: str  #: "overflow is 'saturate'"
    apply: Callable[[Config], Config] = _unchanged  #: gives the configuration of a device with the variant
    unit_class: type[Stepped[Any]] | None = None  #: stepping class of such a device, derived from the unit's class
    answer: Answer | None = None  #: outputs of such a device, from the unit's inputs and Result


def choices(decision: str, parameter: str, *values: object) -> tuple[Variant, ...]:
    """Variants of a decision that set one parameter of the configuration to each of several values."""
    return tuple(Variant(decision, f"{parameter} is {value!r}", partial(_with, parameter, value)) for value in values)


def only(unit_class: type[Any], parameter: str, value: object) -> Callable[[Config], Config]:
    """`apply` of a variant that only devices with this value of a parameter can have; raises Refused for others."""

    def same(config: Config) -> Config:
        if config[parameter] != value:
            raise Refused(f"{unit_class.name}: {parameter} must be {value}, got {config[parameter]}")
        return config

    return same


def _with(parameter: str, value: Any, config: Config) -> Config:
    return Config(**{**config, parameter: value})


def overriding(unit_class: type[Any]) -> Callable[..., Variant]:
    """Function that makes variants whose devices have other methods, properties or constants.

    Its arguments: "D-olive-19: the reserved code has exponent 0", `apply` of the variant if any, and a value or a
    function for each name. unit_class: stepping class, or the class of a part. If the first parameter of a function is
    `old`, it gets the members before the change, as of `super()`. Raises AttributeError for a name that the class does
    not have.
    """

    def variant(text: str, apply: Callable[[Config], Config] = _unchanged, /, **members: Any) -> Variant:
        decision, _, says = text.partition(": ")

        def method(function: Any) -> Any:
            if not inspect.isfunction(function) or next(iter(inspect.signature(function).parameters), "") != "old":
                return function
            return lambda self, *args, **named: function(super(changed, self), self, *args, **named)

        def member(name: str, value: Any) -> Any:
            kind = type(inspect.getattr_static(unit_class, name))
            return kind(method(value)) if kind in (property, cached_property) else method(value)

        module = f"{unit_class.__module__.rpartition('.')[0]}.variants"
        body = {"__doc__": says, "__module__": module} | {name: member(name, each) for name, each in members.items()}
        changed: type[Any] = type(unit_class.__name__, (unit_class,), body)
        return Variant(decision, says, apply, changed)

    return variant


def of_part(
    unit_class: type[Any],
    part: str,
    known: Iterable[Variant],
    apply: Callable[[Config], Config] | None = None,
    first: int = 0,
) -> tuple[Variant, ...]:
    """Variants of a device whose attribute `part`, a unit or units in tuples and lists, is also of the class of each.

    first: number of the first unit that changes. Those of two variants combine.
    """
    classes = [(each, _within(unit_class, part, each.unit_class, first)) for each in known if each.unit_class]
    return tuple(dataclasses.replace(each, apply=apply or each.apply, unit_class=kind) for each, kind in classes)


def _within(unit_class: type[Any], part: str, other: type[Any], first: int) -> type[Any]:
    def also(units: Any) -> Any:
        if isinstance(units, tuple | list):
            return type(units)([*units[:first], *map(also, units[first:])])
        return type(other.__name__, (other, type(units)), {})(**{name: getattr(units, name) for name in units._names})

    def init(self: Any, *args: Any, **named: Any) -> None:
        super(changed, self).__init__(*args, **named)
        setattr(self, part, also(getattr(self, part)))

    changed: type[Any] = type(f"{other.__name__}{unit_class.__name__}", (unit_class,), {"__init__": init})
    return changed


@dataclass(frozen=True, eq=False)
class Device:
    """A unit with variants of some of its decisions."""

    unit: Descriptor
    config: Config  #: configuration of the device
    run: Callable[..., Result]  #: compiled if no class is overridden
    answer: Answer | None = None
    readable: Any = None  #: the unit, with the stepping class of the device

    def evaluate(self, inputs: Mapping[str, np.ndarray], jit: bool = True) -> Result:
        """Outputs for inputs by port name, in the form of `Unit.evaluate`.

        jit: use the compiled form if it has the same decisions. Raises Refused for inputs that the device cannot take.
        """
        run = self.unit.run if self.run is self.unit.run_compiled and not jit else self.run
        result: Result = run(**inputs, **self.config)
        if self.answer is None:
            return result
        return dataclasses.replace(result, **self.answer(self.config, inputs, result))


def right(unit: Descriptor, config: Config) -> Device:
    """The unit itself. unit: a Unit."""
    return Device(unit, config, unit.run_compiled)


def device(unit: Descriptor, config: Config, variants: Sequence[Variant]) -> Device | None:
    """The unit in a configuration with all of `variants`; None if it would be the same unit, or is impossible.

    unit: a Unit. Two stepping classes are joined into one; two functions on outputs do not combine.
    Raises RefusedType if a variant sets something that is not a parameter of the unit.
    """
    changed, answers = config, [each.answer for each in variants if each.answer is not None]
    classes = tuple(each.unit_class for each in variants if each.unit_class is not None)
    try:
        for each in variants:
            before, changed = changed, each.apply(changed)
            known = inspect.signature(unit.unit_class).parameters
            unknown = sorted(set(changed) - set(known))
            if unknown and issubclass(unit.unit_class, Declared):
                raise RefusedType(
                    f"{unit.name}: {each.decision} ({each.says}) sets {unknown[0]!r}, which is not a parameter of it"
                )
            if each.unit_class is None and each.answer is None and _same(unit, before, changed):
                return None
        if issubclass(unit.unit_class, Stepped):
            unit.unit_class(**changed)
    except Refused:
        return None
    if len(answers) > 1 or len(set(classes)) < len(classes):
        return None
    whole: Any = unit
    joined = dataclasses.replace(whole, unit_class=_joined(unit, classes), run=None) if classes else None
    run = readable(joined) if joined else unit.run_compiled
    return Device(unit, changed, run, answers[0] if answers else None, joined or unit)


def _same(unit: Descriptor, before: Config, after: Config) -> bool:
    """Whether two configurations have the same parameters, defaults included."""
    return repr(parameters.full(unit, before)) == repr(parameters.full(unit, after))


def _joined(unit: Descriptor, classes: tuple[type[Stepped[Any]], ...]) -> type[Stepped[Any]]:
    """One class of all variants, with the parameters of the unit's class."""
    return type(unit.unit_class.__name__, classes, {"__signature__": inspect.signature(unit.unit_class)})
