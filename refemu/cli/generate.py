"""`refemu generate`: golden vectors of units, with cases of a running model."""

import argparse
import dataclasses

from refemu.cli.output import print_json, print_table, progress, size


def run(arguments: argparse.Namespace) -> int:
    """Write the sets and print what was made; returns 0."""
    from refemu import golden
    from refemu.models import text

    with progress() as bar:
        made = golden.generate(
            arguments.out,
            units=arguments.unit,
            kinds=None if arguments.kinds is None else arguments.kinds.split(","),
            model=arguments.model,
            scheme=arguments.scheme,
            text=text.read(arguments.text) if arguments.text else None,
            tokens=arguments.tokens,
            seed=arguments.seed,
            hex=arguments.hex,
            bin=arguments.bin,
            progress=bar,
        )
    if arguments.json:
        print_json([dataclasses.asdict(one) for one in made])
        return 0
    kinds = [
        kind for kind in ("paper", "edge", "random", "exhaustive", "model") if any(kind in one.kinds for one in made)
    ]
    rows = [[one.name, one.rows, *(one.kinds.get(kind, "") for kind in kinds), size(one.bytes)] for one in made]
    columns = ["set", "rows", *kinds, "size"]
    print_table(f"golden vectors in {arguments.out}", columns, rows, columns[1:])
    return 0
