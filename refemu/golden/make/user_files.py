"""Files to fill in next to a golden set: existing ones are not replaced, and sets are not mixed."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from refemu.arith.checks import Refused


def missing(
    texts: Mapping[Path, bytes], name: str, users: Collection[str], common: Collection[str] = ()
) -> tuple[dict[Path, bytes], list[Path]]:
    """The `texts` to write, and existing files that differ and are not replaced. name: of the set.

    users: names of files that a user edits. common: names of files that are equal for all sets. Refused: any other
    existing file that does not name the set, since it would run another one.
    """
    there = [path for path in texts if path.exists() and path.name not in users]
    for path in there:
        if path.name not in common and not mentions(name, path):
            raise Refused(
                f"{path}: belongs to another set than {name}; nothing was changed. Choose another folder, or move "
                "the existing bench away"
            )
    return (
        {path: data for path, data in texts.items() if not path.exists()},
        [path for path in there if path.read_bytes() != texts[path]],
    )


def mentions(name: str, path: Path) -> bool:
    """Whether a file names the set `name`."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])".encode(), path.read_bytes()) is not None
