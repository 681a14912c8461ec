"""`refemu explain`: the decisions of a unit, the other answers to each, and the rows of a set that tell them."""

import argparse
import dataclasses
from typing import Any

from refemu.cli.output import print_json, print_table


def run(arguments: argparse.Namespace) -> int:
    """Print a table of the unit's decisions; returns 0."""
    from refemu import golden, units

    unit, config = units.choose(arguments.unit, arguments.config)
    listed = golden.alternatives(unit.name, config, arguments.set)
    if arguments.json:
        alternatives = [dataclasses.asdict(each) for each in listed]
        document = {"unit": unit.name, "config": config, "set": arguments.set, "alternatives": alternatives}
        print_json({**document, "unobservable": dict(unit.unobservable)})
        return 0
    columns = ["decision", "other answer", "parameters", *(["rows"] if arguments.set else [])]
    print_table(f"decisions of {unit.name}-{config}", columns, [_row(each, arguments.set) for each in listed], ["rows"])
    for id, reason in unit.unobservable.items():
        print(f"{id}: no other answer shows: {reason}")
    print("docs/decisions.md says why each was decided as it is")
    return 0


def _row(each: Any, counted: bool) -> list[Any]:
    parameters = ", ".join(f"{name}={value}" for name, value in each.parameters.items() if name != "device")
    counts = [("-" if each.rows is None else each.rows)] if counted else []
    return [each.decision, each.says, parameters, *counts]
