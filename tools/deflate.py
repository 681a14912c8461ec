"""Compress the vectors of sets, which take a fourth of the space in git. `make vectors` runs it.

    python -m tools.deflate vectors

Zopfli finds files 6 % smaller than zlib's; any program that reads .npz files inflates them. Arrays, manifests and
digests do not change; `refemu check` compares the arrays of such a file.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import zopfli.zlib

from refemu.golden.files import npz, sets, store

TRIES = 2  #: of zopfli for a member; more take longer and save little


class Smallest:
    """A compressor of one member of a zip, as those of `zlib`."""

    def __init__(self, *_: int | None) -> None:
        self.data = bytearray()

    def compress(self, part: bytes | memoryview) -> bytes:
        """Nothing: zopfli takes a whole member."""
        self.data += part
        return b""

    def flush(self) -> bytes:
        """The deflated member, without zlib's header and checksum."""
        return bytes(zopfli.zlib.compress(bytes(self.data), numiterations=TRIES)[2:-4])


def smallest(data: bytes, thing: str) -> bytes:
    """An .npz with its members deflated by zopfli. Refused: as for `npz.read`."""
    with mock.patch("zipfile._get_compressor", Smallest):
        return npz.deflated(data, thing)


def main(folders: Sequence[str]) -> None:
    """Rewrite every vectors file below some folders."""
    for folder in folders:
        for path in sorted(Path(folder).rglob(sets.VECTORS)):
            store.write_files({path: smallest(path.read_bytes(), str(path))})


if __name__ == "__main__":
    main(sys.argv[1:])
