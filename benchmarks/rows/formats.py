"""OVP encode and decode against NumPy (performance rows PERF-17, PERF-18)."""

from collections.abc import Callable

import numpy as np

from benchmarks.pairs import Row, pairs
from benchmarks.rows.arith import normal
from refemu.formats import OVP_INT4
from refemu.formats.olive.compiled import ovp as ovp_compiled

MAGNITUDES = np.array([12, 16, 24, 32, 48, 64, 96], np.float32)


def numpy_encode(x: np.ndarray) -> np.ndarray:
    """A user's code: `where` and `searchsorted` over pairs; grid units to packed nibbles."""
    pair = x.reshape(-1, 2)
    size = np.abs(pair)
    out = size > 9.5
    left = out[:, 0] & (~out[:, 1] | (size[:, 0] > size[:, 1]))
    right = out[:, 1] & ~left
    normal_code = np.clip(np.rint(pair), -7, 7).astype(np.int8) & 15
    ranks = np.searchsorted((MAGNITUDES[1:] + MAGNITUDES[:-1]) / 2, size) + 1
    outlier = ranks.astype(np.int8) | np.where(pair < 0, 8, 0).astype(np.int8)
    low = np.where(left, outlier[:, 0], np.where(right, 8, normal_code[:, 0]))
    high = np.where(right, outlier[:, 1], np.where(left, 8, normal_code[:, 1]))
    return (low | (high << 4)).astype(np.uint8)


def encode() -> list[Row]:
    """float32 grid units to packed nibbles."""
    x = normal((1 << 12, 1 << 8), 3) * np.float32(3)
    return [
        pairs(
            "PERF-17",
            "OVP_INT4 encode 2^20 float32 to packed pairs",
            "NumPy where chain",
            lambda: numpy_encode(x),
            lambda: ovp_compiled.encode_pairs(OVP_INT4, x),
            lambda theirs, ours: np.array_equal(theirs, ours.reshape(-1)),
            30,
        )
    ]


def decode() -> list[Row]:
    """Packed pairs to grid values."""
    tensor = OVP_INT4.encode(normal((1 << 12, 1 << 8), 3) * np.float32(3))
    packed = tensor.pairs()
    table = ovp_compiled.decode_pairs(OVP_INT4, np.arange(256, dtype=np.uint8), strict=False).reshape(256, 2)
    return [
        pairs(
            "PERF-18",
            "OVP_INT4 decode 2^19 packed pairs to int8",
            "np.take on a 256-entry table",
            lambda: np.take(table, packed, axis=0),
            lambda: ovp_compiled.decode_pairs(OVP_INT4, packed),
            lambda theirs, ours: np.array_equal(theirs.reshape(-1), ours.reshape(-1)),
            5,
        )
    ]


ROWS: dict[str, Callable[[], list[Row]]] = {"PERF-17": encode, "PERF-18": decode}
