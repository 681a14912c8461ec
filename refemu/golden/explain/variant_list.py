"""Variants of a unit's decisions, and the number of rows of a set that detect each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refemu import units
from refemu.arguments import checked
from refemu.arith.checks import Refused, RefusedType
from refemu.golden.explain.reruns import parameters
from refemu.golden.files import sets
from refemu.golden.files.sets import Golden
from refemu.golden.grade import answers, device
from refemu.units import variant as other
from refemu.units.unit import AnyUnit


@dataclass(frozen=True)
class Choice:
    """A variant of a decision."""

    decision: str  #: id
    says: str  #: what a device with the variant does
    parameters: Mapping[str, Any]  #: parameters that it sets; `device` if it is another device
    rows: int | None  #: rows of the set that detect it; None without a set or such a device


@checked
def variants(unit: str | AnyUnit, config: str | None = None, path: str | Path | None = None) -> tuple[Choice, ...]:
    """List the variants of a unit's decisions that `diff --explain` tries.

    Parameters
    ----------
    unit : str or Unit
        Unit.
    config : str, optional
        Configuration; by default the first ready one.
    path : str or Path, optional
        Directory of a golden set of that unit and configuration, whose detecting rows are counted.

    Returns
    -------
    tuple of Choice
        Variants that a device in this configuration can have, in the unit's order.

    Raises
    ------
    Refused
        Unknown unit or configuration, or a set of another one.
    """
    descriptor, name = units.choose(unit, config)
    rows = None if path is None else answers.of_set(_required(sets.load(path), descriptor.key, name))
    choices = []
    for each in descriptor.variants:
        values = parameters(descriptor.config(name), each)
        same = "device" in values and each.unit_class is None and each.answer is None
        if same or other.device(descriptor, descriptor.config(name), [each]) is None:
            continue  # the configuration's own answer, or an impossible one
        choices.append(
            Choice(each.decision, each.says, values, None if rows is None else _rows_that_differ(rows, each))
        )
    return tuple(choices)


def _required(golden: Golden, unit: str, config: str) -> Golden:
    if (golden.manifest["unit"], golden.config) != (unit, config):
        raise Refused(f"{golden.name}: is not a set of {unit} in configuration {config}")
    return golden


def _rows_that_differ(rows: answers.Answers, variant: other.Variant) -> int | None:
    """Rows in which a device with the variant differs; None if there is no such device."""
    wrong = other.device(rows.unit, rows.config, [variant])
    if wrong is None:
        return None
    try:
        return int(np.count_nonzero(device.wrong(rows, wrong)))
    except (Refused, RefusedType):
        return None
