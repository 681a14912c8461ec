"""`refemu check`: regenerate every set below a folder and compare all files byte for byte."""

import argparse
import dataclasses
import sys

from refemu.cli.output import print_json, print_table, progress


def run(arguments: argparse.Namespace) -> int:
    """Print a line per set and every finding; returns 0 if all bytes are equal, else 1."""
    if arguments.stdin:
        return _stream(arguments)
    from refemu import golden

    with progress() as bar:
        report = golden.check(arguments.dir, progress=bar)
    if arguments.json:
        print_json({"equal": report.equal, **dataclasses.asdict(report)})
        return int(not report.equal)
    rows = [
        [
            one.name,
            one.rows,
            one.files,
            one.how,
            f"{len(one.findings)} different" if one.findings else "equal",
            one.note,
        ]
        for one in report.sets
    ]
    print_table(f"check of {arguments.dir}", ["set", "rows", "files", "how", "result", "note"], rows, ["rows", "files"])
    for finding in report.findings:
        print(finding)
    return int(not report.equal)


def _stream(arguments: argparse.Namespace) -> int:
    """Check what a device sends through the pipe."""
    from refemu import units
    from refemu.arith.checks import Refused, lookup
    from refemu.golden import pipe

    if arguments.unit is None:
        raise Refused("check: --stdin needs --unit")
    unit = units.find(arguments.unit)
    config = arguments.config or next(iter(unit.configs))
    lookup(f"configuration of {unit.name}", config, unit.configs)
    verdict = pipe.check(unit, config, sys.stdin.buffer)
    if arguments.json:
        print_json(dataclasses.asdict(verdict))
    elif verdict.first is None:
        print(f"PASS {verdict.rows}")
    else:
        one = verdict.first
        print(f"FAIL {verdict.rows_differ} of {verdict.rows} rows differ from {unit.name}-{config}\n"
              f"line {one['line']}: stimulus {one['stimulus']}, port {one['port']}, lane {one['lane']}: "
              f"got {one['got']}, want {one['want']}")
    return int(verdict.rows_differ > 0)
