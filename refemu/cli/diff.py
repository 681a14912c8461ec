"""`refemu diff`: the first difference between a golden set and a device's answer, decoded."""

import argparse
import dataclasses
from typing import Any

from refemu.cli.output import print_json

WIDE = 4  #: lanes of an input that are shown


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict; returns 0 if every compared bit is equal, else 1."""
    from refemu import golden
    from refemu.golden.compare import waivers
    from refemu.golden.files import masks

    if arguments.cases:
        return _cases(arguments)
    explain = arguments.explain or arguments.write_missing is not None
    ports = arguments.ports.split(",") if arguments.ports else None
    difference = golden.diff(
        arguments.golden,
        arguments.dut,
        explain=explain,
        ports=ports,
        any_nan=arguments.any_nan,
        waive=arguments.waive,
    )
    remark = masks.remark(difference.any_nan) + waivers.remark(difference.waived, difference.rows_waived)
    if arguments.write_missing and difference.verdict:
        _write_missing(arguments, difference)
    if arguments.json:
        print_json(_json(difference))
        return int(not difference.equal)
    if difference.not_compared:
        print(f"not compared, the answer lacks them: {', '.join(difference.not_compared)}")
    if difference.first is None:
        print(f"{difference.set}: {difference.rows} rows equal in {', '.join(difference.compared)}{remark}")
        return 0
    for line in _lines(difference, difference.first, remark, arguments.full):
        print(line)
    return 1


def _json(difference: Any) -> dict[str, Any]:
    """The contract of `diff --json`: what it compared, where it differs, and with --explain what the device did."""
    plain = {
        field.name: getattr(difference, field.name)
        for field in dataclasses.fields(difference)
        if field.name not in ("first", "where", "verdict")
    }
    first = dataclasses.asdict(difference.first) if difference.first else None
    document = {"equal": difference.equal, "remark": difference.remark, **plain, "first": first}
    document |= {"wrong_rows": difference.rows_differ, "where": dataclasses.asdict(difference.where)}
    verdict = difference.verdict
    searched = {"hypotheses": verdict.hypotheses, "rows": verdict.rows, "verified": verdict.verified} if verdict else {}
    return {**document, "searched": searched, "explanations": [part.plain() for part in difference.explanations]}


def _write_missing(arguments: argparse.Namespace, difference: Any) -> None:
    """A set of rows that tell the best explanations apart, where the set has none."""
    from pathlib import Path

    from refemu.golden.explain import apart

    target = apart.write(arguments.golden, difference.verdict, Path(arguments.write_missing))
    if not arguments.json:
        print(f"rows that tell the explanations apart: {target or 'none is missing, or none is known'}")


def _cases(arguments: argparse.Namespace) -> int:
    """Two versions of a set, case by case."""
    from refemu import golden
    from refemu.arith.checks import Refused

    if arguments.explain or arguments.ports or arguments.any_nan or arguments.write_missing or arguments.waive:
        raise Refused(
            "diff: --cases compares two sets: leave out --explain, --ports, --any-nan, --waive, --write-missing"
        )
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


def _lines(difference: Any, first: Any, remark: str, full: bool) -> list[str]:
    """What a person with a waveform open wants to know, the place first. remark: the end of the verdict."""
    from refemu.golden.explain import telling

    ports = ", ".join(f"{name} in {count}" for name, count in difference.ports.items())
    lines = [
        f"{difference.set}: row {first.row} of case {first.case}, {first.id} ({first.why})",
        *(f"  in  {port:12} {_lanes(lanes, first, full)}" for port, lanes in first.stimulus.items()),
        f"  {first.array}, lane {first.lane}",
        f"  got  {_shown(first.got)}",
        f"  want {_shown(first.want)}",
    ]
    if first.flags:
        lines.append(f"  flags {' '.join(first.flags)}")
    lines.append(
        f"{difference.rows_differ} of {difference.rows} rows differ: {ports}"
        + (f"; {difference.remark}" if difference.remark else "")
        + remark
    )
    if difference.verdict:
        lines += telling.lines(difference.verdict, difference.where, difference.rows, difference.rows_differ)
    return lines


def _lanes(lanes: Any, first: Any, full: bool) -> str:
    """The lanes of an input; of a wide one the lane concerned, or the first of them."""
    if full or len(lanes) <= WIDE:
        return "  ".join(map(_shown, lanes))
    if len(lanes) == first.lanes:
        return f"lane {first.lane} of {len(lanes)}: {_shown(lanes[first.lane])}"
    return f"{'  '.join(lane.hex for lane in lanes[:WIDE])}  ... {len(lanes)} lanes, --full shows them"


def _shown(value: Any) -> str:
    return f"{value.hex} = {value.bits} = {value.decoded}"
