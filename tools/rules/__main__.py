"""Check the style rules.

python -m tools.rules            # all rules in all files: a line per violation, exit code 1 if there is any
python -m tools.rules PATH ...   # violations in these files and folders
python -m tools.rules --list     # each rule in a line
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools import rules

ROOT = Path(__file__).resolve().parents[2]


def main(words: Sequence[str]) -> int:
    """Print violations. Returns 1 if there is any."""
    options = argparse.ArgumentParser(prog="python -m tools.rules", description="Check the style rules.")
    options.add_argument("paths", nargs="*", metavar="PATH", type=Path, help="files and folders; default all")
    options.add_argument("--list", action="store_true", help="print the rules")
    options.add_argument("--root", type=Path, default=ROOT, help="the repository")
    arguments = options.parse_args(words)
    if arguments.list:
        print(*(f"{name:15} {rule.summary}" for name, rule in sorted(rules.RULES.items())), sep="\n")
        return 0
    root, paths = arguments.root.resolve(), [path.resolve() for path in arguments.paths or [arguments.root]]
    for path in paths:
        if not path.is_relative_to(root) or not path.exists():
            options.error(f"no such file in {root.name}: {path.name}")
    places = [str(path.relative_to(root)) for path in paths]
    lines = [
        each for each in rules.violations(rules.House.read(root)) if any(map(Path(each.path).is_relative_to, places))
    ]
    for line in lines:
        print(line)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
