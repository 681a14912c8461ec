"""Files next to a set: missing ones are written, existing ones unchanged, another set's are rejected."""

from pathlib import Path

import pytest

from refemu.arith.checks import Refused
from refemu.golden.make import user_files


def test_only_missing_files_are_written(tmp_path: Path) -> None:
    texts = {tmp_path / name: f"of a-b {name}".encode() for name in ("own", "bench", "common", "new", "same")}
    (tmp_path / "own").write_text("mine")
    (tmp_path / "bench").write_text("old, of a-b")
    (tmp_path / "common").write_text("old")
    (tmp_path / "same").write_bytes(texts[tmp_path / "same"])
    write, kept = user_files.missing(texts, "a-b", ["own"], ["common"])

    assert write == {tmp_path / "new": b"of a-b new"}
    assert kept == [tmp_path / "bench", tmp_path / "common"]


@pytest.mark.parametrize("text", ["of a-bc", "of xa-b", "of a-b-c", ""])
def test_file_of_another_set_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "bench").write_text(text)
    with pytest.raises(Refused, match="bench: belongs to another set than a-b; nothing was changed"):
        user_files.missing({tmp_path / "bench": b"a-b"}, "a-b", [])
