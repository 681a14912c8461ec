"""The file of the offline results of a scheme: an .npz without pickled objects or dates, described by canonical JSON.

`what` names the result in errors, such as "calibration".
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
VERSION = 1  #: version of the file


def to_bytes(description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of the file: equal contents give equal bytes, on one platform."""
    text = json.dumps({"version": VERSION, **description}, sort_keys=True, separators=(",", ":"))
    container = io.BytesIO()
    named: Any = {"description": np.frombuffer(text.encode("ascii"), np.uint8), **arrays}
    np.savez(container, allow_pickle=False, **named)  # stored, with no date in it
    return container.getvalue()


def save(path: str | Path, data: bytes) -> None:
    """Write a file atomically."""
    scratch.write_file(Path(path), data, shared=True)


def remembered(
    prepared_cache: PreparedCache, tokens: Sequence[Sequence[int]], make: Callable[[], bytes]
) -> tuple[bytes, Path]:
    """The result that `make` computes from these texts, or saved at an earlier start, and the path of its file.

    Only for a cache with a folder.
    """
    assert prepared_cache.folder is not None
    name = f"tokens-{tokens_digest(tokens)}"
    file = prepared_cache.item(name, lambda: {"file": np.frombuffer(make(), np.uint8)})["file"]
    return file.tobytes(), prepared_cache.folder / name


def tokens_digest(tokens: Sequence[Sequence[int]]) -> str:
    """Digest of texts, given as token ids."""
    total = hashlib.sha256()
    for text in tokens:
        total.update(np.array(text, "<i8").tobytes() + b"|")
    return total.hexdigest()[:24]


def load(path: str | Path, what: str, parse: Callable[[Archive], T]) -> tuple[dict[str, Any], T]:
    """The description, and `parse` of the arrays; raises Refused for a missing, damaged or foreign file."""
    where = Path(path)
    if not where.is_file():
        raise Refused(f"{what} {where}: no such file")
    return read(where.read_bytes(), where, what, parse)


def read(data: bytes, where: Path, what: str, parse: Callable[[Archive], T]) -> tuple[dict[str, Any], T]:
    """`read` from the bytes of a file; where: its path, for messages."""
    try:
        archive = Archive(data, where.name, deflated=False)
        description = json.loads(archive.array("description").tobytes())
        parsed, version = parse(archive), description.pop("version")
    except Exception as error:  # zipfile, NumPy and json raise many types
        raise Refused(f"{what} {where}: not a readable {what}: {error or type(error).__name__}") from error
    if version != VERSION:
        raise Refused(f"{what} {where}: version must be {VERSION}, got {version!r}")
    return description, parsed
