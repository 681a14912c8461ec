"""`refemu explain`: the decisions of a unit with the other answers to each, or one decision in full."""

import argparse
import dataclasses
from typing import Any

from refemu.arith.checks import Refused
from refemu.cli.output import print_json, print_table


def run(arguments: argparse.Namespace) -> int:
    """Print a table of the unit's decisions, or all that is known of one; returns 0."""
    from refemu import golden, units
    from refemu.golden.pages import decisions

    if decisions.ID.fullmatch(arguments.unit):
        if arguments.config:
            raise Refused("explain: --config goes with a unit; a set names its own configuration")
        return decision(arguments.unit, arguments.set, arguments.json)

    unit, config = units.choose(arguments.unit, arguments.config)
    listed = golden.alternatives(unit.key, config, arguments.set)
    if arguments.json:
        alternatives = [dataclasses.asdict(each) for each in listed]
        document = {"unit": unit.key, "config": config, "set": arguments.set, "alternatives": alternatives}
        print_json({**document, "unobservable": dict(unit.unobservable)})
        return 0
    columns = ["decision", "other answer", "parameters", *(["rows"] if arguments.set else [])]
    print_table(f"decisions of {unit.name}-{config}", columns, [_row(each, arguments.set) for each in listed], ["rows"])
    for id, reason in unit.unobservable.items():
        print(f"{id}: no other answer shows: {reason}")
    if listed or unit.unobservable:
        first = listed[0].decision if listed else next(iter(unit.unobservable))
        print(f"why each was decided as it is: refemu explain {first}, and likewise of the others")
    return 0


def decision(id: str, path: str | None, as_json: bool) -> int:
    """Print one decision: its text, its test, other answers and where they show; returns 0. path: of a set, or None."""
    from refemu import golden
    from refemu.golden.pages import decisions

    entry = decisions.find(id)
    choices: tuple[Any, ...] = ()
    if path is not None:
        loaded = golden.load(path)
        listed = golden.alternatives(loaded.manifest["unit"], loaded.config, path)
        choices = tuple(each for each in listed if each.decision == id)
    if as_json:
        print_json(
            {**dataclasses.asdict(entry), "set": path, "choices": [dataclasses.asdict(each) for each in choices]}
        )
        return 0
    print(f"{entry.id}  {entry.title}\n\n{entry.text}\n\nPinned by {entry.test}\n")
    if entry.alternatives:
        rows = [(each.unit, each.says, each.set, each.rows) for each in entry.alternatives]
        columns = ("unit", "other answer", "committed set that tells it", "rows")
        print_table("other answers", columns, rows, ["rows"])
    for unit, reason in entry.unobservable.items():
        print(f"{unit}: no other answer shows: {reason}")
    if path is not None:
        print_table(
            f"rows of {path} that tell", ("other answer", "rows"), [_telling(each) for each in choices], ["rows"]
        )
    return 0


def _telling(each: Any) -> tuple[str, Any]:
    return each.says, "-" if each.rows is None else each.rows


def _row(each: Any, counted: bool) -> list[Any]:
    parameters = ", ".join(f"{name}={value}" for name, value in each.parameters.items() if name != "device")
    counts = [("-" if each.rows is None else each.rows)] if counted else []
    return [each.decision, each.says, parameters, *counts]
