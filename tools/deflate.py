"""Compress the vectors of sets, which take a fourth of the space in git. `make vectors` runs it.

    python -m tools.deflate vectors

Arrays, manifests and digests do not change; `refemu check` compares the arrays of such a file.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from refemu.golden.files import npz, sets, store


def main(folders: Sequence[str]) -> None:
    """Rewrite every vectors file below some folders."""
    for folder in folders:
        for path in sorted(Path(folder).rglob(sets.VECTORS)):
            store.write_files({path: npz.deflated(path.read_bytes(), str(path))})


if __name__ == "__main__":
    main(sys.argv[1:])
