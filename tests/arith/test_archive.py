"""A member is inflated only when it is asked for, and its header says beforehand what it is."""

import io
import zipfile

import numpy as np
import pytest

from refemu.arith.archive import Archive, Header
from refemu.arith.checks import Refused


def deflated(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def test_a_header_is_known_without_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of zeros, of which less than a tenth is ever inflated."""
    archive, read = Archive(deflated(a=np.zeros((8, 1 << 17), np.uint8)), "set"), []
    inflate = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda self, n=-1: read.append(n) or inflate(self, n))

    assert archive.names == ("a",)
    assert archive.header("a") == Header((8, 1 << 17), False, np.dtype(np.uint8))
    assert len(read) == 1 and 0 < read[0] < 100_000
    assert archive.array("a").tobytes() == bytes(1 << 20)


def test_compressed_member_is_rejected_without_deflated() -> None:
    with pytest.raises(Refused, match="set: a is compressed by method 8; stored members are read"):
        Archive(deflated(a=np.zeros(3)), "set", deflated=False)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_inflate_without_limit_are_rejected(method: int) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as target:
        target.writestr("a.npy", bytes(1 << 16))

    with pytest.raises(Refused, match=f"a is compressed by method {method}; stored and deflated members are read"):
        Archive(stream.getvalue(), "set")


@pytest.mark.parametrize("member", ["a", "A.npy", "a/b.npy", ".npy"])
def test_members_are_arrays_of_plain_names(member: str) -> None:
    array, stream = io.BytesIO(), io.BytesIO()
    np.save(array, np.zeros(3), allow_pickle=False)
    with zipfile.ZipFile(stream, "w") as target:
        target.writestr(member, array.getvalue())

    with pytest.raises(Refused, match=rf"^set: member '{member}' is not <array>\.npy with a name of "):
        Archive(stream.getvalue(), "set")
