"""`refemu diff`: the first difference between a golden set and a device's answer, decoded."""

import argparse
import dataclasses
from typing import Any

from refemu.cli.output import print_json


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict; returns 0 if every compared bit is equal, else 1."""
    from refemu import golden
    from refemu.golden import masks

    found = golden.diff(
        arguments.golden,
        arguments.dut,
        explain=arguments.explain,
        ports=arguments.ports.split(",") if arguments.ports else None,
        any_nan=arguments.any_nan,
    )
    if arguments.json:
        print_json({"equal": found.equal, "remark": found.remark, **dataclasses.asdict(found)})
        return int(not found.equal)
    if found.not_compared:
        print(f"not compared, the answer lacks them: {', '.join(found.not_compared)}")
    if found.first is None:
        print(f"{found.set}: {found.rows} rows equal in {', '.join(found.compared)}{masks.remark(found.any_nan)}")
        return 0
    for line in _lines(found, found.first, masks.remark(found.any_nan)):
        print(line)
    return 1


def _lines(found: Any, first: Any, nan: str) -> list[str]:
    """What a person with a waveform open wants to know, the place first. nan: the end of the verdict."""
    ports = ", ".join(f"{name} in {count}" for name, count in found.ports.items())
    lines = [
        f"{found.set}: row {first.row} of case {first.case} ({first.kind}: {first.why})",
        *(f"  in  {port:12} {'  '.join(map(_shown, lanes))}" for port, lanes in first.stimulus.items()),
        f"  {first.array}, lane {first.lane}",
        f"  got  {_shown(first.got)}",
        f"  want {_shown(first.want)}",
    ]
    if first.flags:
        lines.append(f"  flags {' '.join(first.flags)}")
    lines.append(
        f"{found.rows_differ} of {found.rows} rows differ: {ports}"
        + (f"; {found.remark}" if found.remark else "")
        + nan
    )
    return [*lines, *(f"explanation: {sentence}" for sentence in found.explanation)]


def _shown(value: Any) -> str:
    return f"{value.hex} = {value.bits} = {value.decoded}"
