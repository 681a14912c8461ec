"""`refemu new-unit`: write a package with a working unit, to replace with a block of your own."""

import argparse
from pathlib import Path

from refemu.cli.output import print_json


def run(arguments: argparse.Namespace) -> int:
    """Write the package; return 0."""
    from refemu.golden.start import package

    name = arguments.name
    folder = Path(arguments.out or f"refemu-{name.replace('_', '-')}")
    written = package.write(name, folder)
    if arguments.json:
        print_json("new-unit", {"unit": name, "folder": str(folder), "files": [str(path) for path in written]})
        return 0
    print(f"{folder}: {len(written)} files; README.md describes them")
    print(f"pip install -e '{folder}[test]' && pytest {folder}")
    return 0
