"""`refemu check`: regenerate every set below a folder and compare all files byte for byte."""

import argparse
import dataclasses

from refemu.cli.output import print_json, print_table, progress


def run(arguments: argparse.Namespace) -> int:
    """Print a line per set and every finding; returns 0 if all bytes are equal, else 1."""
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
