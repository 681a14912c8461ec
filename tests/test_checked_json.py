"""JSON that refemu writes for itself: whatever is not what was written is absent."""

import json
import os
from pathlib import Path

import pytest

from refemu import checked_json

WRITTEN = checked_json.dump({"depends": {"model": "tiny"}, "value": [6.07, None, "a"]})


def test_written_document_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(WRITTEN)

    assert checked_json.load(tmp_path / "a.json") == {"depends": {"model": "tiny"}, "value": [6.07, None, "a"]}
    assert list(json.loads(WRITTEN)) == ["depends", "seal", "value"]


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"null", b"\xff", b"[" * 200_000, b'{"a":' * 200_000, b'{"value": 1}', b'{"seal": 1}'),
        WRITTEN.replace(b"6.07", b"6.17"),
        WRITTEN.replace(b"6.07", b"NaN"),
        WRITTEN[:-10],
        WRITTEN.replace(b"null", b"null,null"),
        b"1" * 5000,
    ],
    ids=range(14),
)
def test_damaged_document_is_missing(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)

    assert checked_json.load(tmp_path / "a.json") is None


def test_special_file_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.json").write_bytes(WRITTEN)
    monkeypatch.setattr(checked_json, "LONGEST", len(WRITTEN) - 1)

    assert [checked_json.load(tmp_path / name) for name in ("folder", "pipe", "none", "a.json")] == [None] * 4


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_nan_and_infinity_are_rejected(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        checked_json.dump({"value": number})
