"""Sequential products by tiles and by vectors, from panels of both widths, as the readable form has them."""

from typing import Any

import numpy as np
import pytest

from refemu.arith import dot, fp16
from refemu.arith.kernels import matmul
from refemu.arith.orders import Sequential
from refemu.arith.panels import Panels, panels

TILES: dict[str, Any] = {
    "fp32": matmul.matmul_fp32,
    "fp32_fma": matmul.matmul_fma32,
    "fp16": matmul.matmul_fp16,
    "fp16_fma": matmul.matmul_fma16,
}
VECTORS: dict[str, Any] = {
    "fp32": matmul.vector_fp32,
    "fp32_fma": matmul.vector_fma32,
    "fp16": matmul.vector_fp16,
}


def operands(rows: int, half: bool) -> tuple[np.ndarray, np.ndarray]:
    """a (rows, 13) and w (70, 13), whose sums round."""
    draw = np.random.default_rng(rows)
    a, w = (draw.normal(size=shape).astype(np.float16) for shape in ((rows, 13), (70, 13)))
    return fp16.to_f32(a), w if half else fp16.to_f32(w)


def sides(b: Panels) -> tuple[np.ndarray, np.ndarray]:
    """Panels as kernels take them: wide and half, one of which is empty."""
    half = b.values.dtype == np.uint16
    none = np.empty((0, 0, 0), np.float32 if half else np.uint16)
    return (none, b.values) if half else (b.values, none)


@pytest.mark.long
@pytest.mark.parametrize("half", [True, False], ids=["half", "wide"])
@pytest.mark.parametrize("acc", TILES)
@pytest.mark.parametrize("rows", [1, 4, 19])
@pytest.mark.parametrize("high", [8, 32])
def test_tiles(acc: Any, half: bool, rows: int, high: int) -> None:
    """Each tile writes its own columns; rows and terms that make no whole four are computed too."""
    a, w = operands(rows, half)
    b, tile = panels(w), 32
    out = np.full((rows, len(w)), np.nan, np.float32)
    options = [False] if acc == "fp16" else []
    count = b.values.shape[0] * -(-b.values.shape[2] // tile) * -(-rows // high)
    with np.errstate(all="ignore"):
        TILES[acc](a, *options, *sides(b), high, tile, out, 1, count)
        assert np.isnan(out).any()
        TILES[acc](a, *options, *sides(b), high, tile, out, 0, 1)
        expected = dot.matmul(a, fp16.to_f32(w.astype(np.float16)).T, order=Sequential(), acc=acc)

    assert out.tobytes() == expected.tobytes()


@pytest.mark.long
@pytest.mark.parametrize("half", [True, False], ids=["half", "wide"])
@pytest.mark.parametrize("acc", VECTORS)
def test_vectors(acc: Any, half: bool) -> None:
    """One row, columns from a border that is not a multiple of the block."""
    a, w = operands(1, half)
    b = panels(w)
    out = np.full(len(w), np.nan, np.float32)
    options = [False] if acc == "fp16" else []
    with np.errstate(all="ignore"):
        VECTORS[acc](a[0], *options, *sides(b), out, 32, b.values.shape[0] * b.values.shape[2])
        assert np.isnan(out[:32]).all() and not np.isnan(out[32:]).any()
        VECTORS[acc](a[0], *options, *sides(b), out, 0, 32)
        expected = dot.matmul(a, fp16.to_f32(w.astype(np.float16)).T, order=Sequential(), acc=acc)

    assert out.tobytes() == expected[0].tobytes()


def test_bounded_products_are_the_same() -> None:
    """Where nothing comes near the overflow of fp16."""
    a, w = operands(4, True)
    out = [np.empty((4, len(w)), np.float32) for _ in range(2)]
    for bounded, result in zip((True, False), out, strict=True):
        matmul.matmul_fp16(a, bounded, *sides(panels(w)), matmul.ROWS, matmul.TILE, result, 0, 1)

    assert out[0].tobytes() == out[1].tobytes()
