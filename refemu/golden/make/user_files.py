"""Files that a person fills in beside a golden set: what is there stays, and nothing of another set is mixed in."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from refemu.arith.checks import Refused


def missing(
    texts: Mapping[Path, bytes], name: str, users: Collection[str], common: Collection[str] = ()
) -> tuple[dict[Path, bytes], list[Path]]:
    """What of `texts` to write, and what stays there unlike what would be written. name: of the set.

    users: names of files that are the user's to change. common: of those that are alike for all sets. Refused: another
    file that is there and does not name the set, for it would run another.
    """
    there = [path for path in texts if path.exists() and path.name not in users]
    for path in there:
        if path.name not in common and not mentions(name, path):
            raise Refused(
                f"{path}: is not of the bench of {name}: nothing was changed. Choose another folder, or move "
                "the bench that is there away"
            )
    return (
        {path: data for path, data in texts.items() if not path.exists()},
        [path for path in there if path.read_bytes() != texts[path]],
    )


def mentions(name: str, path: Path) -> bool:
    """Whether a file names the set `name`."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])".encode(), path.read_bytes()) is not None
