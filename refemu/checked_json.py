"""JSON files that refemu writes for itself and reads back: what is damaged or changed counts as absent.

A file is an object with the sha256 of the rest of it. Whoever reads one gets what was written, or nothing: whether the
file is cut, edited, nested without end, larger than such a file can be, or no file at all.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SEAL = "seal"
LONGEST = 1 << 24  #: bytes; the largest, a study's measurements of every layer, takes a hundredth


def dump(document: Mapping[str, Any]) -> bytes:
    """The sealed text of an object. ValueError: it contains NaN or infinity, which JSON has no numbers for."""
    return f"{_text({**document, SEAL: _seal(document)})}\n".encode()


def load(path: Path) -> dict[str, Any] | None:
    """The object that `dump` made; None where the file is anything else."""
    try:
        if not path.is_file() or path.stat().st_size > LONGEST:  # opening a pipe would wait for its writer
            return None
        document = json.loads(path.read_bytes())
        return document if document.pop(SEAL) == _seal(document) else None
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return None


def _seal(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(document).encode()).hexdigest()


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
