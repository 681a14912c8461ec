"""tools/deflate.py: smaller files than zlib's, with the same arrays, which `refemu check` takes."""

import io
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("zopfli", reason="compression of sets needs the extra `test`: zopfli")

from refemu.golden.files import npz, sets
from tools import deflate

ARRAYS = {"in.x": np.arange(4096, dtype=np.uint16) % 77 * 13, "out.y": np.zeros((3, 5), np.int8)}
WHOLE = npz.to_bytes(ARRAYS)


def test_arrays_come_back_from_fewer_bytes(tmp_path: Path) -> None:
    path = tmp_path / "concat" / sets.VECTORS
    path.parent.mkdir()
    path.write_bytes(WHOLE)
    deflate.main([str(tmp_path)])
    small = path.read_bytes()

    assert len(small) < len(npz.deflated(WHOLE, "concat")) < len(WHOLE)
    assert npz.stored(small, WHOLE, "concat") == WHOLE and deflate.smallest(small, "concat") == small
    with np.load(io.BytesIO(small)) as loaded:
        assert all(np.array_equal(loaded[name], array) for name, array in ARRAYS.items())


def test_a_damaged_file_is_rejected_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / sets.VECTORS
    path.write_bytes(WHOLE[:-9])
    with pytest.raises(ValueError, match=r"not a readable \.npz"):
        deflate.main([str(tmp_path)])

    assert path.read_bytes() == WHOLE[:-9]
