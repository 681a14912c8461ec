"""`refemu diff`: compare the answers of a device with a golden set, and decode the first difference."""

import argparse
import dataclasses
from typing import Any

from refemu.cli.output import print_json


def run(arguments: argparse.Namespace) -> int:
    """Print the result; return 0 if every compared bit is equal, else 1."""
    from refemu import golden
    from refemu.golden.compare import diff_text
    from refemu.golden.files import origin

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
        force=arguments.force,
    )
    if arguments.write_missing and difference.diagnosis:
        _write_missing(arguments, difference)
    source = origin.of(arguments.golden)
    if arguments.json:
        print_json("diff", {**diff_text.document(difference), "origin": dataclasses.asdict(source)})
    else:
        said = source.sentence(arguments.golden)
        print("\n".join([*diff_text.lines(difference, arguments.full), *([said] if said else [])]))
    return int(not difference.equal)


def _write_missing(arguments: argparse.Namespace, difference: Any) -> None:
    """Write a set with rows that distinguish the best explanations, if the set has none."""
    from pathlib import Path

    from refemu.golden.explain import distinguish
    from refemu.golden.files import store

    store.sweep(Path(arguments.write_missing))
    target = distinguish.write(arguments.golden, difference.diagnosis, Path(arguments.write_missing))
    if not arguments.json:
        print(f"rows that distinguish the explanations: {target or 'the set has them, or none are known'}")


def _cases(arguments: argparse.Namespace) -> int:
    """Compare two versions of a set case by case; return 0 if they are equal, else 1."""
    from refemu import golden
    from refemu.arith.checks import Refused

    if arguments.explain or arguments.ports or arguments.any_nan or arguments.write_missing or arguments.waive:
        raise Refused(
            "diff: --cases compares two sets: leave out --explain, --ports, --any-nan, --waive, --write-missing"
        )
    changes = golden.diff_cases(arguments.golden, arguments.dut)
    if arguments.json:
        print_json("diff", {"same": changes.same, **dataclasses.asdict(changes)})
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
        f"{changes.new}: {changes.equal} cases unchanged, {len(changes.added)} added, {len(changes.removed)} removed, "
        f"{len(changes.renamed)} renamed, {len(changes.changed)} changed"
    )
    return int(not changes.same)
