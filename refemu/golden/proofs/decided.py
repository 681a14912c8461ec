"""Variants of decisions that a design has: asked for with `--set`, or found where it differs from the unit."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.golden.proofs.counterexample import Counterexample, word
from refemu.prove import lift as lifts
from refemu.prove.lift import Lift, NotLifted
from refemu.units import parameters
from refemu.units import variant as other
from refemu.units.config import Config
from refemu.units.unit import AnyUnit
from refemu.units.variant import Variant

if TYPE_CHECKING:
    from refemu.golden.proofs.prove import Question

SHOWN = 8  #: variants in an error message


def chosen(unit: AnyUnit, config: str, decisions: Sequence[str]) -> tuple[AnyUnit, Mapping[str, Any], str]:
    """The unit with the variants of "ID=WORDS", its parameters, and its name."""
    name = parameters.set_name(unit, config)
    variants = [_variant(unit, text) for text in decisions]
    if not variants:
        return unit, unit.config(config), name
    made = _unit(unit, unit.config(config), variants)
    if made is None:
        raise Refused(f"{name}: has no device with {' and '.join(decisions)}, or it is the unit itself")
    return *made, f"{name} with {', '.join(f'{each.decision}: {each.says}' for each in variants)}"


def _variant(unit: AnyUnit, text: str) -> Variant:
    """The variant of "D-olive-20=saturate": the only one of this decision that says these words."""
    decision, _, words = text.partition("=")
    known: dict[str, list[Variant]] = {}
    for each in unit.variants:
        known.setdefault(each.decision, []).append(each)
    variants = lookup(f"decision of {unit.name}", decision, known)
    found = [each for each in variants if words and words in each.says]
    if len(found) != 1:
        says = "; ".join(repr(each.says) for each in variants[:SHOWN])
        raise Refused(f"--set {text}: must be {decision}=WORDS with words of one of {says}")
    return found[0]


def _unit(unit: AnyUnit, config: Config, variants: Sequence[Variant]) -> tuple[AnyUnit, Mapping[str, Any]] | None:
    """A unit with variants, and its parameters; None where there is none that a text describes."""
    device = other.device(unit, config, variants)
    if device is None or device.answer is not None:
        return None
    classes = tuple(each.unit_class for each in variants if each.unit_class is not None)
    if not classes:
        return unit, device.config
    joined = type(unit.unit_class.__name__, classes, {"__signature__": None})
    del joined.__signature__  # type: ignore[attr-defined]
    changed = dataclasses.replace(unit, unit_class=joined, run=None, compiled_run="none")
    return changed, device.config


def diagnosis(question: "Question", lift: Lift, found: Counterexample, outcome: Callable[[Lift], str]) -> list[str]:
    """Variants that the design equals for all inputs, as sentences."""
    return list(_equal(question, lift, found, outcome))


def _equal(question: "Question", lift: Lift, found: Counterexample, outcome: Callable[[Lift], str]) -> Iterator[str]:
    base = question.unit
    for each in base.variants:
        try:
            made = _unit(base, base.config(question.config), [each])
            if made is None or not _agrees(made, lift, found):
                continue
            unit, config = made
            if outcome(lifts.lift(unit, config)) == "proved":
                yield f'equal to the variant of {each.decision} "{each.says}", for all inputs'
        except (Refused, RefusedType, NotLifted):
            continue


def _agrees(made: tuple[AnyUnit, Mapping[str, Any]], lift: Lift, found: Counterexample) -> bool:
    """Whether a variant gives the answers of the design to the counterexample."""
    unit, config = made
    device = unit.unit_class(**config)
    if [port.name for port in device.ports.all] != [port.name for port in lift.device.ports.all]:
        return False
    events = bool(lift.before)
    states = list(device.steps(**{name: array[0] if events else array for name, array in found.inputs.items()}))
    ended = [state for at, state in enumerate(states) if at + 1 == len(states) or states[at + 1].index != state.index]
    return all(
        word(port, getattr(state, port.name)) == answer[port.name]
        for state, answer in zip(ended, found.answers, strict=True)
        for port in lift.device.ports.outputs
    )
