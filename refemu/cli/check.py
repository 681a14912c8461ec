"""`refemu check`: regenerate the sets in a folder and compare every byte, or check answers on standard input."""

import argparse
import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from refemu.cli.output import print_json, print_table
from refemu.cli.progress import progress

if TYPE_CHECKING:
    from refemu.golden import Checked, Report
    from refemu.golden.compare.pipe import Outcome

UNUSABLE = 2  #: exit code if a set could not be checked


def run(arguments: argparse.Namespace) -> int:
    """Print a line for each set and every finding; return 0 if all bytes are equal, 2 if a set is invalid, else 1."""
    if arguments.stdin:
        return _stream(arguments)
    from refemu import golden
    from refemu.arith.checks import Refused

    if arguments.explain:
        raise Refused("check: --explain needs --stdin; use `refemu diff --explain` for the answers to a set")
    if arguments.any_nan:
        raise Refused("check: --any-nan needs --stdin; a regenerated set is compared byte for byte")
    if arguments.rows is not None:
        raise Refused("check: --rows needs --stdin; the manifest of a set has its number of rows")
    with progress() as bar:
        report = golden.check(arguments.dir, progress=bar)
    if arguments.json:
        print_json("check", {"equal": report.equal, **dataclasses.asdict(report)})
    else:
        _print(report, arguments.dir)
    for checked in report.refused:
        print(f"refemu: {checked.refused}", file=sys.stderr)
    return UNUSABLE if report.refused else int(not report.equal)


def _print(report: "Report", folder: str) -> None:
    """Print a line for each set, then every finding."""
    rows = [
        [checked.name, checked.rows, checked.files, checked.how, _result(checked), checked.note]
        for checked in report.sets
    ]
    print_table(f"check of {folder}", ["set", "rows", "files", "how", "result", "note"], rows, ["rows", "files"])
    for finding in report.findings:
        print(finding)


def _result(checked: "Checked") -> str:
    if checked.refused:
        return "not checked"
    return f"{len(checked.findings)} different" if checked.findings else "equal"


def _stream(arguments: argparse.Namespace) -> int:
    """Check the answers of a device on standard input; return 0 if they are right, else 1."""
    from refemu import units
    from refemu.arith.checks import Refused
    from refemu.golden.compare import pipe
    from refemu.golden.files import masks

    if arguments.unit is None:
        raise Refused("check: --stdin needs --unit")
    unit, config = units.choose(arguments.unit, arguments.config)
    if sys.stdin is None:
        raise Refused("check: standard input is closed; nothing was compared")
    with contextlib.suppress(OSError):  # a stream without a file descriptor
        os.set_blocking(sys.stdin.buffer.fileno(), True)  # else a pause of the device would look like the end
    outcome = pipe.check(unit, config, sys.stdin.buffer, arguments.rows, arguments.any_nan, arguments.explain)
    if arguments.json:
        print_json("check", _plain(outcome))
    elif outcome.passed:
        print(f"PASS {outcome.rows}{masks.remark(outcome.any_nan)}")
    else:
        print("\n".join(_failed(outcome, f"{unit.name}-{config}{masks.remark(outcome.any_nan)}")))
    return int(not outcome.passed)


def _plain(outcome: "Outcome") -> dict[str, Any]:
    """The result as JSON; explanations have the form of `refemu diff`."""
    fields = [field.name for field in dataclasses.fields(outcome) if field.name != "explained"]
    document = {"passed": outcome.passed, **{name: getattr(outcome, name) for name in fields}}
    seen = outcome.explained
    if seen is None:
        return document
    parts = [part.plain() for part in seen.diagnosis.explanations]
    return {**document, "where": dataclasses.asdict(seen.where), "explanations": parts}


def _failed(outcome: "Outcome", name: str) -> Iterator[str]:
    if outcome.first is not None:
        first = outcome.first
        yield f"FAIL {outcome.rows_differ} of {outcome.rows} rows differ from {name}"
        yield (
            f"line {first['line']}: stimulus {first['stimulus']}, port {first['port']}, lane {first['lane']}: "
            f"got {first['got']}, want {first['want']}"
        )
    if outcome.lost:
        yield f"FAIL {outcome.lost}"
    if outcome.explained is not None:
        yield from outcome.explained.lines
