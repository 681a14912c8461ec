"""Decisions of a unit, and the rows of a stimulus that detect their variants."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.grade import device as devices
from refemu.golden.grade.answers import Answers
from refemu.golden.make import rows
from refemu.golden.pages import decisions
from refemu.units import variant as other
from refemu.units.unit import AnyUnit, Cases, Config

MOST = 1000  #: rows for variants, which run in readable form and so need no compiler


def entries(unit: AnyUnit, config: Config, inputs: Mapping[str, np.ndarray], taken: str = "") -> list[dict[str, Any]]:
    """Every decision of a unit: id, title, text, and its variants with the rows that detect them.

    inputs: of one device, or rows of a unit without registers; the first MOST are tried. taken: the decision that the
    case is about, which comes first. Rows are None if no device with the variant exists here, or if the inputs are
    invalid for it.
    """
    some = {name: array[:MOST] for name, array in inputs.items()}
    stimulus = {name: array[None] if unit.timing == "event" else array for name, array in some.items()}
    cases = Cases("edge", "what is shown", stimulus)
    right = rows.evaluate(unit, config, cases, compiled_from=MOST + 1)
    answers = Answers(unit, config, [right])
    answers_to: dict[str, list[dict[str, Any]]] = {taken: []} if taken else {}
    for each in unit.variants:
        answers_to.setdefault(each.decision, []).append({"says": each.says, "rows": _rows(answers, right, cases, each)})
    for id in unit.unobservable:
        answers_to.setdefault(id, [])
    return [_entry(unit, id, others, id == taken) for id, others in answers_to.items()]


def ranges(places: Sequence[int]) -> list[list[int]]:
    """Ascending numbers as [first, last] of their runs."""
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][1] + 1:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    return runs


def _rows(answers: Answers, right: rows.Block, cases: Cases, each: other.Variant) -> list[list[int]] | None:
    wrong = other.device(answers.unit, answers.config, [each])
    if wrong is None:
        return None
    try:
        got = rows.evaluate(answers.unit, wrong.config, cases, compiled_from=MOST + 1, device=wrong)
    except (Refused, RefusedType):
        return None
    return ranges(np.flatnonzero(devices.unlike(answers, right, got)).tolist())


def _entry(unit: AnyUnit, id: str, others: list[dict[str, Any]], taken: bool) -> dict[str, Any]:
    known = decisions.of_unit(unit.key, id)  # a fault has no entry, nor a decision of a unit registered by call
    return {
        "id": id,
        "title": known.title if known else "",
        "text": known.text if known else "",
        "taken": taken,
        "others": others,
        "reason": unit.unobservable.get(id, ""),
    }
