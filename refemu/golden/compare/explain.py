"""Explanation of a difference: the decision behind the case, and other decisions that would make the device right.

The alternatives are those that the unit states, one at a time and then two at a time; after them the parameters of its
other ready configurations.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from refemu import units
from refemu.arith.checks import Refused, RefusedType
from refemu.golden.compare import dut
from refemu.golden.files import sets
from refemu.golden.files.sets import Golden
from refemu.golden.make.rows import evaluate, stacked
from refemu.units.alternative import Device, device, right
from refemu.units.unit import Alternative, AnyUnit, Cases, Config

_ID = re.compile(r"D-[a-z]+-[0-9]+")


def explanations(golden: Golden, answer: dut.Answer, wrong: np.ndarray, row: int) -> tuple[str, ...]:
    """Sentences, the best first; () if nothing is known.

    answer: the device's. wrong: bool per row that differs. row: the first of them.
    """
    trial = _Trial(golden, answer, wrong)
    unchanged = trial.unit.config(golden.config)
    singles = _singles(trial.unit, golden.config)
    matches = [change.text for change in singles if trial.matches(change.device)]
    if not matches:
        doubles = (change for change in _doubles(trial.unit, unchanged) if trial.matches(change.device))
        matches = [change.text for change in doubles]
    partly = [
        f"the device is right in row {row} if {change.text}"
        for change in singles
        if not matches and trial.right(change.device, row)
    ]
    # A device that is right under an alternative differs from the set just where the alternative does.
    tell = f"{np.count_nonzero(wrong)} of {golden.rows} rows can tell that from the set's answers"
    best = [f"the device is right in every row if {text}; {tell}" for text in matches]
    return (*best, *_decisions(golden, row), *partly)


@dataclass(frozen=True)
class _Changed:
    """A device, and how it differs from the unit in the configuration of the set."""

    text: str
    device: Device


class _Trial:
    """The device's answers, held against what the unit gives under other configurations."""

    def __init__(self, golden: Golden, answer: dut.Answer, wrong: np.ndarray) -> None:
        self.golden, self.answer, self.wrong = golden, answer, wrong
        self.unit = units.find(golden.manifest["unit"])
        self._known: dict[tuple[int, Device], np.ndarray | None] = {}

    @cached_property
    def _entries(self) -> list[Mapping[str, Any]]:
        """Entries with a differing row first: most configurations fail there already."""
        entries = list(self.golden.manifest["cases"])
        return sorted(entries, key=lambda entry: not self.wrong[_rows(entry)].any())

    def matches(self, device: Device) -> bool:
        """Whether the device is right in every row, those included in which it did not differ."""
        for entry in self._entries:
            right = self._right(device, entry)
            if right is None or not right.all():
                return False
        return True

    def right(self, device: Device, row: int) -> bool:
        """Whether the device is right in one row."""
        entry = self.golden.entry(row)
        right = self._right(device, entry)
        return right is not None and bool(right[row - entry["first"]])

    def _right(self, device: Device, entry: Mapping[str, Any]) -> np.ndarray | None:
        key = entry["first"], device
        if key not in self._known:
            self._known[key] = self._compared(device, entry)
        return self._known[key]

    def _compared(self, device: Device, entry: Mapping[str, Any]) -> np.ndarray | None:
        """Rows of an entry in which the answers are what the unit gives; None if it cannot take this stimulus."""
        inputs = sets.inputs(self.golden, entry["first"], entry["cases"], entry["rows"])
        try:
            cases = Cases(entry["kind"], entry["why"], inputs)
            block = evaluate(self.unit, device.config, cases, device=device)
        except (Refused, RefusedType):
            return None
        rows = _rows(entry)
        right = np.ones(rows.stop - rows.start, np.bool_)
        for name, array in self.answer.arrays.items():
            answers = stacked([block.arrays[name]])
            if answers.shape != array[rows].shape:
                return None
            unlike = self.answer.differing(self.golden, name, answers, rows) != 0
            right &= ~unlike.reshape(len(answers), -1).any(axis=1)
        return right


def _rows(entry: Mapping[str, Any]) -> slice:
    return slice(entry["first"], entry["first"] + entry["cases"] * entry["rows"])


def _decisions(golden: Golden, row: int) -> Iterator[str]:
    """Decisions behind the expected answer of a row: that of its case, and those of its flags."""
    entry, flags = golden.entry(row), int(golden.arrays["flags"][row])
    if "decision" in entry:
        yield f"the expected answer follows {entry['decision']}; see docs/decisions.md"
    for name, flag in golden.manifest["flags"].items():
        if flags >> flag["bit"] & 1 and _ID.search(flag["why"]):
            yield f"row {row} is {name}: {flag['why']}"


def _singles(unit: AnyUnit, name: str) -> list[_Changed]:
    """Devices under one other decision, then with one parameter as another ready one has it, then those."""
    base = unit.config(name)
    changes = _applied(unit, base, [(alternative,) for alternative in unit.alternatives])
    for parameter, current in base.items():
        for candidate in _candidates(unit, parameter, current):
            text = f"{parameter} is {_text(candidate)} (here {_text(current)})"
            changes.append(_Changed(text, right(unit, Config(**{**base, parameter: candidate}))))
    changes += [
        _Changed(f"its configuration is {other} (here {name})", right(unit, config))
        for other, config in unit.configs.items()
    ]
    return _unlike(changes, base)


def _doubles(unit: AnyUnit, base: Config) -> list[_Changed]:
    """Devices under two other decisions."""
    pairs = [
        (first, second) for first, second in combinations(unit.alternatives, 2) if first.decision != second.decision
    ]
    return _unlike(_applied(unit, base, pairs), base)


def _applied(unit: AnyUnit, base: Config, changes: Sequence[Sequence[Alternative]]) -> list[_Changed]:
    """One device for each sequence of alternatives, without those that cannot be."""
    applied = []
    for change in changes:
        other = device(unit, base, change)
        if other is not None:
            text = " and ".join(f"{alternative.decision}: {alternative.says}" for alternative in change)
            applied.append(_Changed(text, other))
    return applied


def _unlike(changes: Sequence[_Changed], base: Config) -> list[_Changed]:
    """Every device once, the first text for it, without that of the set."""
    seen: set[object] = {repr(base)}
    kept = []
    for change in changes:
        plain = change.device.run is change.device.unit.run_jit and change.device.answer is None
        key = repr(change.device.config) if plain else change.device
        if key not in seen:
            seen.add(key)
            kept.append(change)
    return kept


def _candidates(unit: AnyUnit, parameter: str, current: Any) -> list[Any]:
    offered = [config[parameter] for config in unit.configs.values() if parameter in config]
    if isinstance(current, bool):
        offered.append(not current)
    if isinstance(current, Enum):
        offered += list(type(current))
    return [value for at, value in enumerate(offered) if value != current and value not in offered[:at]]


def _text(value: Any) -> str:
    return repr(value.value if isinstance(value, Enum) else value)
