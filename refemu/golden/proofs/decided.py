"""Variants of decisions that a design has: asked for with `--set`, or found where it differs from the unit."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.golden.proofs.counterexample import Counterexample, word
from refemu.golden.proofs.question import Question
from refemu.prove import lift as lifts
from refemu.prove.lift import Lift, NotLifted
from refemu.units import parameters
from refemu.units import variant as other
from refemu.units.config import Config
from refemu.units.unit import AnyUnit
from refemu.units.variant import Variant

SHOWN = 8  #: variants in an error message


def chosen(unit: AnyUnit, config: str, decisions: Sequence[str]) -> tuple[AnyUnit, Mapping[str, Any], str]:
    """The unit with the variants of "ID=WORDS", its parameters, and its name."""
    name = parameters.set_name(unit, config)
    variants = [_variant(unit, text) for text in decisions]
    if not variants:
        return unit, unit.config(config), name
    translator = _unit(unit, unit.config(config), variants)
    if translator is None:
        raise Refused(f"{name}: has no device with {' and '.join(decisions)}, or it is the unit itself")
    return *translator, f"{name} with {', '.join(f'{each.decision}: {each.says}' for each in variants)}"


def _variant(unit: AnyUnit, text: str) -> Variant:
    """The variant of "D-olive-20=saturate": the only one of this decision that says these words."""
    decision, _, words = text.partition("=")
    known: dict[str, list[Variant]] = {}
    for each in unit.variants:
        known.setdefault(each.decision, []).append(each)
    variants = lookup(f"decision of {unit.name}", decision, known)
    entries = [each for each in variants if words and words in each.says]
    if len(entries) != 1:
        says = "; ".join(repr(each.says) for each in variants[:SHOWN])
        raise Refused(f"--set {text}: must be {decision}=WORDS with words of one of {says}")
    return entries[0]


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
    changed = dataclasses.replace(unit, unit_class=joined, run=None, compiled_run="none")  # type: ignore[arg-type]  # derived again
    return changed, device.config


def diagnosis(question: Question, lift: Lift, entries: Counterexample, outcome: Callable[[Lift], str]) -> list[str]:
    """Variants that the design equals for all inputs, as sentences."""
    return list(_equal(question, lift, entries, outcome))


def _equal(question: Question, lift: Lift, entries: Counterexample, outcome: Callable[[Lift], str]) -> Iterator[str]:
    base = question.unit
    for each in base.variants:
        try:
            translator = _unit(base, base.config(question.config), [each])
            if translator is None or not _agrees(translator, lift, entries):
                continue
            unit, config = translator
            if outcome(lifts.lift(unit, config)) == "proved":
                yield f'equal to the variant of {each.decision} "{each.says}", for all inputs'
        except (Refused, RefusedType, NotLifted):
            continue


def _agrees(translator: tuple[AnyUnit, Mapping[str, Any]], lift: Lift, entries: Counterexample) -> bool:
    """Whether a variant gives the answers of the design to the counterexample."""
    unit, config = translator
    device = unit.unit_class(**config)
    if [port.name for port in device.ports.all] != [port.name for port in lift.device.ports.all]:
        return False
    events = bool(lift.before)
    states = list(device.steps(**{name: array[0] if events else array for name, array in entries.inputs.items()}))
    ended = [state for at, state in enumerate(states) if at + 1 == len(states) or states[at + 1].index != state.index]
    return all(
        word(port, getattr(state, port.name)) == answer[port.name]
        for state, answer in zip(ended, entries.answers, strict=False)  # a design may answer less
        for port in lift.device.ports.outputs
    )
