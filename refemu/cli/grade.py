"""`refemu grade`: the wrong devices that a stimulus convicts, and those that it lets pass."""

import argparse
import dataclasses
from time import perf_counter
from typing import Any

from refemu.arith.checks import Refused
from refemu.cli.output import print_json, print_table

SHOWN = 20  #: survivors of a class in the table; --json has all


def run(arguments: argparse.Namespace) -> int:
    """Print the grade; returns 0 where no class has a hole, with --strict where none is undecided either, else 1."""
    from refemu.golden.grade import entry

    classes = arguments.classes.split(",") if arguments.classes else None
    start = perf_counter()
    if arguments.unit:
        result = entry.grade_stimulus(
            arguments.stimulus, arguments.unit, arguments.config, classes, missing=arguments.write_missing
        )
    elif arguments.config:
        raise Refused("grade: --config goes with --unit; a set names its own configuration")
    else:
        result = entry.grade_set(arguments.stimulus, classes, missing=arguments.write_missing)
    if arguments.json:
        print_json({**contract(result), "seconds": round(perf_counter() - start, 3)})
    else:
        _print(result)
    if arguments.write_missing and not arguments.json:
        target = f"{arguments.write_missing}/{result.unit}-{result.config}"
        print("there is no hole; nothing was written" if result.passes else f"{target}: convicts every hole")
    undecided = any(counts.undecided for counts in result.classes.values())
    return int(not result.passes or (arguments.strict and undecided))


def contract(result: Any) -> dict[str, Any]:
    """A grade as tools outside read it."""
    survivors = []
    for survivor in result.survivors:
        fields = dataclasses.asdict(survivor)
        survivors.append({"class": fields.pop("klass"), **fields})
    return {**dataclasses.asdict(result), "survivors": survivors}


def _print(result: Any) -> None:
    rows = [
        (klass, counts.faults, counts.convicted, counts.holes, counts.undecided, counts.raised, _percent(counts.grade))
        for klass, counts in result.classes.items()
    ]
    numbers = ("faults", "convicted", "holes", "undecided", "raised", "grade")
    title = f"{result.set}: {result.rows} rows"
    print_table(title, ("class", *numbers), rows, numbers)
    seen = ("bits", "0", "1", "rising", "falling")
    print_table("bits of the outputs that are seen", ("output", *seen), _toggles(result.toggle, seen), seen)
    for klass in result.classes:
        survivors = [survivor for survivor in result.survivors if survivor.klass == klass]
        for survivor in survivors[:SHOWN]:
            print(f"{survivor.verdict:9}  {klass:9}  {survivor.fault}; {survivor.reason}")
            if survivor.row is not None:
                print(f"           told by  {'  '.join(_port(name, words) for name, words in survivor.row.items())}")
        if len(survivors) > SHOWN:
            print(f"           {klass:9}  and {len(survivors) - SHOWN} more; --json has all")


def _toggles(table: Any, seen: Any) -> list[tuple[Any, ...]]:
    return [(name, *(counts[column] for column in seen)) for name, counts in table.items()]


def _port(name: str, words: Any) -> str:
    last = words[-1] if len(words[-1]) <= 40 else words[-1][:37] + "..."
    return f"{name} {last}" + (f" (event {len(words) - 1})" if len(words) > 1 else "")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
