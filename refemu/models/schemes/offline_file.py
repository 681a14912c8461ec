"""The file of what a scheme learns offline: an .npz without pickled objects or dates, described by canonical JSON.

`what` is the thing that refusals name, such as "calibration".
"""

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from refemu import scratch
from refemu.arith.archive import Archive
from refemu.arith.checks import Refused
from refemu.models.prepared.prepared_cache import PreparedCache

T = TypeVar("T")
VERSION = 1  #: of the file


def to_bytes(description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The file: equal contents give equal bytes, on one platform."""
    text = json.dumps({"version": VERSION, **description}, sort_keys=True, separators=(",", ":"))
    container = io.BytesIO()
    named: Any = {"description": np.frombuffer(text.encode("ascii"), np.uint8), **arrays}
    np.savez(container, allow_pickle=False, **named)  # stored, with no date in it
    return container.getvalue()


def save(path: str | Path, data: bytes) -> None:
    """Write a file, all of it or nothing."""
    scratch.write_file(Path(path), data, shared=True)


def remembered(
    prepared_cache: PreparedCache, tokens: Sequence[Sequence[int]], make: Callable[[], bytes]
) -> tuple[bytes, Path]:
    """The file that `make` made of these texts at an earlier start, or makes now and keeps; and where it lies.

    Only for a shelf that keeps something.
    """
    assert prepared_cache.folder is not None
    name = f"tokens-{tokens_digest(tokens)}"
    file = prepared_cache.item(name, lambda: {"file": np.frombuffer(make(), np.uint8)})["file"]
    return file.tobytes(), prepared_cache.folder / name


def tokens_digest(tokens: Sequence[Sequence[int]]) -> str:
    """Digest of texts as token ids."""
    total = hashlib.sha256()
    for text in tokens:
        total.update(np.array(text, "<i8").tobytes() + b"|")
    return total.hexdigest()[:24]


def load(path: str | Path, what: str, parse: Callable[[Archive], T]) -> tuple[dict[str, Any], T]:
    """The description, and what `parse` makes of the arrays. Refuses a missing, damaged or foreign file."""
    where = Path(path)
    if not where.is_file():
        raise Refused(f"{what} {where}: no such file")
    return read(where.read_bytes(), where, what, parse)


def read(data: bytes, where: Path, what: str, parse: Callable[[Archive], T]) -> tuple[dict[str, Any], T]:
    """The same of the bytes of a file; where: its path, for messages."""
    try:
        archive = Archive(data, where.name, deflated=False)
        description = json.loads(archive.array("description").tobytes())
        parsed, version = parse(archive), description.pop("version")
    except Exception as error:  # whatever a damaged container makes zipfile, NumPy and json raise
        raise Refused(f"{what} {where}: not a readable {what}: {error or type(error).__name__}") from error
    if version != VERSION:
        raise Refused(f"{what} {where}: version {VERSION} is needed, got {version!r}")
    return description, parsed
