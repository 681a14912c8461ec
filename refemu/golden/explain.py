"""Why a device may differ: the decision behind the case, and other parameters under which it would be right."""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import numpy as np

from refemu import units
from refemu.arith.checks import Refused, RefusedType
from refemu.golden import sets
from refemu.golden.rows import evaluate
from refemu.golden.sets import Golden
from refemu.units.unit import Cases, Config, Unit

_ID = re.compile(r"D-[a-z]+-[0-9]+")


def explanations(golden: Golden, answers: Mapping[str, np.ndarray], wrong: np.ndarray, row: int) -> tuple[str, ...]:
    """Sentences, the best first; () if nothing is known.

    answers: the device's arrays. wrong: bool per row that differs. row: the first of them.
    """
    unit = units.find(golden.manifest["unit"])
    found = list(_decisions(golden, row))
    for changed, config in _others(unit, golden.config):
        right = _right(unit, config, golden, answers, wrong)
        if right is not None and right[wrong].all():
            found.append(f"the device is right in every row that differs if {changed}")
        elif right is not None and right[row]:
            found.append(f"the device is right in row {row} if {changed}")
    return tuple(sorted(found, key=lambda sentence: "every" not in sentence))


def _decisions(golden: Golden, row: int) -> Iterator[str]:
    """What the expected answer of a row follows: the decision behind its case, and those behind its flags."""
    entry, flags = golden.entry(row), int(golden.arrays["flags"][row])
    if "decision" in entry:
        yield f"the expected answer follows {entry['decision']}; see docs/decisions.md"
    for name, flag in golden.manifest["flags"].items():
        if flags >> flag["bit"] & 1 and _ID.search(flag["why"]):
            yield f"row {row} is {name}: {flag['why']}"


def _others(unit: Unit, name: str) -> Iterator[tuple[str, Config]]:
    """Configurations with one parameter as another ready one has it, or its type offers; then the ready ones."""
    own = unit.configs[name]
    for parameter, current in own.items():
        for candidate in _candidates(unit, parameter, current):
            yield f"{parameter} is {_text(candidate)} (here {_text(current)})", Config(**{**own, parameter: candidate})
    for other, config in unit.configs.items():
        if len([parameter for parameter in own if own[parameter] != config.get(parameter)]) > 1:
            yield f"its configuration is {other} (here {name})", config


def _candidates(unit: Unit, parameter: str, current: Any) -> list[Any]:
    offered = [config[parameter] for config in unit.configs.values() if parameter in config]
    if isinstance(current, bool):
        offered.append(not current)
    if isinstance(current, Enum):
        offered += list(type(current))
    return [value for at, value in enumerate(offered) if value != current and value not in offered[:at]]


def _text(value: Any) -> str:
    return repr(value.value if isinstance(value, Enum) else value)


def _right(
    unit: Unit, config: Config, golden: Golden, answers: Mapping[str, np.ndarray], wrong: np.ndarray
) -> np.ndarray | None:
    """Rows in which the answers are what `unit` gives under `config`; None if it cannot take this stimulus."""
    right = np.ones(golden.rows, np.bool_)
    for entry in golden.manifest["cases"]:
        rows = slice(entry["first"], entry["first"] + entry["cases"] * entry["rows"])
        if not wrong[rows].any():
            continue
        cases = Cases(entry["kind"], entry["why"], sets.inputs(golden, entry["first"], entry["cases"], entry["rows"]))
        try:
            block = evaluate(unit, config, cases)
        except (Refused, RefusedType):
            return None
        for name, array in answers.items():
            made = block.arrays[name].reshape(-1, *block.arrays[name].shape[2:])
            if made.shape != array[rows].shape:
                return None
            unlike = made ^ array[rows]
            if f"{name}.care" in golden.arrays:
                unlike &= golden.arrays[f"{name}.care"][rows]
            right[rows] &= ~unlike.reshape(len(made), -1).any(axis=1)
    return right
