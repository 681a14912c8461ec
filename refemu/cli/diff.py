"""`refemu diff`: the first difference between a golden set and a device's answer, decoded."""

import argparse
import dataclasses
from typing import Any

from refemu.cli.output import print_json


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict; returns 0 if every compared bit is equal, else 1."""
    from refemu import golden
    from refemu.golden.files import masks

    if arguments.cases:
        return _cases(arguments)
    explain = arguments.explain
    ports = arguments.ports.split(",") if arguments.ports else None
    difference = golden.diff(arguments.golden, arguments.dut, explain=explain, ports=ports, any_nan=arguments.any_nan)
    if arguments.json:
        print_json({"equal": difference.equal, "remark": difference.remark, **dataclasses.asdict(difference)})
        return int(not difference.equal)
    if difference.not_compared:
        print(f"not compared, the answer lacks them: {', '.join(difference.not_compared)}")
    if difference.first is None:
        print(
            f"{difference.set}: {difference.rows} rows equal in {', '.join(difference.compared)}"
            f"{masks.remark(difference.any_nan)}"
        )
        return 0
    for line in _lines(difference, difference.first, masks.remark(difference.any_nan)):
        print(line)
    return 1


def _cases(arguments: argparse.Namespace) -> int:
    """Two versions of a set, case by case."""
    from refemu import golden
    from refemu.arith.checks import Refused

    if arguments.explain or arguments.ports or arguments.any_nan:
        raise Refused("diff: --cases compares two sets: leave out --explain, --ports and --any-nan")
    changes = golden.diff_cases(arguments.golden, arguments.dut)
    if arguments.json:
        print_json({"same": changes.same, **dataclasses.asdict(changes)})
        return int(not changes.same)
    for id in changes.removed:
        print(f"removed  {id}")
    for id in changes.added:
        print(f"added    {id}")
    for id, other in changes.renamed.items():
        print(f"renamed  {id}  now {other}")
    for id, parts in changes.changed.items():
        print(f"changed  {id}  in {', '.join(parts)}")
    print(
        f"{changes.new}: {changes.equal} cases as before, {len(changes.added)} added, {len(changes.removed)} removed, "
        f"{len(changes.renamed)} renamed, {len(changes.changed)} changed"
    )
    return int(not changes.same)


def _lines(difference: Any, first: Any, nan: str) -> list[str]:
    """What a person with a waveform open wants to know, the place first. nan: the end of the verdict."""
    ports = ", ".join(f"{name} in {count}" for name, count in difference.ports.items())
    lines = [
        f"{difference.set}: row {first.row} of case {first.case}, {first.id} ({first.why})",
        *(f"  in  {port:12} {'  '.join(map(_shown, lanes))}" for port, lanes in first.stimulus.items()),
        f"  {first.array}, lane {first.lane}",
        f"  got  {_shown(first.got)}",
        f"  want {_shown(first.want)}",
    ]
    if first.flags:
        lines.append(f"  flags {' '.join(first.flags)}")
    lines.append(
        f"{difference.rows_differ} of {difference.rows} rows differ: {ports}"
        + (f"; {difference.remark}" if difference.remark else "")
        + nan
    )
    return [*lines, *(f"explanation: {sentence}" for sentence in difference.explanation)]


def _shown(value: Any) -> str:
    return f"{value.hex} = {value.bits} = {value.decoded}"
