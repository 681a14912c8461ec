"""The kernel transposes every shape, and touches nothing outside it."""

import numpy as np
import pytest

from refemu.arith import panels
from refemu.arith.kernels import transpose_words


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 64), (63, 65), (64, 64), (67, 129), (130, 7), (0, 5), (5, 0)])
def test_the_transposed_words(shape: tuple[int, int]) -> None:
    words = np.random.default_rng(1).integers(0, 1 << 16, shape).astype(np.uint16)
    width = -(-shape[0] // 4) * 4 + 8
    out = np.full((shape[1], width), 7, np.uint16)
    transpose_words(words, out.view(np.uint64))

    assert np.array_equal(out[:, : shape[0]], words.T)
    assert not out[:, shape[0] : -(-shape[0] // 4) * 4].any()  # the rest of a four is 0
    assert (out[:, -(-shape[0] // 4) * 4 :] == 7).all()


def test_panels_are_the_same_whoever_transposes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(2).integers(0, 1 << 15, (4099, 67)).astype(np.uint16).view(np.float16)
    compiled = panels.panels(rows)
    monkeypatch.setattr(panels, "COMPILED", 1 << 62)
    readable = panels.panels(rows)

    assert compiled.values.tobytes() == readable.values.tobytes() and compiled.values.shape == readable.values.shape
    frozen = rows.copy()
    frozen.flags.writeable = False
    assert panels.panels(frozen).values.tobytes() == readable.values.tobytes()
