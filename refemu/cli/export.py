"""`refemu export`: a set in the text forms of other harnesses."""

import argparse
import sys
from pathlib import Path


def run(arguments: argparse.Namespace) -> int:
    """Write a set as text, to a file or to standard output; returns 0."""
    from refemu import golden
    from refemu.golden import exchange, store

    lines = exchange.export(golden.load(arguments.set), arguments.form)
    if arguments.out is None:
        sys.stdout.writelines(lines)
    else:
        store.write_files({Path(arguments.out): "".join(lines).encode()})
    return 0
