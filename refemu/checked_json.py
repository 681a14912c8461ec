"""JSON files that refemu writes and reads back; a damaged or changed file counts as missing.

A file is an object with the sha256 of its other fields. Reading returns exactly the object that was written, or None if
the file is truncated, edited, nested too deeply, too large, or not a file.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SEAL = "seal"
LONGEST = 1 << 24  #: bytes; the largest file, a study of every layer, has a hundredth of them


def dump(document: Mapping[str, Any]) -> bytes:
    """Format an object with its seal. ValueError: it contains NaN or infinity, which JSON cannot represent."""
    return f"{_text({**document, SEAL: _seal(document)})}\n".encode()


def load(path: Path) -> dict[str, Any] | None:
    """Read an object that `dump` formatted; None if the file has anything else."""
    try:
        if not path.is_file() or path.stat().st_size > LONGEST:  # opening a pipe waits for its writer
            return None
        document = json.loads(path.read_bytes())
        return document if document.pop(SEAL) == _seal(document) else None
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return None


def _seal(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(document).encode()).hexdigest()


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
